"""ColBERT as a model: it learns, is saved, gone on from, scored late, mined with; and what it refuses."""

import numpy as np
import pytest
from jobs import logged, run_job, weights

from juzhen.cli.main import main
from juzhen.core.result import Result
from juzhen.families.late.encoder import MultiVectorEncoder

COLBERT = ("model=colbert", "model.dim=8", "model.query_length=12", "training.duration=4 steps")


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_backbone):
    words = ("dataset=[demo_qmc]", "loss=info_nce", "evaluation.splits=[dev]", "optimizer.lr=1e-2")
    return run_job(tmp_path_factory.mktemp("runs"), tiny_backbone, *COLBERT, *words, "logger.every_steps=1")


@pytest.mark.slow
def test_a_run_learns_and_its_encoder_gives_what_its_result_says(run, tmp_path, tiny_backbone):
    losses = logged(run)
    assert np.isfinite(losses).all()
    assert len({*losses}) == len(losses)
    encoder, result = MultiVectorEncoder.load(run), Result.read(run)
    assert encoder.encode_query("怎么").shape == (12, 8)
    dev = result.scores["dev/demo_qmc/spearman"].value
    assert dev is not None
    assert main(["evaluate", str(run), "--dataset", "demo_retrieval"]) == 0
    late = Result.read(run).scores["dev/demo_retrieval/ndcg_at_10"]
    assert late.value is not None
    further = run_job(
        tmp_path,
        tiny_backbone,
        "model=colbert",
        f"init_from={run}",
        "loss=cosent",
        "training.duration=2 steps",
    )
    assert MultiVectorEncoder.load(further).rules == encoder.rules
    assert weights(further) != weights(run)


@pytest.mark.slow
def test_negatives_are_mined_with_token_vectors(run, tmp_path):
    out = tmp_path / "mined" / "of_tests_hard.tsv"
    words = [
        "demo_retrieval",
        str(run),
        "--out",
        str(out),
        "--range-max",
        "10",
        "--limit",
        "8",
        "--num-negatives",
        "1",
    ]
    assert main(["mine", *words]) == 0
    assert len(out.read_text(encoding="utf-8").splitlines()) == 2
    assert main(["score", str(run), "怎么退货", "如何退货"]) == 0
