"""Metrics of labelled pairs, and the threshold that decides them.

A score at or above a threshold means "same meaning". Labels are 1 (same) and 0 (not). A threshold is fitted on one
split and applied to another. Where only one split exists it is cross-fitted, because a threshold flatters the rows that
it was fitted on.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool

from juzhen.core.columns import as_numbers
from juzhen.core.errors import require_choice
from juzhen.metrics.correlation import finite

Objective = Literal["accuracy", "f1", "mcc"]


def fit_threshold(scores: np.ndarray, labels: np.ndarray, *, objective: Objective) -> float:
    """Find the threshold with the best accuracy, F1 or MCC on these rows, by an exact scan.

    It is half way between two neighbouring scores, or ∓inf where accepting every or no row is best. Of equally good
    ones the lowest is taken.

    Args:
        scores: Score of each row, higher = closer.
        labels: 0 or 1.
        objective: "accuracy", "f1" or "mcc".

    Returns:
        The threshold.

    Raises:
        ValueError: Other labels, or scores that are not finite.
    """
    require_choice("objective", objective, QUALITIES)
    scores, labels = _checked(scores, labels)
    distinct, group = np.unique(scores, return_inverse=True)
    thresholds = np.concatenate([[-np.inf], (distinct[1:] + distinct[:-1]) / 2, [np.inf]])
    # Rows and positives that fall below each threshold, i.e. that it rejects.
    rejected = np.concatenate([[0], np.cumsum(np.bincount(group))])
    missed = np.concatenate([[0], np.cumsum(np.bincount(group, weights=labels))])
    positives = labels.sum()
    hits, accepted = positives - missed, len(labels) - rejected
    if objective == "accuracy":
        quality = hits + (rejected - missed)
    elif objective == "f1":
        quality = 2 * hits / np.maximum(accepted + positives, 1)
    else:
        spread = np.sqrt(accepted * rejected * positives * (len(labels) - positives))
        quality = (hits * len(labels) - accepted * positives) / np.maximum(spread, 1)
    return float(thresholds[np.argmax(quality)])


def decision_quality(
    scores: np.ndarray, labels: np.ndarray, *, objective: Objective, threshold: float | None
) -> float | None:
    """Accuracy, F1 of the positive class, or Matthews' correlation of the rows that score at least a threshold.

    F1 is 2·TP / (2·TP + FP + FN). Matthews' correlation of decision and label is from −1 to 1, and 0 if all rows get
    one decision.

    Args:
        scores: Score of each row, higher = closer.
        labels: 0 or 1 for each row.
        objective: "accuracy", "f1" or "mcc".
        threshold: Score from which a row is accepted. None: each half of the rows is judged by the other half's best
            threshold.

    Returns:
        The value. None without rows, for F1 without positive rows, for the correlation with one class, and without a
        threshold below two rows of a label.
    """
    accepted = accepted_rows(scores, labels, objective=objective, threshold=threshold)
    return None if accepted is None else QUALITIES[objective](accepted, np.asarray(labels).astype(np.int64))


def accepted_rows(
    scores: np.ndarray, labels: np.ndarray, *, threshold: float | None, objective: Objective = "accuracy"
) -> Bool[np.ndarray, "rows"] | None:
    """Rows that score at least the threshold. None if threshold is None, and a label has fewer than two rows.

    Args:
        scores: Score of each row, higher = closer.
        labels: 0 or 1 for each row.
        threshold: Score from which a row is accepted. None: as in `decision_quality`.
        objective: Metric that the threshold maximises if none is given.

    Returns:
        bool array (rows,), or None.
    """
    scores, labels = _checked(scores, labels)
    return _cross_fitted(scores, labels, objective=objective) if threshold is None else scores >= threshold


class Decisions(NamedTuple):
    """Quality of the answers of a threshold, as fractions. None where undefined.

    Attributes:
        accuracy: Share of correct answers.
        precision: TP / (TP + FP).
        recall: TP / (TP + FN).
        f1: Harmonic mean of precision and recall.
    """

    accuracy: float | None = None
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None


def decisions_at(scores: np.ndarray, labels: np.ndarray, *, threshold: float | None) -> Decisions:
    """Judge the decision to accept rows that score at least the threshold.

    Args:
        scores: Score of each row, higher = closer.
        labels: 0 or 1 for each row.
        threshold: None: each half of the rows is judged by the threshold of the other half with the best
            accuracy.

    Returns:
        Accuracy, F1, MCC and counts.
    """
    accepted = accepted_rows(scores, labels, threshold=threshold)
    scores, labels = _checked(scores, labels)
    if accepted is None:
        return Decisions()
    hits = float(labels[accepted].sum())
    return Decisions(
        _accuracy(accepted, labels),
        hits / float(accepted.sum()) if accepted.any() else None,
        hits / float(labels.sum()) if labels.any() else None,
        _f1(accepted, labels),
    )


def average_precision(scores: np.ndarray, labels: np.ndarray) -> float | None:
    """Σ (recall step × precision) over falling thresholds, in [0, 1]. None for one class: of positives it is 1.

    Args:
        scores: Score of each row, higher = closer.
        labels: 0 or 1 for each row.

    Returns:
        The precision, or None.
    """
    scores, labels = _checked(scores, labels)
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(labels, scores)) if 0 < labels.sum() < len(labels) else None


def area_under_curve(scores: np.ndarray, labels: np.ndarray) -> float | None:
    """Probability that a positive row scores higher than a negative one, ties half, in [0, 1]. None for one class.

    Args:
        scores: Score of each row, higher = closer.
        labels: 0 or 1 for each row.

    Returns:
        The probability, or None.
    """
    scores, labels = _checked(scores, labels)
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores)) if 0 < labels.sum() < len(labels) else None


def _cross_fitted(scores: np.ndarray, labels: np.ndarray, *, objective: Objective) -> np.ndarray | None:
    """Accepted rows, each half by the threshold of the other. No threshold can be fitted on one class."""
    if min(labels.sum(), len(labels) - labels.sum()) < 2:
        return None
    first, second = halves(labels)
    accepted = np.empty(len(scores), dtype=bool)
    for judged, fitted in ((first, second), (second, first)):
        threshold = fit_threshold(scores[fitted], labels[fitted], objective=objective)
        accepted[judged] = scores[judged] >= threshold
    return accepted


def halves(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of two halves with equal shares of the targets. They depend on targets alone, never on scores.

    Rows are shuffled first, by a fixed permutation: files often alternate between classes or repeat a sentence in the
    next row.

    Args:
        targets: Gold value of each row.

    Returns:
        Two arrays of row numbers.
    """
    (targets,) = as_numbers(targets=targets)
    shuffled = np.random.default_rng(0).permutation(len(targets))
    ordered = shuffled[np.argsort(targets[shuffled], kind="stable")]
    return np.sort(ordered[::2]), np.sort(ordered[1::2])


def _accuracy(accepted: np.ndarray, labels: np.ndarray) -> float | None:
    return float(np.mean(accepted == (labels == 1))) if len(labels) else None


def _f1(accepted: np.ndarray, labels: np.ndarray) -> float | None:
    positives = labels.sum()
    return float(2 * labels[accepted].sum() / (accepted.sum() + positives)) if positives else None


def _mcc(accepted: np.ndarray, labels: np.ndarray) -> float | None:
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(labels, accepted)) if 0 < labels.sum() < len(labels) else None


QUALITIES: Mapping[Objective, Callable[[np.ndarray, np.ndarray], float | None]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "mcc": _mcc,
}
"""Objective → its value for decisions and labels."""


def _checked(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores in float32, then widened: the middle of two neighbouring float32 numbers needs float64."""
    scores, labels = as_numbers(scores=scores, labels=labels)
    wrong = np.flatnonzero(~np.isin(labels, (0, 1)))
    if len(wrong):
        raise ValueError(f"row {wrong[0]}: the label is {labels[wrong[0]]}, expected 0 or 1")
    return finite(scores, "score"), labels.astype(np.int64)
