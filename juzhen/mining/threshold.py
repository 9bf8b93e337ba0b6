"""A threshold fitted on labelled pairs: from which score on a candidate is taken for an answer."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from juzhen.core.errors import UserError


@dataclass(frozen=True)
class FittedThreshold:
    """What a threshold does to the pairs that it was fitted on.

    value      scores at or above it are refused
    positives, negatives  pairs with label 1 and with label 0
    kept_positives        share of those with label 1 below it: false negatives that would be kept
    refused_negatives     share of those with label 0 at or above it: negatives that would be lost
    """

    value: float
    positives: int
    negatives: int
    kept_positives: float
    refused_negatives: float


def fit_false_negatives(
    scores: Float[np.ndarray, "pairs"], labels: Float[np.ndarray, "pairs"], *, rate: float
) -> FittedThreshold:
    """The highest threshold below which at most the share `rate` of the pairs with label 1 lies.

    Raises UserError for a rate outside of [0, 1), and without pairs of both labels.
    """
    if not 0 <= rate < 1:
        raise UserError(f"false_negative_rate={rate}: expected 0 or more and below 1, such as 0.05")
    answers, others = np.sort(scores[labels == 1]), scores[labels == 0]
    if not len(answers) or not len(others):
        raise UserError(
            "a threshold is fitted on pairs with label 1 and with label 0; one of them is missing"
        )
    value = answers[int(rate * len(answers))]
    return FittedThreshold(
        float(value),
        len(answers),
        len(others),
        float(np.mean(answers < value)),
        float(np.mean(others >= value)),
    )
