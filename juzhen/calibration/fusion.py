"""Two runs as one: score = α · first + (1 − α) · second, with the α that does best on dev."""

import numpy as np

from juzhen.calibration.calibration import UnfitError
from juzhen.core.columns import as_numbers
from juzhen.metrics.correlation import spearman

STEPS = 100
"""α is looked for among 0, 1/100, …, 1."""


def standardised(fitted: np.ndarray, judged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both less the mean of `fitted`, in units of its standard deviation: a logit and a cosine become comparable."""
    (fitted,), (judged,) = as_numbers(fitted=fitted), as_numbers(judged=judged)
    mean, unit = fitted.mean(), fitted.std() or 1.0
    return (fitted - mean) / unit, (judged - mean) / unit


def fit_weight(first: np.ndarray, second: np.ndarray, grades: np.ndarray) -> float:
    """The α of [0, 1] at which α · first + (1 − α) · second has the highest Spearman correlation with `grades`.

    Among equals the one nearest to one half. Raises UserError where the correlation is undefined.
    """
    first, second, grades = as_numbers(first=first, second=second, grades=grades)
    weights = np.linspace(0, 1, STEPS + 1)
    correlations = [spearman(weight * first + (1 - weight) * second, grades) for weight in weights]
    if all(value is None for value in correlations):
        raise UnfitError(
            "fusion needs rows of different gold values and scores that differ; these are constant"
        )
    best = max(value for value in correlations if value is not None)
    ties = [weight for weight, value in zip(weights, correlations, strict=True) if value == best]
    return float(min(ties, key=lambda weight: abs(weight - 0.5)))
