"""Scores of one evaluation set → the numbers that go into a result."""

import numpy as np

from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
from juzhen.core.measures import RANKED
from juzhen.core.result import Score
from juzhen.metrics.correlation import bootstrap_interval, pearson, spearman
from juzhen.metrics.distribution import score_distribution
from juzhen.metrics.ranking import COSINE_TEMPERATURE, score_ranking
from juzhen.metrics.threshold import (
    accuracy_at,
    area_under_curve,
    average_precision,
    cross_fitted_accuracy,
    cross_fitted_f1,
    f1_at,
    fit_threshold,
)

CONFIDENCE = 0.95
"""What `juzhen.core.result.Score` promises of its interval."""


def score_set(
    scores: np.ndarray,
    examples: Examples,
    *,
    dev: tuple[np.ndarray, Examples] | None,
    bootstrap_samples: int,
    seed: int,
    temperature: float = COSINE_TEMPERATURE,
) -> dict[str, Score]:
    """Metric name → Score, as fractions: `spearman` (with interval), `pearson`, and for labelled pairs also
    `accuracy`, `f1`, `average_precision`, `auc`; and what `score_distribution` gives, in units of the score.
    For positive pairs and triplets what `score_ranking` gives.

    scores  the model's similarity per row, (rows,), higher = closer; (rows, candidates) of positive pairs and triplets
    dev     scores and examples of the dev split of the same set, None where it has none
    temperature  divides scores in `ranking_loss`

    Thresholds of accuracy and F1 are fitted on dev; dev itself is cross-fitted; without dev both are None.
    NLI pairs are correlated with the grades 1, 0.5, 0. Of single texts there is nothing to measure: the answer is
    empty.

    Raises ValueError naming set, split and the first row whose score is not finite.
    """
    if len(TEXT_COLUMNS[examples.kind]) == 1:
        return {}
    try:
        if examples.kind in RANKED:
            how = {"temperature": temperature, "confidence": CONFIDENCE}
            return score_ranking(scores, examples, **how, bootstrap_samples=bootstrap_samples, seed=seed)
        grades = examples.grades()
        assert grades is not None  # pairs that are not ranked have an order
        low, high = bootstrap_interval(
            scores, grades, samples=bootstrap_samples, confidence=CONFIDENCE, seed=seed
        )
        found = {
            "spearman": Score(spearman(scores, grades), low, high, count=len(grades)),
            "pearson": Score(pearson(scores, grades), count=len(grades)),
        }
        spread = score_distribution(scores, grades)
        found |= {name: Score(value, count=len(grades)) for name, value in spread.items()}
        if examples.kind is Kind.LABELLED_PAIR:
            found |= _decisions(scores, examples, dev=dev)
    except ValueError as error:
        raise ValueError(f"{examples.name}/{examples.split}: {error}") from error
    return found


def _decisions(
    scores: np.ndarray, examples: Examples, *, dev: tuple[np.ndarray, Examples] | None
) -> dict[str, Score]:
    """Metrics that need a threshold or class, for labelled pairs."""
    labels = examples.targets
    assert labels is not None  # labelled pairs have labels
    accuracy = f1 = None
    if examples.split == "dev":
        accuracy, f1 = cross_fitted_accuracy(scores, labels), cross_fitted_f1(scores, labels)
    elif dev is not None:
        dev_scores, dev_labels = dev[0], dev[1].targets
        assert dev_labels is not None  # the same set, hence the same kind
        by_accuracy = fit_threshold(dev_scores, dev_labels, objective="accuracy")
        by_f1 = fit_threshold(dev_scores, dev_labels, objective="f1")
        accuracy = accuracy_at(scores, labels, threshold=by_accuracy)
        f1 = f1_at(scores, labels, threshold=by_f1)
    values = {
        "accuracy": accuracy,
        "f1": f1,
        "average_precision": average_precision(scores, labels),
        "auc": area_under_curve(scores, labels),
    }
    return {name: Score(value, count=len(labels)) for name, value in values.items()}
