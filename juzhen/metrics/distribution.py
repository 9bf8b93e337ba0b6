"""How the scores of a set are spread, and how far those of positives lie from the others."""

import numpy as np
from scipy.special import kolmogorov

POSITIVE_ABOVE = 0.5
"""Pairs of a higher grade count as positives: label 1, entailment, the upper half of graded similarity."""


def score_distribution(scores: np.ndarray, grades: np.ndarray) -> dict[str, float | None]:
    """Mean and variance of the scores, and the Kolmogorov-Smirnov test of positives against the other pairs.

    score_mean, score_variance  in units of the score, and of its square (divided by N); None without rows
    ks          largest distance between the shares of positives and of others that score at most s, over all s:
                sup_s |F₊(s) − F₋(s)|, 0 where both are spread alike, 1 where a threshold divides them
    ks_p_value  how probable such a distance or a larger one is if both are draws of one distribution, for many rows
                (Smirnov 1948, https://doi.org/10.1214/aoms/1177730256)

    `ks` and its p-value are None where there are no positives or no others.
    """
    scores, is_positive = np.asarray(scores, dtype=np.float64), np.asarray(grades) > POSITIVE_ABOVE
    distance, probability = kolmogorov_smirnov(scores[is_positive], scores[~is_positive])
    return {
        "score_mean": float(scores.mean()) if len(scores) else None,
        "score_variance": float(scores.var()) if len(scores) else None,
        "ks": distance,
        "ks_p_value": probability,
    }


def kolmogorov_smirnov(first: np.ndarray, second: np.ndarray) -> tuple[float | None, float | None]:
    """Largest distance between two empirical distributions, and its p-value from the limit for many rows."""
    if not len(first) or not len(second):
        return None, None
    places = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(one), places, side="right") / len(one) for one in (first, second)]
    distance = float(np.abs(shares[0] - shares[1]).max())
    rows = len(first) * len(second) / len(places)
    return distance, float(kolmogorov(distance * np.sqrt(rows)))
