"""Retrieval and reranking sets in jobs: learnt from, evaluated on, filled in late, shown in tables and the report."""

import os
import re

import numpy as np
import pytest
from jobs import run_job

from juzhen.cli.main import main
from juzhen.core.kinds import RANKINGS
from juzhen.core.result import Result
from juzhen.data.source import load_examples
from juzhen.data.spec import configured_set
from juzhen.evaluation import evaluate
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.report.matrix import BELOW

FEW = ("training.duration=2 steps", "debug_rows=24", "evaluation.bootstrap_samples=40")
SETS = ("demo_retrieval", "demo_reranking")
REAL_DATA = os.environ.get("JUZHEN_DATA")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_backbone):
    """A bi-encoder that learns from judgements, and one and a cross-encoder that meet such sets late."""
    folder = tmp_path_factory.mktemp("runs")
    words = {
        "learnt": ("dataset=[demo_retrieval]", "loss=info_nce", "evaluation.rankings=[recall_at_1000]"),
        "late": ("dataset=[demo_qmc]", "loss=cosent"),
        "pairs": ("dataset=[demo_qmc]", "loss=cosent", "model=crossencoder"),
    }
    return {name: run_job(folder, tiny_backbone, *FEW, *some) for name, some in words.items()}


def assert_whole(result: Result, column: str, measures=RANKINGS) -> None:
    """Every measure of the column is there, with an interval around it, over the same queries."""
    found = [result.scores[f"{column}/{measure}"] for measure in measures]
    assert all(0 <= one.low <= one.value <= one.high <= 1 for one in found)
    assert len({one.count for one in found}) == 1


@pytest.mark.slow
def test_a_retrieval_set_is_learnt_from_and_evaluated_on(runs):
    result = Result.read(runs["learnt"])
    assert result.data["train/demo_retrieval"]["kind"] == "positive_pair"
    for split in ("dev", "test"):
        assert result.data[f"{split}/demo_retrieval"]["kind"] == "retrieval"
        assert_whole(result, f"{split}/demo_retrieval", (*RANKINGS, "recall_at_1000"))


@pytest.mark.slow
def test_late_columns_are_those_of_the_evaluator_and_stand_in_tables(runs, tmp_path, capsys):
    folder = runs["late"].parent
    arguments = [word for name in SETS for word in ("--dataset", name)]
    assert main(["evaluate", str(folder), *arguments]) == 0
    told = capsys.readouterr().out
    assert "added dev/demo_retrieval nDCG@10 " in told
    assert (
        "demo_retrieval is not scored: a cross-encoder would have to read each query with each document"
        in told
    )
    for name, sets in {"late": SETS, "pairs": SETS[1:]}.items():
        result = Result.read(runs[name])
        found = evaluate(
            runs[name], sets, settings=EvaluationSettings.of(result.config | {"dataset": {}, "evaluate": {}})
        )
        for column in (f"{split}/{one}" for split in ("dev", "test") for one in sets):
            assert_whole(result, column)
            for measure in RANKINGS:
                key = f"{column}/{measure}"
                assert result.scores[key].value == pytest.approx(found.scores[key].value, abs=1e-6)

    assert main(["table", str(folder), "--metric", "ndcg_at_10", "--split", "both"]) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()[2:]
    assert [one for one in head.strip(" |").split(" | ") if "demo" in one] == [
        f"{name} ({split})" for name in sorted(SETS) for split in ("dev", "test")
    ]
    assert len(rows) == 3
    assert main(["report", str(folder), "--metric", "ndcg_at_10", "--out", str(tmp_path)]) == 0
    assert "demo_reranking (test)" in (tmp_path / "report.md").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["table", str(folder), "--metric", "recall_at_1000"]) == 0
    assert "demo_qmc (" not in capsys.readouterr().out.splitlines()[2], "a set of pairs has no recall"


@pytest.mark.slow
def test_bm25_is_a_row_of_retrieval_columns_and_of_no_others(tmp_path, tiny_backbone, capsys):
    few = (*FEW, "dataset=[]", "benchmark=demo", "+dataset@evaluate.demo_retrieval=demo_retrieval")
    run = run_job(tmp_path / "runs", tiny_backbone, *few, "model=bm25")
    result = Result.read(run)
    assert result.unscored.keys() == {"demo_sts", "demo_qmc", "demo_order", "demo_nli"}
    assert_whole(result, "test/demo_retrieval")
    assert {key.split("/")[1] for key in result.scores} == {"demo_retrieval"}
    lexical = run_job(tmp_path / "runs", tiny_backbone, *few, "model=lexical")
    untrained = run_job(tmp_path / "runs", tiny_backbone, *few)
    assert main(["evaluate", str(run), "--dataset", "demo_reranking"]) == 0
    assert_whole(Result.read(run), "test/demo_reranking")
    capsys.readouterr()
    assert main(["table", str(tmp_path), "--metric", "ndcg_at_10"]) == 0
    shown = capsys.readouterr().out
    for name, folder in {"bm25": run, "lexical": lexical}.items():
        score = Result.read(folder).scores["test/demo_retrieval/ndcg_at_10"]
        assert re.search(rf"\| {name} \| 1 \| \**{100 * score.value:.1f}\w* \[", shown)
    best = max(Result.read(one).scores["test/demo_retrieval/ndcg_at_10"].value for one in (run, lexical))
    assert Result.read(untrained).scores["test/demo_retrieval/ndcg_at_10"].value < best
    assert main(["report", str(tmp_path), "--metric", "ndcg_at_10", "--out", str(tmp_path / "report")]) == 0
    assert BELOW in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")


@pytest.mark.skipif(not REAL_DATA, reason="JUZHEN_DATA names no folder of real data sets")
@pytest.mark.parametrize(("name", "split"), [("lcqmc_retrieval", "dev"), ("cmrc2018_retrieval", "dev")])
def test_real_duplicates_and_passages_are_found_by_their_characters(name, split):
    """BM25 is far above chance, and the whole corpus is looked through."""
    config = configured_set(name)
    examples = load_examples(
        config, split, source="local", data_dir=REAL_DATA, on_bad_row="error", required=True
    )
    found = evaluate("bm25", [examples], settings=EvaluationSettings())
    queries = np.unique(examples.columns["query"])
    assert found.per_query[f"{split}/{name}/ndcg_at_10"].shape == queries.shape
    score = found.scores[f"{split}/{name}/recall_at_10"]
    assert 0.5 < score.low < score.value < score.high
