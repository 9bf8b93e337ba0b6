"""model=reranker: it learns from pairs and lists, is saved, gone on from, scored, served; and what it refuses."""

import numpy as np
import pytest
import rerankers
import torch
from jobs import logged, run_job, typed_job, weights
from safetensors.torch import load_file

from juzhen.cli.main import main
from juzhen.core.result import Result
from juzhen.encoders import CrossEncoder
from juzhen.encoders.base_weights import merged
from juzhen.families.answers.encoder import GenerativeReranker
from juzhen.families.registry import PairScorer
from lightning_modules.reranker import RerankerModule

RERANKER = (*rerankers.JOB, "training.duration=4 steps", "optimizer.lr=1e-2")
QMC = ("dataset=[demo_qmc]", "loss=bce", "logger.every_steps=1")


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    return rerankers.write("qwen3", tmp_path_factory.mktemp("lm") / "m", tied=False, by_bytes=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory, backbone):
    words = (*QMC, "evaluation.splits=[dev]")
    return run_job(tmp_path_factory.mktemp("runs"), backbone, *RERANKER, *words)


@pytest.mark.slow
def test_a_run_learns_and_its_encoder_gives_what_its_result_says(run, tmp_path, backbone):
    losses = logged(run)
    assert np.isfinite(losses).all()
    assert len({*losses}) == len(losses)
    encoder, result = CrossEncoder.load(run), Result.read(run)
    assert isinstance(encoder, GenerativeReranker)
    assert (encoder.instruction, encoder.template.between) == ("go", " > ")
    assert result.scores["dev/demo_qmc/spearman"].value is not None
    heads = [
        load_file(place / "model.safetensors")["lm_head.weight"] for place in (backbone, run / "encoder")
    ]
    changed = (heads[0] != heads[1]).any(dim=1).nonzero().flatten().tolist()
    assert changed == sorted(encoder.answers), "only the rows of the answers have learnt"
    assert main(["evaluate", str(run), "--dataset", "demo_reranking"]) == 0
    assert Result.read(run).scores["dev/demo_reranking/ndcg_at_10"].value is not None
    assert main(["score", str(run), "怎么退货", "如何退货"]) == 0
    scored = PairScorer(run)(["怎么退货"], ["如何退货"], batch_tokens=999, show_progress=False)
    assert scored == pytest.approx(encoder.score([("怎么退货", "如何退货")]))
    further = run_job(
        tmp_path, backbone, "model=reranker", f"init_from={run}", *QMC, "training.duration=2 steps"
    )
    assert CrossEncoder.load(further).template.before == encoder.template.before
    assert weights(further) != weights(run)


@pytest.mark.slow
def test_a_result_is_calibrated(run, capsys):
    assert main(["calibrate", str(run)]) == 0, capsys.readouterr().err
    assert "platt" in capsys.readouterr().out


@pytest.mark.slow
def test_an_adapter_learns_and_the_head_stays(tmp_path, backbone):
    pytest.importorskip("peft")
    words = (*QMC, "adapter=lora", "backbone.adapter.rank=4", "training.duration=2 steps")
    run = run_job(tmp_path, backbone, *RERANKER, *words)
    assert not (run / "encoder" / "model.safetensors").exists()
    encoder, pairs = CrossEncoder.load(run), rerankers.PAIRS
    fresh = RerankerModule.load_encoder(
        typed_job("benchmark=none", f"backbone.path={backbone}", *RERANKER)
    ).eval()
    assert torch.equal(encoder.rows, fresh.rows)
    assert np.abs(encoder.score(pairs) - fresh.score(pairs)).max() > 1e-4
    out = merged(encoder).save(tmp_path / "merged")
    np.testing.assert_allclose(CrossEncoder.load(out).score(pairs), encoder.score(pairs), atol=1e-5)
    assert (out / "model.safetensors").exists()


@pytest.mark.slow
def test_a_folder_of_sentence_transformers_is_trained_on(tmp_path, backbone):
    pytest.importorskip("sentence_transformers", minversion="6.2")
    rerankers.theirs(
        backbone, tmp_path / "theirs", text="{query}>{document}", instruction=None, answers=[5, 6]
    )
    words = ("model=reranker", f"backbone.path={tmp_path / 'theirs'}", "backbone.initialize=pretrained", *QMC)
    run = run_job(tmp_path, backbone, *words, "training.duration=2 steps")
    assert CrossEncoder.load(run).answers == (5, 6)


@pytest.mark.slow
def test_it_reranks_for_a_server(run, encoder_folder):
    httpx = pytest.importorskip("httpx")
    from serving.running import serving

    documents, encoder = ["如何退款", "今天天气很好", "长" * 100], CrossEncoder.load(run)
    scores = 1 / (1 + np.exp(-encoder.score([("怎么退货", text) for text in documents])))
    with serving(encoder_folder, run) as address:
        body = {"query": "怎么退货", "documents": documents}
        reply = httpx.post(f"{address}/v1/rerank", json=body).json()
    given = {hit["index"]: hit["relevance_score"] for hit in reply["results"]}
    assert [given[place] for place in range(3)] == pytest.approx(scores.tolist(), abs=1e-5)
    assert reply["meta"]["warnings"] == ["1 of 3 documents were cut"]
