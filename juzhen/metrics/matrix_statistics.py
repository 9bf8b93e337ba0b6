"""Statistics of a matrix of scores: what would decide a difference, missing cells, and parts of the variance."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm
from scipy.stats import t as student_t

POWER, LEVEL = 0.8, 0.05
"""How often a difference that exists is found, and how often one that does not exist is."""

DRAWS = 4000
"""Of the interval of a part of the variance."""


def holm(p: pd.Series) -> pd.Series:
    """Correct p values for their number (Holm 1979). NaN stays NaN and does not count.

    Args:
        p: The p values.

    Returns:
        The corrected p values, with the same index.

    >>> holm(pd.Series([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    in_order = p.dropna().sort_values(kind="stable")
    return (in_order * np.arange(len(in_order), 0, -1)).clip(upper=1).cummax().reindex(p.index)


def expected_improvement(behind: float, error: float) -> float:
    """Expected gain of the better of two, if one is `behind` the other and `error` is what a trial may change.

    E[max(0, X)] of a normal X with mean −behind and deviation `error` (Jones, Schonlau and Welch 1998, equation 15).

    Args:
        behind: Distance to the better one.
        error: Standard deviation of what a trial may change.

    Returns:
        The gain, in the unit of `behind`.

    >>> round(expected_improvement(0.0, 1.0), 3)
    0.399
    """
    if error <= 0:
        return max(0.0, -behind)
    z = -behind / error
    return float(error * (z * norm.cdf(z) + norm.pdf(z)))


class Needed(NamedTuple):
    """Number of rows or seeds that decides a difference. None: no number of these alone does.

    Args:
        rows: Rows in all.
        seeds: Seeds a side.
    """

    rows: int | None
    seeds: int | None


def needed(size: float, row_error: float, seed_error: float, *, rows: int, seeds: int) -> Needed:
    """Compute how many rows, or how many seeds a side, find a difference in POWER of the cases at level LEVEL.

    Args:
        size: The difference, in points.
        row_error: Its standard error because other rows could have been scored.
        seed_error: Its standard error because other seeds could have been drawn.
        rows: Rows that gave `row_error`.
        seeds: Seeds a side that gave `seed_error`.

    Returns:
        Numbers of rows and seeds. None where no number suffices.

    Example:
        >>> needed(2.0, 1.0, 0.5, rows=2000, seeds=3)
        Needed(rows=7704, seeds=None)
    """
    allowed = (size / _factor()) ** 2
    of_rows, of_seeds = allowed - seed_error**2, allowed - row_error**2
    return Needed(
        math.ceil(rows * row_error**2 / of_rows) if of_rows > 0 else None,
        max(math.ceil(seeds * seed_error**2 / of_seeds), 2) if of_seeds > 0 else None,
    )


def seeds_needed(deviation: float, difference: float) -> int:
    """Compute how many seeds a side find a difference in POWER of the cases at level LEVEL, by the normal distribution.

    Args:
        deviation: Standard deviation over seeds, in points.
        difference: The difference to find, in points.

    Returns:
        Number of seeds.

    Example:
        >>> [seeds_needed(1.05, points) for points in (3, 2, 1)]
        [2, 5, 18]
    """
    return _needed(2 * (deviation / difference) ** 2)


def rows_needed(rows: int, error: float, difference: float) -> int:
    """Compute how many dev rows find a difference, from the standard error that `rows` rows give.

    Args:
        rows: Rows that gave the error.
        error: Standard error at `rows` rows, in points.
        difference: The difference to find, in points.

    Returns:
        Number of rows.

    Example:
        >>> rows_needed(300, 2.0, 2.0)
        2355
    """
    return _needed(rows * (error / difference) ** 2)


def _needed(variance: float) -> int:
    return max(int(np.ceil(_factor() ** 2 * variance)), 1)


def _factor() -> float:
    """Standard errors that a difference needs."""
    return float(norm.ppf(1 - LEVEL / 2) + norm.ppf(POWER))


def low_rank(matrix: pd.DataFrame, *, rank: int = 2, rounds: int = 200, shrink: float = 1.0) -> pd.DataFrame:
    """Fill missing cells by column means, row effects and `rank` components, fitted by iterated singular values.

    Softly thresholded (Mazumder, Hastie and Tibshirani 2010). Measured cells do not change.

    Args:
        matrix: Scores with NaN where nothing was measured.
        rank: Components that are kept.
        rounds: Iterations.
        shrink: Subtract this from each singular value.

    Returns:
        The matrix without gaps.
    """
    values = matrix.to_numpy(float)
    missing = np.isnan(values)
    columns = np.nanmean(values, axis=0)
    rows = np.nan_to_num(np.nanmean(values - columns, axis=1))
    filled = np.where(missing, columns + rows[:, None], values)
    for _ in range(rounds if missing.any() else 0):
        means = filled.mean(axis=0)
        left, sizes, right = np.linalg.svd(filled - means, full_matrices=False)
        sizes = np.maximum(sizes[:rank] - shrink, 0)
        filled = np.where(missing, means + (left[:, :rank] * sizes) @ right[:rank], values)
    return pd.DataFrame(filled, index=matrix.index, columns=matrix.columns)


def leave_one_out(
    matrix: pd.DataFrame, predict: Callable[[pd.DataFrame], pd.DataFrame], *, most: int | None = None
) -> float:
    """Compute the root mean squared error of a prediction of single cells, in points, each left out once.

    Args:
        matrix: Scores with NaN where nothing was measured.
        predict: Fills the gaps of a matrix.
        most: Leave out at most so many cells, drawn at random. None leaves out every cell.

    Returns:
        The error, in the unit of the matrix.
    """
    places = np.argwhere(np.isfinite(matrix.to_numpy(float)))
    if most is not None and len(places) > most:
        places = np.random.default_rng(0).choice(places, most, replace=False)
    errors: Sequence[float] = [
        float(predict(_without(matrix, row, column)).iat[row, column] - matrix.iat[row, column])
        for row, column in places
    ]
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else np.nan


def _without(matrix: pd.DataFrame, row: int, column: int) -> pd.DataFrame:
    left_out = matrix.astype(float).copy()
    left_out.iat[row, column] = np.nan
    return left_out


# Parts of the variance: score = mean + row + column + interaction + seed.


class VariancePart(NamedTuple):
    """Standard deviation of a part of the scores, in points, with its 95 % interval.

    Args:
        name: Name of the part.
        deviation: The standard deviation.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    name: str
    deviation: float
    low: float
    high: float


class Effects(NamedTuple):
    """Two-way layout of scores.

    Attributes:
        parts: Row, column, interaction, seed.
        rows: A line per row: `effect` (its mean over the columns less that of the mean row, in points), `low`, `high`.
    """

    parts: list[VariancePart]
    rows: pd.DataFrame


def two_way(cells: pd.DataFrame, *, seed: int = 0) -> Effects | None:
    """Split scores into effects of rows, columns, their interaction and seeds.

    Rows and columns are fitted by least squares, so cells may be missing. Deviations come from mean squares. Their
    intervals are generalized confidence intervals (Weerahandi 1995): chi-squared draws for the sums of squares. Those
    of row effects are of Student's t with the interaction as error: they hold for further columns of this kind.

    Args:
        cells: Columns row, column, seed, score. One score per row, column and seed.
        seed: Of the draws.

    Returns:
        None without two rows and two columns, without a repeated seed, or without a degree of freedom for the
        interaction.
    """
    of_cells = cells.groupby(["row", "column"], sort=False)["score"]
    means, counts = of_cells.mean(), of_cells.count()
    rows, columns = (means.index.unique(level) for level in (0, 1))
    within = int((counts - 1).sum())
    freedom = len(means) - len(rows) - len(columns) + 1
    if min(len(rows), len(columns)) < 2 or within < 2 or freedom < 2:
        return None
    design = [
        pd.get_dummies(means.index.get_level_values(level), dtype=float)[names].to_numpy()
        for level, names in enumerate((rows, columns))
    ]
    values = means.to_numpy()
    rest = _residual(np.hstack(design), values)
    square = rest / freedom
    effects, spread = _row_effects(design, values, square)
    half = student_t.ppf(1 - LEVEL / 2, freedom) * spread
    of_rows = pd.DataFrame({"effect": effects, "low": effects - half, "high": effects + half}, index=rows)
    seeds = float((of_cells.var().fillna(0) * (counts - 1)).sum())
    per_cell = float((1 / counts).mean())
    draw = np.random.default_rng(seed)

    # A sum of squares over a draw of chi-squared is a draw of its mean square.
    def squares(total: float, degrees: int) -> np.ndarray:
        return np.concatenate([[total / degrees], total / draw.chisquare(degrees, DRAWS)])

    of_seeds, of_rest = squares(seeds, within), squares(rest, freedom)
    parts = {"seed": of_seeds, "interaction": of_rest - of_seeds * per_cell}
    for name, other, names in (("row", design[1], rows), ("column", design[0], columns)):
        own = squares(_residual(other, values) - rest, len(names) - 1)
        parts[name] = (own - of_rest) * len(names) / len(values)
    found = []
    for name in ("row", "column", "interaction", "seed"):
        deviations = np.sqrt(np.maximum(parts[name], 0))
        found.append(
            VariancePart(name, float(deviations[0]), *map(float, np.percentile(deviations[1:], (2.5, 97.5))))
        )
    return Effects(found, of_rows)


def _residual(design: np.ndarray, values: np.ndarray) -> float:
    """Sum of squares that a linear model leaves."""
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())


def _row_effects(
    design: Sequence[np.ndarray], values: np.ndarray, square: float
) -> tuple[np.ndarray, np.ndarray]:
    """Row effects that sum to 0, and their standard errors."""
    count = design[0].shape[1]
    both = np.hstack(design)
    contrast = np.hstack([np.eye(count) - 1 / count, np.zeros((count, design[1].shape[1]))])
    inverse = np.linalg.pinv(both.T @ both)
    effects = contrast @ inverse @ both.T @ values
    return effects, np.sqrt(square * np.diag(contrast @ inverse @ contrast.T))
