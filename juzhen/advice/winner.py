"""Estimate of the best of several, without the bias of having chosen it on the same data.

The best of several measured scores is too high on average: luck helped to choose it (the winner's curse). The
estimate of Andrews, Kitagawa and McCloskey (2024, "Inference on Winners", The Quarterly Journal of Economics 139 (1),
305-358) conditions on the choice: given that it won, the estimate is a truncated normal variable. Their hybrid interval
(section 4) also keeps the truth within the simultaneous interval of level BETA, so that it stays short near a tie. All
data both choose and estimate, so no row is set aside.
"""

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import ndtr as norm_cdf
from scipy.stats import norm

BETA = 0.1
"""Share of the allowed misses that the simultaneous interval uses, as the authors recommend."""


def winner_interval(
    value: float,
    error: float,
    leads: Float[np.ndarray, " rival"],
    covariances: Float[np.ndarray, " rival"],
    *,
    level: float = 0.05,
) -> tuple[float, float, float]:
    """Compute a median-unbiased estimate of the winner, and its hybrid interval.

    Args:
        value: Measured value of the winner.
        error: Its standard error.
        leads: How far it is ahead of each rival, in the scores that chose it. Not negative.
        covariances: Of each lead with `value`.
        level: Share of intervals that miss the truth.

    Returns:
        The estimate, the lower and the upper end.

    Example:
        >>> close = winner_interval(3.0, 1.0, np.array([0.1]), np.array([1.0]))
        >>> [round(number, 1) for number in close]
        [0.1, -0.0, 4.1]
        >>> clear = winner_interval(3.0, 1.0, np.array([5.0]), np.array([1.0]))
        >>> [round(number, 1) for number in clear]
        [3.0, 1.0, 5.0]
    """
    if error == 0:
        return value, value, value
    slopes = covariances / error**2
    with np.errstate(divide="ignore", invalid="ignore"):
        # The lead of a rival stays positive as long as the value is on this side of the bound.
        bounds = value - leads / slopes
    lowest = float(np.max(bounds[slopes > 1e-9], initial=-np.inf))
    highest = float(np.min(bounds[slopes < -1e-9], initial=np.inf))
    missed = BETA * level
    width = error * float(norm.ppf(1 - missed / (2 * (len(leads) + 1))))
    tail = (level - missed) / (1 - missed) / 2

    def below(mean: float) -> float:
        ends = np.array([max(lowest, mean - width), value, min(highest, mean + width)])
        low, here, high = (
            norm_cdf((ends - mean) / error) if ends[0] < mean else -norm_cdf((mean - ends) / error)
        )
        return float((here - low) / (high - low))

    def mean_at(share: float) -> float:
        # `below` falls from 1 to 0 in the mean. The ends are left out, where nothing is between the bounds.
        inner = width * (1 - 1e-9)
        return float(brentq(lambda mean: below(mean) - share, value - inner, value + inner))

    return mean_at(0.5), mean_at(1 - tail), mean_at(tail)
