"""How scores of dev pairs lie: what is watched of a model at each validation."""

import numpy as np

from juzhen.metrics.distribution import POSITIVE_ABOVE, score_distribution
from juzhen.metrics.geometry import score_histograms

NUM_BINS = 40


def score_summary(scores: np.ndarray, grades: np.ndarray, *, called: str) -> dict[str, float | None]:
    """What `score_distribution` gives, and the mean score of positives, of other pairs, and the gap between them.

    called  what scores are called in the names of these numbers: score, cosine

    None where there are no positives, or no others.
    """
    is_positive = grades > POSITIVE_ABOVE
    positive, negative = (
        float(scores[chosen].mean()) if chosen.any() else None for chosen in (is_positive, ~is_positive)
    )
    found = {name.removeprefix("score_"): value for name, value in score_distribution(scores, grades).items()}
    found |= {"of_positives": positive, "of_negatives": negative}
    found["gap"] = None if positive is None or negative is None else positive - negative
    return {f"{called}_{name}": value for name, value in found.items()}


def score_counts(
    scores: np.ndarray, grades: np.ndarray, *, low: float, high: float
) -> dict[str, list[float]]:
    """Scores of positive and of other pairs, counted in NUM_BINS bins from `low` to `high`."""
    edges, positives, others = score_histograms(scores, grades, num_bins=NUM_BINS, low=low, high=high)
    return {"edges": edges.round(6).tolist(), "positives": positives.tolist(), "negatives": others.tolist()}
