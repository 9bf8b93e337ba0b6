"""One story of every family of models: train two steps, score, save, load, equal scores, evaluate again."""

import numpy as np
import pytest
import rerankers
from jobs import run_job

from juzhen.evaluation import evaluate
from juzhen.families.registry import FAMILIES, PairScorer, family_of, find_family, open_encoder
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
    if name == "generative_reranker":
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
