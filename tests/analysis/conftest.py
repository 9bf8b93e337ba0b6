import pytest
from jobs import run_job

from juzhen.cli.main import main
from juzhen.data import rows


@pytest.fixture
def without_promised_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small files of these tests have not the rows that the real sets promise."""
    load = rows.load_examples

    def without_promise(config, split, **more):
        config.rows[split] = None
        return load(config, split, **more)

    monkeypatch.setattr(rows, "load_examples", without_promise)


@pytest.fixture(scope="session")
def runs(tmp_path_factory, tiny_backbone):
    """A cross-encoder and a bi-encoder on the same pairs, one of them graded; little learnt, all finished."""
    folder = tmp_path_factory.mktemp("runs")
    steps = ("training.duration=30 steps", "dataset=[demo_qmc,demo_sts]")
    joint = run_job(folder, tiny_backbone, *steps, "model=crossencoder", "loss=bce")
    return joint, run_job(folder, tiny_backbone, *steps, "loss=cosent")


@pytest.fixture(scope="session")
def hasty_runs(tmp_path_factory, tiny_backbone):
    """As `runs`, after two steps, of a few rows."""
    words = ("training.duration=2 steps", "dataset=[demo_qmc,demo_sts]", "debug_rows=16")
    folder = tmp_path_factory.mktemp("hasty")
    joint = run_job(folder, tiny_backbone, *words, "model=crossencoder", "loss=bce")
    return joint, run_job(folder, tiny_backbone, *words, "loss=cosent")


@pytest.fixture(scope="session")
def fitted(runs, tmp_path_factory):
    """The folder of what calibrate and fuse have fitted."""
    folder = tmp_path_factory.mktemp("fitted")
    assert main(["fuse", *map(str, runs), "--output", str(folder)]) == 0
    assert main(["calibrate", str(runs[1]), "--no-plot", "--output", str(folder)]) == 0
    return folder
