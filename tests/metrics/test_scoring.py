import numpy as np
import pytest

from juzhen.core.examples import Examples, Kind
from juzhen.core.kinds import MEASURES, STANDARD_RANKS
from juzhen.core.result import Score
from juzhen.evaluation.encoding_plan import CosinePlan
from juzhen.evaluation.scoring import score_set, score_sets
from juzhen.metrics.threshold import decision_quality


def examples(split: str, targets: list[float] | None, *, kind: Kind = Kind.LABELLED_PAIR) -> Examples:
    rows = 4 if targets is None else len(targets)
    columns = {
        Kind.NLI_PAIR: ("premise", "hypothesis"),
        Kind.TRIPLET: ("anchor", "positive", "negative"),
        Kind.POSITIVE_PAIR: ("anchor", "positive"),
    }.get(kind, ("text_a", "text_b"))
    texts = {column: [f"{column}{row}" for row in range(rows)] for column in columns}
    return Examples.from_texts("lcqmc", split, kind=kind, texts=texts, targets=targets)


def measured(scores: list[float], given: Examples, *, dev=None, samples: int = 0) -> dict[str, Score]:
    return score_set(np.array(scores), given, dev=dev, bootstrap_samples=samples, seed=0)


def test_graded_pairs_have_correlations_only():
    given = examples("test", [0.0, 0.2, 0.6, 1.0], kind=Kind.SCORED_PAIR)
    found = measured([0.1, 0.2, 0.5, 0.9], given, samples=50)
    assert list(found) == ["spearman", "pearson", "score_mean", "score_variance", "ks", "ks_p_value"]
    assert (found["score_mean"].value, found["ks"].value) == (pytest.approx(0.425), 1)
    assert found["spearman"].value == pytest.approx(1)
    assert found["spearman"].low <= found["spearman"].value <= found["spearman"].high + 1e-12
    assert (found["pearson"].low, found["pearson"].count) == (None, 4)


def test_a_test_split_is_judged_by_the_threshold_of_dev():
    dev = (np.array([0.1, 0.2, 0.7, 0.8]), examples("dev", [0, 0, 1, 1]))
    # Its own best threshold would make all four right; that of dev, 0.45, makes two.
    found = measured([0.5, 0.6, 0.9, 0.95], examples("test", [0, 0, 1, 1]), dev=dev)
    assert found["accuracy"].value == 0.5
    assert found["f1"].value == pytest.approx(2 / 3)
    assert found["average_precision"].value == 1


def test_a_test_split_without_dev_has_no_threshold():
    found = measured([0.5, 0.6, 0.9, 0.95], examples("test", [0, 0, 1, 1]))
    assert found["accuracy"] == Score(None, count=4)
    assert found["f1"].value is None
    assert found["average_precision"].value == 1


def test_dev_is_cross_fitted():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 50).astype(np.float32)
    scores = labels + generator.normal(size=50)
    given = examples("dev", labels.tolist())
    found = score_set(scores, given, dev=(scores, given), bootstrap_samples=0, seed=0)
    assert found["accuracy"].value == decision_quality(scores, labels, objective="accuracy", threshold=None)
    assert 0 < found["f1"].value < 1


def test_nli_classes_are_graded_entailment_first():
    given = examples("dev", [0, 1, 2], kind=Kind.NLI_PAIR)
    assert measured([0.9, 0.5, 0.1], given)["spearman"].value == pytest.approx(1)
    assert "accuracy" not in measured([0.9, 0.5, 0.1], given)


@pytest.mark.parametrize("kind", [Kind.SENTENCE, Kind.LABELLED_TEXT])
def test_single_texts_have_nothing_to_measure(kind):
    texts = {"text": ["a", "b"]}
    given = Examples.from_texts("lcqmc", "dev", kind=kind, texts=texts, targets=[0.0, 1.0])
    assert measured([], given) == {}


@pytest.mark.parametrize("kind", [Kind.TRIPLET, Kind.POSITIVE_PAIR])
def test_what_ranks_has_measures_of_its_own(kind):
    found = measured([[0.9, 0.1]] * 4, examples("dev", None, kind=kind))
    assert next(iter(found)) == ("ranking_accuracy" if kind is Kind.POSITIVE_PAIR else MEASURES[kind][0])
    assert {*found} == {*MEASURES[kind]} - {*STANDARD_RANKS}  # these come of a search through all rows


def test_constant_scores_are_null_not_zero():
    found = measured([0.5] * 4, examples("dev", [0, 0, 1, 1]), samples=10)
    assert found["spearman"] == Score(None, None, None, count=4)


def answers():
    """One question with two answers, neither of which is a wrong answer for the other, and their scores."""
    texts = {"anchor": ["怎么还款", "怎么还款", "几点开门"], "positive": ["点还款", "看账单", "九点"]}
    pairs = Examples.from_texts("faq", "dev", kind=Kind.POSITIVE_PAIR, texts=texts)
    plan = CosinePlan([pairs])
    outputs = np.random.default_rng(0).normal(size=(len(plan.sentences), 4)).astype(np.float32)
    return pairs, plan.scores(outputs)


def test_a_candidate_that_is_left_out_is_no_broken_score():
    pairs, scores = answers()
    assert np.isneginf(scores[0]).sum() == 2
    found = score_sets([pairs], scores, bootstrap_samples=0, seed=0, seen={})
    assert all(np.isfinite(one.value) for one in found.values())


def test_a_dev_split_of_another_kind_gives_no_threshold():
    """test.csv and dev.csv of one folder are one set by their names, whatever their rows."""
    sets = [examples("test", [0, 0, 1, 1]), examples("dev", [0.0, 0.2, 0.6, 1.0], kind=Kind.SCORED_PAIR)]
    scores = [np.array([0.1, 0.2, 0.7, 0.8]), np.array([0.1, 0.2, 0.5, 0.9])]
    found = score_sets(sets, scores, bootstrap_samples=0, seed=0, seen={})
    assert found["test/lcqmc/spearman"].value is not None
    assert found["test/lcqmc/accuracy"].value is None
