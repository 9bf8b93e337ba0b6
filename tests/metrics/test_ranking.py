"""Ranking against plain loops: what counts as found, what a tie is worth, what does not count."""

import math

import numpy as np
import pytest

from juzhen.core.examples import Examples, Kind
from juzhen.metrics.ranking import score_ranking

NAMES = {Kind.POSITIVE_PAIR: ("anchor", "positive"), Kind.TRIPLET: ("anchor", "positive", "negative")}


def ranked(scores, kind=Kind.POSITIVE_PAIR, *, temperature=0.05, samples=0):
    texts = {name: [f"{name}{row}" for row in range(len(scores))] for name in NAMES[kind]}
    given = Examples.from_texts("some", "dev", kind=kind, texts=texts)
    how = {"temperature": temperature, "confidence": 0.95, "bootstrap_samples": samples, "seed": 0}
    return score_ranking(np.array(scores, dtype=np.float32), given, **how)


def test_it_equals_the_loop():
    scores = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    scores[3, 2] = scores[7, 1:4] = -np.inf
    found = ranked(scores, temperature=0.5, samples=200)
    hits, losses, positives, negatives = [], [], [], []
    for row in scores.astype(np.float64).tolist():
        others = [one for one in row[1:] if one != -math.inf]
        hits.append(all(row[0] > one for one in others))
        losses.append(-row[0] / 0.5 + math.log(sum(math.exp(one / 0.5) for one in [row[0], *others])))
        positives.append(row[0])
        negatives += others
    assert found["ranking_accuracy"].value == pytest.approx(np.mean(hits))
    assert found["ranking_loss"].value == pytest.approx(np.mean(losses))
    assert found["positive_score"].value == pytest.approx(np.mean(positives))
    assert found["negative_score"].value == pytest.approx(np.mean(negatives))
    assert found["score_gap"].value == pytest.approx(np.mean(positives) - np.mean(negatives))
    for name in ("ranking_accuracy", "ranking_loss"):
        assert found[name].low < found[name].value < found[name].high
        assert found[name].count == 40


def test_a_model_that_cannot_tell_texts_apart_is_at_chance():
    assert ranked([[0.5] * 4] * 3)["ranking_accuracy"].value == pytest.approx(1 / 4)
    assert ranked([[0.5, 0.5]] * 3, Kind.TRIPLET)["triplet_accuracy"].value == pytest.approx(1 / 2)
    assert ranked([[0.5] * 4] * 3)["ranking_loss"].value == pytest.approx(math.log(4))


def test_a_triplet_is_right_when_its_positive_is_above_all_negatives():
    found = ranked([[0.9, 0.1, 0.2], [0.5, 0.6, 0.2]], Kind.TRIPLET)
    assert found["triplet_accuracy"].value == 0.5
    assert found["score_gap"].value == pytest.approx(0.7 - 0.275)
    assert "ranking_loss" not in found


def test_a_row_without_another_text_does_not_count():
    found = ranked([[0.9, -np.inf], [0.2, 0.1]])
    assert (found["ranking_accuracy"].value, found["ranking_accuracy"].count) == (1.0, 1)
    assert all(score.value is None for score in ranked([[0.9, -np.inf]]).values())
