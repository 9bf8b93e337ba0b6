"""The seven STS sets as one number and as the mean of seven."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from juzhen.core.examples import Examples, Kind
from juzhen.evaluation.scoring import STS_SETS, score_set, score_together


def seven(*, without=()):
    generator = np.random.default_rng(0)
    sets, scores = [], []
    for number, name in enumerate(STS_SETS):
        if name in without:
            continue
        count = 5 + number
        texts = {column: [f"{column}{row}" for row in range(count)] for column in ("text_a", "text_b")}
        targets = generator.random(count)
        sets.append(Examples.from_texts(name, "test", kind=Kind.SCORED_PAIR, texts=texts, targets=targets))
        scores.append(targets + generator.normal(size=count))
    return sets, scores


def measured(sets, scores):
    found = {}
    for one, values in zip(sets, scores, strict=True):
        each = score_set(values, one, dev=None, bootstrap_samples=0, seed=0)
        found |= {f"test/{one.name}/{name}": score for name, score in each.items()}
    return found, score_together(sets, scores, found, bootstrap_samples=20, seed=0)


def test_all_is_over_every_pair_and_mean_over_the_sets():
    sets, scores = seven()
    found, together = measured(sets, scores)
    expected = spearmanr(np.concatenate(scores), np.concatenate([one.targets for one in sets])).statistic
    everything = together["test/sts_all/spearman"]
    assert everything.value == pytest.approx(expected)
    assert everything.low <= everything.value <= everything.high
    mean = np.mean([found[f"test/{name}/spearman"].value for name in STS_SETS])
    assert together["test/sts_mean/spearman"].value == pytest.approx(mean)
    assert everything.value != pytest.approx(mean)


def test_a_set_that_is_missing_leaves_no_number():
    assert measured(*seven(without=("sts13",)))[1] == {}


def test_a_correlation_that_is_undefined_leaves_the_mean_empty():
    sets, scores = seven()
    scores[2][:] = 0.5
    assert measured(sets, scores)[1]["test/sts_mean/spearman"].value is None
