"""ColBERT as a model: it learns, is saved, gone on from, scored late, mined with; and what it refuses."""

import numpy as np
import pytest
from jobs import logged, run_job, typed_job, weights

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.families.late.encoder import MultiVectorEncoder
from lightning_modules.colbert import ColBERT

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
def test_negatives_are_mined_with_token_vectors(run, tmp_path, capsys):
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
    assert main(["mine", *words]) == 0, capsys.readouterr().err
    assert len(out.read_text(encoding="utf-8").splitlines()) == 2
    assert main(["mine", *words[:3], str(tmp_path / "of_tests_b.tsv"), *words[4:], "--index", "hnsw"]) == 2
    assert "this encoder has one per token. Type index=exact" in capsys.readouterr().err
    assert (
        main(["mine", *words[:3], str(tmp_path / "of_tests_d.tsv"), *words[4:], "--index", "centroids"]) == 2
    )
    assert "exact" in capsys.readouterr().err
    assert (
        main(
            [
                "mine",
                *words[:3],
                str(tmp_path / "of_tests_c.tsv"),
                *words[4:],
                "--cache",
                str(tmp_path / "kept"),
            ]
        )
        == 2
    )
    assert "cache: keeps one vector per text" in capsys.readouterr().err


def test_a_colbert_that_is_there_keeps_its_markers(run):
    job = typed_job("benchmark=none", "model=colbert", "model.markers=false", f"init_from={run}")
    with pytest.raises(UserError, match=r"model\.markers: .* was made otherwise"):
        ColBERT.load_encoder(job)


def test_verbs_that_want_one_vector_per_text_say_so(run, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("怎么退货\n", encoding="utf-8")
    for words in (
        ["encode", str(run), str(tmp_path / "texts.txt")],
        ["export", str(run), str(tmp_path / "out")],
        ["space", str(run), "--dataset", "demo_sts"],
    ):
        assert main(words) == 2
        assert "\n" not in capsys.readouterr().err.strip()  # one line, and no traceback
    assert main(["score", str(run), "怎么退货", "如何退货"]) == 0
