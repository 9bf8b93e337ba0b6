"""One story of every family of models: train two steps, score, save, load, equal scores, evaluate again.

And micro-batches, which change no weight, and keys of embeddings, which models without embeddings do not read.
"""

from pathlib import Path

import numpy as np
import pytest
import rerankers
import torch
from jobs import logged, ranked_rows, run_job
from safetensors.torch import load_file

from juzhen.evaluation import evaluate
from juzhen.families.registry import FAMILIES, PairScorer, family_of, find_family, open_encoder
from juzhen.identity import why_unread
from juzhen.models import all_settings
from tools.same import JOBS

STORIES = {
    "bi_encoder": JOBS["biencoder_cosent"],
    "template": JOBS["cot"],
    "cross_encoder": JOBS["crossencoder_cosent"],
    "multi_vector": JOBS["colbert"],
    "sparse": JOBS["splade"],
    "generative_reranker": (*rerankers.JOB, "dataset=[demo_qmc]", "loss=bce"),
}
"""Family → the job that trains one of it."""

FIRST, SECOND = ["今天天气很好", "怎么还花呗"], ["今天是个好天气", "花呗如何还款"]
GRADED = [(*pair, grade) for pair, grade in zip(zip(FIRST, SECOND, strict=True), (1.0, 0.8), strict=True)]
GRADED += [(FIRST[0], SECOND[1], 0.0)]


def test_every_family_has_a_story():
    assert FAMILIES.keys() == STORIES.keys() | {"lexical", "query_document"}  # which are not trained


@pytest.fixture
def backbone(request, name, tmp_path):
    """A tiny encoder, or for a reranker a tiny language model."""
    if "reranker" in name:
        return rerankers.write("qwen3", tmp_path / "lm", tied=False, by_bytes=False)
    return request.getfixturevalue("tiny_backbone")


@pytest.mark.parametrize("name", STORIES)
def test_a_trained_encoder_is_saved_loaded_and_evaluated_alike(name, tmp_path, backbone):
    words = (*STORIES[name], "training.duration=2 steps", "debug_rows=16")
    run = run_job(tmp_path / "runs", backbone, *words)
    family = find_family(run)
    assert family is FAMILIES[name]
    encoder = open_encoder(run)
    assert family_of(encoder) is family
    scores = PairScorer(run)(FIRST, SECOND, batch_tokens=512, show_progress=False)
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
    folder = family.save(encoder, tmp_path / "saved", card={})
    again = PairScorer(folder)(FIRST, SECOND, batch_tokens=512, show_progress=False)
    assert again == pytest.approx(scores, abs=1e-6)
    if family.has_embeddings:
        assert open_encoder(folder).encode(FIRST) == pytest.approx(encoder.encode(FIRST), abs=1e-6)
    before, after = (evaluate(one, GRADED).scores for one in (encoder, folder))
    assert before.keys() == after.keys()
    for metric, score in before.items():
        assert after[metric].value == pytest.approx(score.value, abs=1e-6), metric


GUIDED = (
    "training.duration=3 steps",
    "model=guided",
    "loss=info_nce_guided",
    "model.teacher=builtin/mini_zh@2",
    "dataset=[demo_qmc]",
)
COLBERT = ("model=colbert", "model.dim=8", "model.query_length=12")
RANKED = {
    "reranker": rerankers.JOB,
    "splade": ("model=splade",),
    "colbert": COLBERT,
}
"""Jobs that learn from a teacher's scores of several documents."""
IN_PIECES = {
    "reranker list_kl": (),  # the one that runs by default
    "reranker rank_net": (),
    "reranker margin_mse": (),
    "splade list_kl": (),
    "splade margin_mse": (),
    "colbert list_kl": (),
    "biencoder": ("loss=cosent", "training.duration=6 steps"),
    "biencoder accumulated": ("loss=cosent", "training.duration=6 steps", "training.accumulate=2"),
    "crossencoder": (
        "training.duration=6 steps",
        "model=crossencoder",
        "loss=cosent",
        "model.symmetric_training=true",
    ),
    "guided": GUIDED,
}


def saved_tensors(run: Path) -> dict[str, torch.Tensor]:
    files = sorted((run / "encoder").rglob("*.safetensors"))
    return {f"{file.parent.name} {name}": one for file in files for name, one in load_file(file).items()}


@pytest.mark.parametrize("name", IN_PIECES)
@pytest.mark.sampled(len(IN_PIECES))
def test_micro_batches_change_no_loss_and_no_weight(name, tmp_path, backbone):
    model, _, loss = name.partition(" ")
    words = IN_PIECES[name]
    if not words:
        words = (*RANKED[model], *ranked_rows(tmp_path / "rows"), f"loss={loss}")
    words = (*words, "backbone.dropout=0.0", "logger.every_steps=1")
    whole, pieces = (
        run_job(tmp_path / size, backbone, *words, f"hardware.micro_batch_tokens={size}")
        for size in ("null", "40")
    )
    assert whole.name == pieces.name, "memory is not part of what a run is"
    assert logged(pieces) == pytest.approx(logged(whole), rel=1e-5 if model == "guided" else 1e-4)
    if name != "crossencoder":  # both orders of a pair cancel gradients, whose rounding Adam then steps along
        atol = 2e-5 if model == "biencoder" else 1e-5
        torch.testing.assert_close(saved_tensors(pieces), saved_tensors(whole), rtol=1e-4, atol=atol)


UNREAD = {
    "reranker backbone.pooling": "reads the answer at the last token",
    "reranker backbone.attention": "reads the answer at the last token",
    "reranker evaluation.backend": "has no embeddings",
    "splade backbone.pooling": "model.pooling=sum",
    "splade evaluation.backend": "no embedding of a text",
    "splade evaluation.cache_embeddings": "no embedding of a text",
    "colbert backbone.pooling": "pools none",
    "colbert evaluation.backend": "no vector of a text",
    "colbert evaluation.cache_embeddings": "no vector of a text",
}


@pytest.mark.parametrize("case", UNREAD)
def test_keys_that_a_model_does_not_read_have_a_reason(case):
    name, _, key = case.partition(" ")
    (target,) = [kind.target() for kind in all_settings().values() if kind.name == name]
    job = {"model": {"_target_": target, "name": name}, "dataset": {"a": {}}}
    assert UNREAD[case] in why_unread(key, job)
