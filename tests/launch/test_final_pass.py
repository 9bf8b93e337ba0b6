"""The end of a run: weights that the last validation has scored are not encoded again, and tables have no empty row."""

import io
from dataclasses import replace

import pytest
from jobs import run_job
from rich.console import Console

from juzhen.core.result import Result
from launch.console import result_table
from lightning_modules.base import SentenceModule
from lightning_modules.biencoder import BiEncoder
from lightning_modules.crossencoder import CrossEncoderModule

DEV = "evaluation.splits=[dev]"


@pytest.fixture
def passes(monkeypatch):
    """Names of the evaluation loops that were gone through."""
    found = []

    def watch(name):
        before = getattr(SentenceModule, name)

        def noted(self):
            found.append(name.split("_")[1])
            return before(self)

        monkeypatch.setattr(SentenceModule, name, noted)

    watch("on_validation_epoch_end")
    watch("on_test_epoch_end")
    return found


@pytest.mark.parametrize(
    ("words", "is_known"),
    [
        ((DEV,), True),
        ((DEV, "dataset=[demo_retrieval]", "loss=info_nce"), True),
        ((DEV, "model=crossencoder"), True),
        (("evaluation.splits=[dev,test]",), False),
        ((DEV, "benchmark=demo"), False),
        ((DEV, "evaluation.transfer=[demo_qmc]"), False),
        (
            (DEV, "optimizer.lr=1.0", "training.validate_every=1 steps"),
            False,
        ),  # the first weights are the best
    ],
)
@pytest.mark.slow
def test_what_validation_has_put_out_is_not_put_out_again(
    tmp_path, tiny_backbone, passes, monkeypatch, words, is_known
):
    many = (*words, "evaluation.bootstrap_samples=40")
    run = Result.read(run_job(tmp_path / "once", tiny_backbone, *many))
    assert passes.count("test") == (0 if is_known else 1)
    for kind in (BiEncoder, CrossEncoderModule):
        monkeypatch.setattr(kind, "validates_as_tested", False)
    again = Result.read(run_job(tmp_path / "twice", tiny_backbone, *many))
    assert passes.count("test") == (1 if is_known else 2)
    assert run.scores == again.scores
    assert run.weights == again.weights


@pytest.mark.parametrize("words", [("evaluation.cache_embeddings=true",), ("model=mlm",)])
@pytest.mark.slow
def test_another_evaluator_puts_out_its_own(tmp_path, tiny_backbone, passes, words):
    run_job(tmp_path, tiny_backbone, DEV, f"cache_dir={tmp_path}/cache", *words)
    assert passes[-1] == "test"


def first_column(result):
    """Labels of the rows that are printed."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(result_table(result))
    cells = [line.split("│")[1].strip() for line in console.export_text().splitlines() if "│" in line]
    return [one for one in cells if one]


def test_a_set_for_training_alone_has_no_row(tmp_path, tiny_backbone):
    run = Result.read(run_job(tmp_path, tiny_backbone, "benchmark=none"))
    config = run.config | {"dataset": {"mined": run.config["dataset"]["demo_sts"] | {"name": "mined"}}}
    mined = config["dataset"]["mined"]
    names = first_column(run)
    assert names == ["demo_sts"]
    nothing = {
        f"{split}/mined/spearman": replace(next(iter(run.scores.values())), value=None)
        for split in ("dev", "test")
    }
    scores = run.scores | nothing
    with_files = replace(run, config=config, scores=scores)
    assert first_column(with_files) == [
        "demo_sts",
        "mined",
    ]  # its file was not there
    layout = mined["layouts"][mined["layout"]]
    for files in ({"train": "mined.tsv"}, {"train": "mined.tsv", "dev": None}):
        mined["layouts"] = {mined["layout"]: layout | {"files": files}}
        assert first_column(replace(run, config=config, scores=scores)) == names
