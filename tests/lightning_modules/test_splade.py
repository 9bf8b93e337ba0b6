"""SPLADE as a model: it learns, is saved, gone on from, scored, mined with; and what it refuses."""

import numpy as np
import pytest
import torch
from jobs import logged, module_of, run_job, typed_job, weights

from juzhen.cli.main import main
from juzhen.core.result import Result
from juzhen.families.sparse.encoder import SparseEncoder
from juzhen.losses.regularizers import flops, warmed_up

SPLADE = ("model=splade", "training.duration=4 steps")
FLOPS = ("model.query_flops=0.01", "model.document_flops=0.02", "model.flops_warmup_percent=50")


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_backbone):
    words = ("dataset=[demo_qmc]", "loss=info_nce", "evaluation.splits=[dev]", "optimizer.lr=1e-3", *FLOPS)
    return run_job(tmp_path_factory.mktemp("runs"), tiny_backbone, *SPLADE, *words, "logger.every_steps=1")


@pytest.mark.slow
def test_a_run_learns_and_its_encoder_gives_what_its_result_says(run, tmp_path, tiny_backbone):
    losses = logged(run)
    assert np.isfinite(losses).all()
    assert len({*losses}) == len(losses)
    assert logged(run, "train/demo_qmc/flops_weight") == pytest.approx([0, 0.25, 1, 1])
    assert min(logged(run, "train/demo_qmc/nonzero_documents")) > 0
    assert SparseEncoder.load(run).encode_query("怎么").nnz > 0
    assert Result.read(run).scores["dev/demo_qmc/spearman"].value is not None
    assert main(["evaluate", str(run), "--dataset", "demo_retrieval"]) == 0
    assert Result.read(run).scores["dev/demo_retrieval/ndcg_at_10"].value is not None
    words = ("model=splade", f"init_from={run}", "loss=cosent", "training.duration=2 steps")
    further = run_job(tmp_path, tiny_backbone, *words)
    assert weights(further) != weights(run)


def test_the_loss_is_that_of_the_job_and_both_regularisers(tiny_backbone):
    model = module_of(tiny_backbone, "model=splade", *FLOPS, "model.flops_warmup_percent=0")
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand(3, 4, 1, 9, generator=generator)
    tensors = {"anchors": rows[0], "positives": rows[1], "negatives": rows[2].unsqueeze(1)}
    queries, documents = model._of_all(tensors)
    torch.testing.assert_close(queries, rows[0, :, 0])
    torch.testing.assert_close(documents, rows[1:, :, 0].reshape(8, 9))
    cost = 0.01 * flops(queries) + 0.02 * flops(documents)
    assert cost > 0
    assert [warmed_up(step, 10) for step in (0, 5, 10, 11)] == [0, 0.25, 1, 1]
    assert model._share() == 1.0


@pytest.mark.slow
def test_negatives_are_mined_with_sparse_vectors(run, tmp_path):
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
    assert len(out.read_text(encoding="utf-8").splitlines()) > 1


@pytest.mark.slow
def test_numbers_of_losses_are_those_for_dot_products():
    for loss in ("info_nce", "info_nce_own", "cosent", "list_kl", "margin_mse"):
        assert typed_job("benchmark=none", "model=splade", f"loss={loss}").loss["temperature"] == 1
        assert typed_job("benchmark=none", "model=colbert", f"loss={loss}").loss["temperature"] < 0.1


@pytest.mark.slow
def test_words_of_a_score_add_up_to_it(run, capsys):
    assert main(["score", str(run), "怎么退货", "如何退货", "--words"]) == 0
    score, *parts = [float(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert len(parts) == 10
    assert 0 < sum(parts) <= score * (1 + 1e-3)
    assert parts == sorted(parts, reverse=True)
