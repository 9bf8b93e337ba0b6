import numpy as np
import pytest
from scipy.stats import spearmanr

from juzhen.core.examples import Examples, Kind
from juzhen.evaluation.scoring import score_set, score_unseen

ROWS = 40
SCORES = np.random.default_rng(0).random(ROWS).astype(np.float32)
SPREAD = ("score_mean", "score_variance", "ks", "ks_p_value")
HOW = {"bootstrap_samples": 50, "seed": 1}


def pairs(kind: Kind, targets: np.ndarray, split: str = "dev") -> Examples:
    texts = {"text_a": [f"甲{i}" for i in range(ROWS)], "text_b": [f"乙{i}" for i in range(ROWS)]}
    return Examples.from_texts("some", split, kind=kind, texts=texts, targets=targets)


GRADED = pairs(Kind.SCORED_PAIR, np.random.default_rng(1).random(ROWS))
LABELLED = pairs(Kind.LABELLED_PAIR, np.arange(ROWS) % 2, "test")


def test_only_the_other_rows_count():
    seen = np.array([0, 3, 39])
    found = score_unseen(SCORES, GRADED, seen, **HOW)
    rest = np.delete(np.arange(ROWS), seen)
    score = found["spearman_without_leaks"]
    assert score.value == pytest.approx(spearmanr(SCORES[rest], GRADED.targets[rest]).statistic)
    assert score.count == ROWS - 3
    assert score.low < score.value < score.high
    assert score.value != score_set(SCORES, GRADED, dev=None, **HOW)["spearman"].value
    assert set(found) == {f"{name}_without_leaks" for name in ("spearman", "pearson", *SPREAD)}


def test_metrics_of_labelled_pairs_but_none_that_needs_a_threshold():
    found = score_unseen(SCORES, LABELLED, np.array([1]), **HOW)
    assert {name.removesuffix("_without_leaks") for name in found} == {
        "spearman",
        "pearson",
        *SPREAD,
        "average_precision",
        "auc",
    }
    assert all(score.count == ROWS - 1 and score.value is not None for score in found.values())


def test_nothing_seen_is_no_second_number():
    assert score_unseen(SCORES, GRADED, np.empty(0, dtype=np.int64), **HOW) == {}


@pytest.mark.parametrize("examples", [GRADED, LABELLED], ids=["graded", "labelled"])
def test_all_seen_is_a_null(examples):
    found = score_unseen(SCORES, examples, np.arange(ROWS), **HOW)
    assert "spearman_without_leaks" in found
    assert {(one.value, one.low, one.high, one.count) for one in found.values()} == {(None, None, None, 0)}


def test_a_constant_rest_is_a_null_with_its_count():
    seen = np.flatnonzero(LABELLED.targets == 1)
    score = score_unseen(SCORES, LABELLED, seen, **HOW)["spearman_without_leaks"]
    assert (score.value, score.count) == (None, ROWS // 2)
