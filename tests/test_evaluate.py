"""Columns that come later are filled into finished runs, with the numbers of a run that had them from the start."""

import fcntl
import json
import shutil
from pathlib import Path

import pytest
from jobs import run_job

import train
from juzhen.cli.main import main
from juzhen.core.result import Result
from juzhen.data.readers import BUILTIN_DATA
from juzhen.encoders import load_encoder
from juzhen.evaluation import evaluate
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.report.matrix import build_matrix

WORDS = (
    "training.duration=2 steps",
    "debug_rows=24",
    "evaluation.bootstrap_samples=40",
    "evaluation.untrained=true",
)


def local_sets(folder: Path, *names: str, splits=("train", "dev", "test")) -> Path:
    """A data_dir with some of the demo sets."""
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for split in splits:
            shutil.copy(BUILTIN_DATA / name / f"{split}.tsv", folder / name)
    return folder


def suite_of(data_dir: Path, *names: str) -> list[str]:
    """A suite of demo sets that are read below `data_dir`."""
    return ["benchmark=demo", f"data_dir={data_dir}", *(f"evaluate.{name}.source=local" for name in names)]


def fill(*arguments: str | Path) -> int:
    return main(["evaluate", *map(str, arguments)])


def assert_alike(run: Path, whole: Path) -> None:
    """The same sets, rows and scores; what is no rank up to float32, since sentences had other company."""
    found, expected = Result.read(run), Result.read(whole)
    assert found.data == expected.data
    for scores, wanted in ((found.scores, expected.scores), (found.untrained, expected.untrained)):
        assert scores.keys() == wanted.keys()
        for key, score in wanted.items():
            if key.endswith(("/pearson", "/score_mean", "/score_variance")):
                assert scores[key].value == pytest.approx(score.value, abs=1e-5), key
            else:
                assert scores[key] == score, key


SERIAL = (*WORDS, "schedule=serial", "dataset=[demo_nli,demo_sts]", "schedule.store=null")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_backbone):
    """A curriculum that had all files from the start, and the folder of these."""
    folder = tmp_path_factory.mktemp("whole")
    data = local_sets(folder / "data", "demo_qmc", "demo_order")
    return run_job(folder / "whole", tiny_backbone, *SERIAL, *suite_of(data, "demo_qmc", "demo_order")), data


@pytest.fixture(scope="module")
def grown(whole, tmp_path_factory, tiny_backbone):
    """That curriculum, and one that lacked some of the files until it was finished."""
    folder = tmp_path_factory.mktemp("grown")
    later = local_sets(folder / "later", "demo_qmc", splits=("test",))
    run = run_job(folder / "runs", tiny_backbone, *SERIAL, *suite_of(later, "demo_qmc", "demo_order"))
    return whole[0], run, whole[1], later


@pytest.mark.slow
def test_a_file_that_came_later_gives_the_numbers_of_a_run_that_had_it(grown, steps, capsys):
    whole, run, data, later = grown
    before = Result.read(run)
    assert before.absent == ["dev/demo_qmc", "dev/demo_order", "test/demo_order"]
    assert before.scores["test/demo_qmc/accuracy"].value is None
    assert fill(run.parent) == 0
    assert capsys.readouterr().out.count("nothing to do") == 2
    shutil.copytree(data, later, dirs_exist_ok=True)
    assert fill(run.parent) == 0
    assert steps == []
    for stage in (".", "stages/0-demo_nli"):
        assert_alike(run / stage, whole / stage)
        for key, score in before.scores.items() if stage == "." else ():
            assert score.value is None or Result.read(run).scores[key] == score
    assert capsys.readouterr().out.count("added dev/demo_qmc ") == 2

    result = Result.read(run)
    (record,) = result.filled
    assert "test/demo_qmc/accuracy" in record["added"], "its threshold waited for dev"
    assert "untrained test/demo_order/spearman" in record["added"]
    assert record["data"]["dev/demo_qmc"]["fingerprint"] == result.data["dev/demo_qmc"]["fingerprint"]
    assert record["environment"]["packages"]["torch"] == result.environment["packages"]["torch"]
    assert record["weights"] == result.weights
    stamp = (run / "result.json").stat().st_mtime_ns
    assert fill(run.parent) == 0
    assert (run / "result.json").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--hardware", "cpu_bf16"), "hardware.precision=bf16-mixed"),
        (("--hardware", "compiled"), "compile=true"),
    ],
)
@pytest.mark.parametrize("again", [True, False])
@pytest.mark.slow
def test_scores_of_other_arithmetic_are_not_written_into_a_row(grown, tmp_path, capsys, words, told, again):
    _, run, data, _ = grown
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "compiled.yaml").write_text("defaults: [cpu, _self_]\ncompile: true\n")
    before, extra = (run / "result.json").read_bytes(), ["--config-dir", tmp_path, "--data-dir", data]
    wanted = ["--dataset", "demo_sts", "--again"] if again else ["--dataset", "demo_reranking"]
    assert fill(run, *wanted, *words, *extra) != 0
    said = capsys.readouterr().err
    assert told in said
    assert "Leave --hardware out" in said
    assert (run / "result.json").read_bytes() == before


@pytest.mark.parametrize("as_path", [str, load_encoder], ids=["path", "loaded"])
@pytest.mark.slow
def test_a_saved_encoder_is_scored_without_its_run(grown, as_path):
    result = Result.read(grown[0])
    sets, settings = ["demo_qmc", "demo_sts"], EvaluationSettings.of(result.config)
    found = evaluate(as_path(grown[0]), sets, data_dir=grown[2], settings=settings)
    for key, score in found.scores.items():
        assert score.value == pytest.approx(result.scores[key].value, abs=1e-5), key
    assert {key.split("/")[1] for key in found.scores} == set(sets)
    assert found.per_row["dev/demo_qmc"].shape == (24,)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("model=lexical",),
        ("model=biencoder",),
        ("hardware=cpu_bf16",),
        ("model=crossencoder", "loss=ce", "dataset=[demo_nli]"),
        ("model=crossencoder", "loss=cosent"),
        ("model=cot", "loss=info_nce_pool", "model.untrained_mask=true"),
        ("model=views", "loss=info_nce"),
        ("dataset=[]",),
        ("evaluation.without_leaks=true", "dataset=[demo_qmc]"),
    ],
    ids=" ".join,
)
def test_a_named_set_gives_the_very_numbers_of_a_run_that_had_it(tmp_path, tiny_backbone, words, steps):
    alone = "hardware.eval_batch_tokens=1"  # a sentence at a time: company has no part in the last digit
    words = (*WORDS, *words, alone, "debug_rows=12", "benchmark=demo")
    whole = Result.read(run_job(tmp_path / "whole", tiny_backbone, *words))
    run = run_job(tmp_path / "runs", tiny_backbone, *words, "~evaluate.demo_order", "~evaluate.demo_nli")
    del steps[:]
    assert fill(run, "--benchmark", "demo") == 0
    assert steps == []
    filled = Result.read(run)
    assert (filled.scores, filled.untrained) == (whole.scores, whole.untrained)
    assert filled.data == whole.data


@pytest.mark.slow
def test_a_run_that_counts_what_it_has_seen_gets_its_threshold_too(tmp_path, tiny_backbone):
    data = local_sets(tmp_path / "data", "demo_qmc", splits=("test",))
    words = (*WORDS, "dataset=[demo_sts]", "evaluation.without_leaks=true", *suite_of(data, "demo_qmc"))
    run = run_job(tmp_path / "runs", tiny_backbone, *words)
    assert Result.read(run).scores["test/demo_qmc/accuracy"].value is None
    local_sets(data, "demo_qmc", splits=("dev",))
    assert fill(run) == 0
    assert Result.read(run).scores["test/demo_qmc/accuracy"].value is not None


@pytest.fixture
def lacks_test(whole, tmp_path):
    """A copy of the run that had everything, except for what it knew of demo_qmc/test."""
    run = tmp_path / whole[0].name
    shutil.copytree(whole[0], run)
    stored = json.loads((run / "result.json").read_text())
    del stored["data"]["test/demo_qmc"]
    stored["scores"] = {
        key: one for key, one in stored["scores"].items() if not key.startswith("test/demo_qmc")
    }
    stored["scores"]["test/demo_qmc/spearman"] = {"value": None}
    (run / "result.json").write_text(json.dumps(stored))
    return run


@pytest.mark.slow
def test_again_touches_nothing_where_nothing_moved(grown, tmp_path):
    run = Path(shutil.copytree(grown[0], tmp_path / grown[0].name))
    before = Result.read(run)
    assert fill(run, "--again") == 0
    assert Result.read(run).scores == before.scores


@pytest.mark.slow
def test_rows_that_changed_are_not_mixed_with_those_that_were_scored(grown, lacks_test, tmp_path, capsys):
    data = Path(shutil.copytree(grown[2], tmp_path / "data"))
    header, *rows = (data / "demo_qmc" / "dev.tsv").read_text().splitlines(keepends=True)
    (data / "demo_qmc" / "dev.tsv").write_text("".join([header, *rows[9:], *rows[:9]]))
    before = Result.read(lacks_test)
    assert fill(lacks_test, "--data-dir", data) == 2
    assert "demo_qmc/dev holds other rows than the run has seen" in capsys.readouterr().err
    assert Result.read(lacks_test) == before

    assert fill(lacks_test, "--data-dir", data, "--again") == 0
    after = Result.read(lacks_test)
    moved = after.filled[-1]["moved"]
    old, new = moved["dev/demo_qmc/spearman"]
    assert old == before.scores["dev/demo_qmc/spearman"].value != new
    assert new == after.scores["dev/demo_qmc/spearman"].value
    assert {
        key for key, one in before.scores.items() if one.value is not None and after.scores[key] != one
    } <= set(moved)
    assert f"moved dev/demo_qmc/spearman {100 * old:.4f} → {100 * new:.4f}" in capsys.readouterr().out


def test_a_run_that_cannot_be_filled_is_named_and_the_others_go_on(whole, lacks_test, tmp_path, capsys):
    others = {}
    for name in ("changed", "gone", "locked"):
        others[name] = Path(shutil.copytree(lacks_test, tmp_path / name))
        shutil.rmtree(others[name] / "stages")
    weights = others["changed"] / "encoder" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    shutil.rmtree(others["gone"] / "encoder")
    with (others["locked"] / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert fill(lacks_test, *others.values()) == 2
    said = capsys.readouterr()
    assert "its encoder is gone" in said.err
    assert "differ from those of its result" in said.err
    assert "another process is running this very job" in said.err
    assert f"3 of 5 failed: {', '.join(map(str, others.values()))}" in said.err
    assert said.out.count("added test/demo_qmc ") == 1
    assert_alike(lacks_test, whole[0])


def further_conf(folder: Path, name: str, *, like: str) -> Path:
    """A folder of configuration with one set, which is a demo set under another name, below data_dir."""
    text = (train.CONFIGURATION / "dataset" / f"{like}.yaml").read_text(encoding="utf-8")
    text = text.replace("source: builtin", "source: local").replace(like, name)
    (folder / "dataset").mkdir(parents=True)
    (folder / "dataset" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_a_newcomer_adds_a_set_and_runs_its_row_and_its_column(tmp_path, tiny_backbone, steps):
    words = (*WORDS[:2], "benchmark=demo", "~evaluate.demo_nli", "~evaluate.demo_order")
    runs = tmp_path / "runs"
    for name in ("demo_sts", "demo_qmc"):
        run_job(runs, tiny_backbone, *words, f"dataset=[{name}]")
    assert [name for name, *_ in steps] == 2 * ["demo_sts"] + 2 * ["demo_qmc"]

    shutil.copytree(BUILTIN_DATA / "demo_order", tmp_path / "data" / "mine")
    conf = further_conf(tmp_path / "conf", "mine", like="demo_order")
    own = (f"data_dir={tmp_path / 'data'}", f"hydra.searchpath=[file://{conf}]", "dataset=[mine]")
    row = run_job(runs, tiny_backbone, *words, *own)
    assert fill(runs, "--dataset", "mine", "--config-dir", conf, "--data-dir", tmp_path / "data") == 0
    assert [name for name, *_ in steps[4:]] == 2 * ["mine"]
    matrix = build_matrix([Result.read(path) for path in runs.glob("*/")], metric="spearman")
    assert set(matrix.columns) == {"test/demo_sts", "test/demo_qmc", "test/mine"}
    filled = {one.trained_on: set(one.cells) for one in matrix.rows}
    assert filled.keys() == {"demo_sts", "demo_qmc", "mine"}
    for cells in filled.values():
        assert cells >= set(matrix.columns)
    assert Result.read(row).filled == []


@pytest.mark.slow
def test_a_filtered_run_is_refused_sets_that_it_has_seen_pairs_of(tmp_path, tiny_backbone, capsys):
    run = run_job(tmp_path / "runs", tiny_backbone, *WORDS, "dataset=[demo_qmc]", "filter_leaks=true")
    folder = tmp_path / "data" / "mine"
    folder.mkdir(parents=True)
    conf = further_conf(tmp_path / "conf", "mine", like="demo_qmc")
    asked = (run, "--dataset", "mine", "--config-dir", conf, "--data-dir", tmp_path / "data")
    assert fill(*asked) == 0
    assert "nothing to do (mine: no dev or test file below" in capsys.readouterr().out
    learnt = (BUILTIN_DATA / "demo_qmc" / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "dev.tsv").write_text("".join(learnt[:101]), encoding="utf-8")
    (conf / "dataset" / "mine.yaml").write_text(
        (conf / "dataset" / "mine.yaml").read_text().replace("dev: 600", "dev: 100")
    )
    assert fill(*asked) == 2
    assert "Train it again with these sets" in capsys.readouterr().err
    assert "dev/mine/spearman" not in Result.read(run).scores
    shutil.copy(BUILTIN_DATA / "demo_qmc" / "test.tsv", folder / "dev.tsv")
    (conf / "dataset" / "mine.yaml").write_text(
        (conf / "dataset" / "mine.yaml").read_text().replace("dev: 100", "dev: 600")
    )
    assert fill(*asked) == 0
    found = Result.read(run).scores
    assert found["dev/mine/spearman"].value == pytest.approx(found["test/demo_qmc/spearman"].value, abs=1e-6)
