"""Scores of an evaluation set on the rows that training has not seen."""

import numpy as np

from juzhen.core.examples import Examples
from juzhen.core.result import WITHOUT_LEAKS, Score
from juzhen.metrics.ranking import COSINE_TEMPERATURE
from juzhen.metrics.scoring import score_set

NEED_A_THRESHOLD = ("accuracy", "f1")
"""Left out: a threshold would be fitted on rows of which some were seen as well."""


def score_unseen(
    scores: np.ndarray,
    examples: Examples,
    seen: np.ndarray,
    *,
    bootstrap_samples: int,
    seed: int,
    temperature: float = COSINE_TEMPERATURE,
) -> dict[str, Score]:
    """`spearman_without_leaks` and the like, with intervals and counts of their own; empty where nothing was seen.

    scores  the model's similarity per row of `examples`, (rows,), as for the score of the whole set
    seen    positions of rows that training has seen

    Everything else is as `score_set` takes it. A value is None where the other rows have no correlation: none is left,
    or one side is constant.
    """
    if not len(seen):
        return {}
    rest = np.setdiff1d(np.arange(len(examples)), seen)
    found = score_set(
        scores[rest],
        examples.select(rest),
        dev=None,
        bootstrap_samples=bootstrap_samples,
        seed=seed,
        temperature=temperature,
    )
    return {
        f"{metric}{WITHOUT_LEAKS}": score for metric, score in found.items() if metric not in NEED_A_THRESHOLD
    }
