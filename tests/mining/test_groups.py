"""Close pairs, communities and clusters: by plain loops, and beside sentence-transformers."""

import numpy as np
import pytest
import torch

import juzhen
from juzhen.encoders.pooling import unit
from juzhen.mining import groups


@pytest.fixture(params=range(3))
def vectors(request, monkeypatch):
    monkeypatch.setattr(groups, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(groups, "COLUMNS_AT_ONCE", 11)
    draw = np.random.default_rng(request.param)
    centres = draw.normal(size=(4, 8)).repeat(9, axis=0)
    close = centres + draw.normal(size=centres.shape) * 0.3
    return np.concatenate([close, draw.normal(size=(6, 8)), close[:3]]).astype(np.float32)


@pytest.mark.parametrize(("max_pairs", "min_score"), [(10_000, -1.0), (10, -1.0), (10_000, 0.8), (1, 0.5)])
def test_paraphrases_are_the_best_of_all_pairs(vectors, max_pairs, min_score):
    scores = unit(vectors.astype(np.float64)) @ unit(vectors.astype(np.float64)).T
    pairs = [(i, j) for i in range(len(vectors)) for j in range(i + 1, len(vectors))]
    pairs.sort(key=lambda pair: (-np.float32(scores[pair]), pair))
    expected = [pair for pair in pairs if scores[pair] >= min_score][:max_pairs]
    found = groups.mine_paraphrases(vectors, max_pairs=max_pairs, min_score=min_score)
    assert [pair[:2] for pair in found] == expected
    np.testing.assert_allclose([pair.score for pair in found], [scores[pair] for pair in expected], atol=1e-6)


@pytest.mark.oracle
@pytest.mark.parametrize(("min_score", "min_size"), [(0.75, 3), (0.9, 2), (0.5, 8)])
def test_pairs_and_communities_are_those_of_sentence_transformers(vectors, min_score, min_size):
    util = pytest.importorskip("sentence_transformers.util")
    tensor = torch.from_numpy(vectors)
    theirs = util.community_detection(tensor, threshold=min_score, min_community_size=min_size)
    found = groups.detect_communities(vectors, min_score=min_score, min_size=min_size)
    assert [(group[0], sorted(group)) for group in found] == [(group[0], sorted(group)) for group in theirs]
    theirs = util.paraphrase_mining_embeddings(tensor, top_k=len(vectors))
    found = groups.mine_paraphrases(vectors)
    np.testing.assert_allclose([pair.score for pair in found], [pair[0] for pair in theirs], atol=1e-5)


def test_communities_have_their_middle_first_and_share_no_text(vectors):
    found = groups.detect_communities(vectors, min_score=0.7, min_size=4)
    members = [member for group in found for member in group]
    assert len(members) == len(set(members)) > 0
    unit_vectors = unit(vectors)
    for group in found:
        assert len(group) >= 4
        assert (unit_vectors[group] @ unit_vectors[group[0]] >= 0.7 - 1e-6).all()
    assert groups.detect_communities(vectors, min_score=0.99, min_size=30) == []


def test_clusters_find_what_was_drawn_around_centres():
    close = np.random.default_rng(0).normal(size=(36, 8)) * 0.2 + np.eye(4, 8).repeat(9, axis=0) * 2
    for labels in (groups.cluster(close, 4), groups.cluster(torch.from_numpy(close), min_score=0.6)):
        assert all(len({*labels[start : start + 9].tolist()}) == 1 for start in range(0, 36, 9))
    np.testing.assert_array_equal(groups.cluster(close, 4, seed=3), groups.cluster(close, 4, seed=3))


def test_nothing_has_no_pairs():
    assert juzhen.mine_paraphrases(np.empty((0, 4))) == juzhen.detect_communities(np.empty((0, 4))) == []
