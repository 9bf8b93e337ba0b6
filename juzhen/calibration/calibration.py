"""From scores to probabilities: temperature and Platt scaling, and calibration errors."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit

from juzhen.core.columns import as_numbers
from juzhen.core.errors import UserError, check_count
from juzhen.metrics.correlation import spearman

NUM_BINS = 15
Labelled = tuple[np.ndarray, np.ndarray]
"""Scores of rows, and their 0/1 labels."""

LOG_TEMPERATURES = (-7.0, 7.0)
"""Temperatures from 0.001 to 1,100 times the spread of the scores are looked at."""


@dataclass(frozen=True)
class Bin:
    """Rows whose probability is in one interval of [0, 1].

    Args:
        count: Number of rows.
        probability: Their mean probability. None without rows.
        positives: Share of rows with label 1. None without rows.
    """

    count: int
    probability: float | None
    positives: float | None


class UnfitError(UserError):
    """Nothing can be fitted on these rows. Other sets may work.

    Args:
        message: What the rows lack, and what to do.
    """


def nll(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean negative log likelihood of 0/1 labels, in nats.

    Args:
        logits: Logit of label 1 for each row.
        labels: 0 or 1 for each row.

    Returns:
        The mean over the rows.
    """
    logits, labels = as_numbers(logits=logits, labels=labels)
    return float(-np.mean(labels * log_expit(logits) + (1 - labels) * log_expit(-logits)))


def fit_temperature(scores: np.ndarray, labels: np.ndarray) -> float:
    """Fit the T > 0 that maximises the likelihood of sigmoid(score / T).

    (Guo et al. 2017, section 4.2, https://arxiv.org/abs/1706.04599) T changes no order and moves no 0: a score of 0
    stays a probability of one half.

    Args:
        scores: Score of each row, higher = closer.
        labels: 0 or 1 for each row.

    Returns:
        T.

    Raises:
        UserError: All labels are equal.
    """
    scores, labels = _of_both_labels(scores, labels)
    unit = float(np.std(scores)) or 1.0
    minimum = minimize_scalar(
        lambda log: nll(scores / (unit * np.exp(log)), labels),
        bounds=LOG_TEMPERATURES,
        method="bounded",
        options={"xatol": 1e-8},
    )
    return unit * float(np.exp(minimum.x))


def fit_platt(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Fit (a, b) of sigmoid(a · score + b), with Platt's targets (Platt 1999, section 2.2).

    These are (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2) instead of 1 and 0, so that separable rows have a finite answer.

    Args:
        scores: Score of each row, higher = closer.
        labels: 0 or 1 for each row.

    Returns:
        a and b.

    Raises:
        UserError: All labels are equal.
    """
    scores, labels = _of_both_labels(scores, labels)
    positives, negatives = labels.sum(), (1 - labels).sum()
    targets = np.where(labels > 0, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    mean, unit = float(np.mean(scores)), float(np.std(scores)) or 1.0
    standard = (scores - mean) / unit

    def cost(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        logits = parameters[0] * standard + parameters[1]
        errors = expit(logits) - targets
        return nll(logits, targets), np.array([np.mean(errors * standard), np.mean(errors)])

    slope, shift = minimize(cost, np.array([1.0, 0.0]), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    return float(slope / unit), float(shift - slope * mean / unit)


def reliability(probabilities: np.ndarray, labels: np.ndarray, *, num_bins: int = NUM_BINS) -> list[Bin]:
    """Bin rows by their probability of label 1, in bins of equal width. Empty bins have no means.

    Args:
        probabilities: Probability of label 1 for each row.
        labels: 0 or 1 for each row.
        num_bins: Number of bins.

    Returns:
        The bins, from probability 0 to 1.

    Raises:
        UserError: No rows, a number that is no probability, or another label.
    """
    check_count("num_bins", num_bins)
    probabilities, labels = _checked(labels, probabilities=probabilities)
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise UserError("probabilities: expected numbers from 0 to 1. Scale scores by fit_platt first")
    indices = np.minimum((probabilities * num_bins).astype(int), num_bins - 1)
    bins = []
    for index in range(num_bins):
        rows = indices == index
        count = int(rows.sum())
        means = (float(probabilities[rows].mean()), float(labels[rows].mean())) if count else (None, None)
        bins.append(Bin(count, *means))
    return bins


def expected_calibration_error(bins: list[Bin]) -> float:
    """Return the mean |probability − share of positives| over the bins, weighted by their rows. 0 is perfect.

    Bins are over the probability of label 1. Guo et al. 2017 bin the likelier class. With two classes, that
    folds the bins below one half onto the bins above.

    Args:
        bins: Output of `reliability`.

    Returns:
        The error, from 0 to 1.

    Raises:
        UserError: Bins without rows.
    """
    total = sum(stretch.count for stretch in bins)
    if not total:
        raise UnfitError("bins: none has rows, so there is no error. Give those of reliability(…)")
    gaps = (
        stretch.count * abs(stretch.probability - stretch.positives)
        for stretch in bins
        if stretch.probability is not None and stretch.positives is not None
    )
    return sum(gaps) / total


def calibration_errors(logits: np.ndarray, labels: np.ndarray) -> dict[str, object]:
    """Return ECE, Brier score, negative log likelihood and the bins of sigmoid(logits).

    Args:
        logits: Logit of label 1 for each row.
        labels: 0 or 1 for each row.

    Returns:
        Name of the measure → its value.

    Raises:
        UserError: A label other than 0 and 1, or logits that are not finite.
    """
    logits, labels = _checked(labels, logits=logits)
    probabilities = expit(logits)
    bins = reliability(probabilities, labels)
    return {
        "ece": expected_calibration_error(bins),
        "brier": float(np.mean((probabilities - labels) ** 2)),
        "nll": nll(logits, labels),
        "bins": [vars(stretch) for stretch in bins],
    }


def calibrated(fitted: Labelled, judged: Labelled) -> dict[str, object]:
    """Fit temperature and Platt scaling, and report how each calibrates.

    Args:
        fitted: Scores and labels of the rows to fit on.
        judged: Scores and labels of the rows to report.

    Returns:
        `fitted` with T, a and b, and `calibration_errors` of the judged rows as `raw`, `temperature` and `platt`.
    """
    temperature, (slope, shift) = fit_temperature(*fitted), fit_platt(*fitted)
    scores, labels = as_numbers(scores=judged[0], labels=judged[1])
    logits = {"raw": scores, "temperature": scores / temperature, "platt": slope * scores + shift}
    errors = {method: calibration_errors(values, labels) for method, values in logits.items()}
    return {"fitted": {"temperature": [temperature], "platt": [slope, shift]}, **errors}


def _of_both_labels(scores: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    if len(np.unique(labels)) < 2:
        raise UnfitError("calibration needs rows of both labels to be fitted on. These have one or none")
    return _checked(labels, scores=scores)


def _checked(labels: np.ndarray, **scores: np.ndarray) -> list[np.ndarray]:
    """One column of scores by its name, and labels of 0 and 1."""
    *columns, labels = _finite(**scores, labels=labels)
    if not np.isin(labels, (0, 1)).all():
        raise UnfitError("labels: expected 0 and 1. Leave out other rows")
    return [*columns, labels]


def _finite(**columns: np.ndarray) -> list[np.ndarray]:
    """Columns as of `as_numbers`, of one row at least. Raises UnfitError for NaN and infinity."""
    arrays = as_numbers(**columns)
    for name, values in zip(columns, arrays, strict=True):
        if not len(values) or not np.isfinite(values).all():
            raise UnfitError(f"{name}: expected finite numbers, one for each row. Leave out other rows")
    return arrays


STEPS = 100
"""α is looked for among 0, 1/100, …, 1."""


def standardised(fitted: np.ndarray, judged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Subtract the mean of `fitted` from both, and divide by its standard deviation.

    Args:
        fitted: Scores that give mean and deviation.
        judged: Other scores.

    Returns:
        The two arrays in units of the deviation.

    Raises:
        UserError: Scores that are not finite.
    """
    (fitted,), (judged,) = _finite(fitted=fitted), _finite(judged=judged)
    mean, unit = fitted.mean(), fitted.std() or 1.0
    return (fitted - mean) / unit, (judged - mean) / unit


def fit_weight(first: np.ndarray, second: np.ndarray, grades: np.ndarray) -> float:
    """Fit the α of [0, 1] for which α · first + (1 − α) · second correlates best with `grades` (Spearman).

    Ties choose the α nearest to one half.

    Args:
        first: Standardised scores of the first model.
        second: Standardised scores of the second model.
        grades: Gold value of each row, higher = closer.

    Returns:
        α.

    Raises:
        UserError: Gold values or scores are constant, so that no correlation is defined.
    """
    first, second, grades = _finite(first=first, second=second, grades=grades)
    weights = np.linspace(0, 1, STEPS + 1)
    correlations = [spearman(weight * first + (1 - weight) * second, grades) for weight in weights]
    if all(value is None for value in correlations):
        raise UnfitError(
            "fusion needs rows of different gold values and scores that differ. These are constant"
        )
    best = max(value for value in correlations if value is not None)
    ties = [weight for weight, value in zip(weights, correlations, strict=True) if value == best]
    return float(min(ties, key=lambda weight: abs(weight - 0.5)))
