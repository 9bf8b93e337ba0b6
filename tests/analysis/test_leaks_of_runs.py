"""`juzhen leaks --run`: the text that a run has really learnt from."""

import json

import pytest
import zstandard
from jobs import run_job

from juzhen.cli.main import main
from juzhen.core.result import Result

PLANTED = "我想知道花呗分期以后提前还款怎么算利息"
LINES = [f"第{number}天我们去了一个没有人知道的地方" for number in range(60)]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A text with one line that holds a sentence of atec/dev."""
    folder = tmp_path / "data"
    (folder / "text").mkdir(parents=True)
    (folder / "atec").mkdir()
    text = "\n".join([*LINES, f"他说，{PLANTED}，谁也不知道"]).encode()
    (folder / "text" / "tatoeba_zh.txt.zst").write_bytes(zstandard.compress(text))
    rows = f"{PLANTED}\t怎么算利息\t1\n丙一\t丁一\t0\n"
    (folder / "atec" / "dev.tsv").write_text("sentence1\tsentence2\tlabel\n" + rows, encoding="utf-8")
    monkeypatch.setenv("JUZHEN_DATA", str(folder))
    return folder


def trained(tmp_path, backbone, data, *, filters, model="views"):
    return run_job(
        tmp_path / "runs",
        backbone,
        f"model={model}",
        "loss=info_nce",
        f"data_dir={data}",
        "dataset=[text_tatoeba]",
        "debug_rows=null",
        "+dataset@evaluate.atec=atec",
        "evaluate.atec.rows.dev=null",
        "training.duration=2 steps",
        "training.monitor=auto" if model == "mlm" else "training.monitor=dev/atec/spearman",
        f"filter_leaks={filters}",
    )


def audited(run, folder):
    status = main(
        ["leaks", "--run", str(run), "--evaluate", "atec", "--output", str(folder), "--no-progress"]
    )
    return status, json.loads((folder / "text.json").read_text(encoding="utf-8"))["texts"]["text_tatoeba"]


@pytest.mark.parametrize("model", ["views", "mlm"])
@pytest.mark.slow
def test_a_filtered_run_has_learnt_from_no_evaluation_sentence(
    tmp_path, tiny_backbone, data, model, without_promised_rows
):
    runs = {filters: trained(tmp_path, tiny_backbone, data, filters=filters) for filters in ("true", "false")}
    status, clean = audited(runs["true"], tmp_path / "clean")
    assert (status, clean["leaky_lines"]) == (0, 0)
    _, leaky = audited(runs["false"], tmp_path / "leaky")
    assert leaky["leaky_lines"] == 1
    assert leaky["lines"] == clean["lines"] + 1
    result = Result.read(runs["false"])
    # As of a stage that is not the first.
    result.config["earlier"] = {
        "loss": {"_target_": "juzhen.losses.pairwise_ranking.CoSENT", "name": "cosent"}
    }
    result.write(runs["false"])
    assert audited(runs["false"], tmp_path / "again")[1] == leaky
