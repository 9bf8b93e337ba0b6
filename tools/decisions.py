"""How far a cheap matrix of scores can be trusted to choose between training sets.

A matrix is a DataFrame with a row per source (training set), a column per target (evaluation set) and scores in points
(Spearman ×100). Decision accuracy as in DataDecide (Magnusson et al. 2025, arXiv 2504.11393, section 2): the share of
pairs of sources whose order on a target is the same in the cheap and in the reference matrix. Intervals are percentile
bootstraps (Efron 1979) that draw sources and targets again, since both are samples of users' data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

DRAWS = 2000


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval, NaN where none can be computed, and the decisions or targets behind it."""

    value: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def shared(cheap: pd.DataFrame, reference: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both matrices with the sources and targets that both have, in one order."""
    sources = [source for source in reference.index if source in cheap.index]
    targets = [target for target in reference.columns if target in cheap.columns]
    return cheap.loc[sources, targets], reference.loc[sources, targets]


def decision_accuracy(
    cheap: pd.DataFrame,
    reference: pd.DataFrame,
    *,
    least: float = 0.0,
    counted: Bool[np.ndarray, "source source target"] | None = None,
) -> Interval:
    """Compute the share of decisions between two sources that both matrices make alike, in percent.

    A tie of the cheap matrix counts as half a decision. A tie of the reference is not a decision.

    Args:
        least: Count only decisions where the reference differs by at least so many points.
        counted: Count only these decisions, by the sources and targets that both matrices have (`shared`).

    Example:
        >>> cheap = pd.DataFrame({"csts": [60.0, 70.0, 65.0]}, index=["bq", "lcqmc", "ocnli"])
        >>> reference = pd.DataFrame({"csts": [66.0, 78.0, 80.0]}, index=["bq", "lcqmc", "ocnli"])
        >>> round(decision_accuracy(cheap, reference).value, 1)
        66.7
    """
    cheap, reference = shared(cheap, reference)
    ours, theirs = differences(cheap), differences(reference)
    known = _decisions(ours, theirs) & (np.abs(theirs) >= least)
    if counted is not None:
        known &= counted
    alike = np.where(ours == 0, 0.5, np.sign(ours) == np.sign(theirs)) * known

    def share(sources: Float[np.ndarray, "draw source"], targets: Float[np.ndarray, "draw target"]) -> Any:
        terms = "di,dj,dt,ijt->d"
        right = np.einsum(terms, sources, sources, targets, alike, optimize=True)
        total = np.einsum(terms, sources, sources, targets, known.astype(float), optimize=True)
        return 100 * np.divide(right, total, out=np.full(len(total), np.nan), where=total > 0)

    return _bootstrapped(share, known.any(axis=(0, 1)), len(cheap), int(known.sum()))


def surest(
    cheap: pd.DataFrame, reference: pd.DataFrame, share: float
) -> tuple[Bool[np.ndarray, "source source target"], float]:
    """Choose the decisions in which the cheap matrix differs most, as `counted` of `decision_accuracy`.

    Example:
        >>> cheap = pd.DataFrame({"csts": [60.0, 70.0, 65.0]}, index=["bq", "lcqmc", "ocnli"])
        >>> surest(cheap, cheap, 0.3)[1]
        10.0
    """
    ours, theirs = (differences(each) for each in shared(cheap, reference))
    known, sizes = _decisions(ours, theirs), np.abs(ours)
    in_order = np.sort(sizes[known])[::-1]
    least = float(in_order[round(share * len(in_order)) - 1])
    return sizes >= least, least


def _decisions(ours: np.ndarray, theirs: np.ndarray) -> Bool[np.ndarray, "source source target"]:
    """Pairs that both matrices have, each once, without ties of the reference."""
    once = np.tri(len(ours), k=-1, dtype=bool)[:, :, None]
    return np.isfinite(ours) & np.isfinite(theirs) & (theirs != 0) & once


def regret(cheap: pd.DataFrame, reference: pd.DataFrame, *, picks: int = 1) -> Interval:
    """Compute the points lost by following the cheap matrix, below the best source, on average over the targets.

    Args:
        picks: Take the best in the reference of so many first choices of the cheap matrix.

    Example:
        >>> cheap = pd.DataFrame({"csts": [60.0, 70.0, 65.0]}, index=["bq", "lcqmc", "ocnli"])
        >>> reference = pd.DataFrame({"csts": [66.0, 78.0, 80.0]}, index=["bq", "lcqmc", "ocnli"])
        >>> regret(cheap, reference).value, regret(cheap, reference, picks=2).value
        (2.0, 0.0)
    """
    cheap, reference = shared(cheap, reference)
    known = np.isfinite(cheap.to_numpy(float)) & np.isfinite(reference.to_numpy(float))
    ours = np.where(known, cheap.to_numpy(float), -np.inf)
    theirs = np.where(known, reference.to_numpy(float), -np.inf)

    def lost(sources: Float[np.ndarray, "draw source"], targets: Float[np.ndarray, "draw target"]) -> Any:
        values = np.empty(len(sources))
        for draw, (weights, of_targets) in enumerate(zip(sources, targets, strict=True)):
            here = weights > 0
            losses = _losses(ours[here], theirs[here], picks)
            there = np.isfinite(losses) & (of_targets > 0)
            values[draw] = np.average(losses[there], weights=of_targets[there]) if there.any() else np.nan
        return values

    return _bootstrapped(lost, known.any(axis=0), len(cheap), int(known.any(axis=0).sum()))


def random_regret(reference: pd.DataFrame) -> float:
    """Compute the regret of a choice at random: the best source less the mean source, on average over the targets."""
    return float((reference.max() - reference.mean()).mean())


def fixed_regret(reference: pd.DataFrame) -> tuple[str, float]:
    """Find the source that loses least if it is always chosen, among those with half of the columns or more."""
    losses = (reference.max() - reference).dropna(thresh=reference.shape[1] // 2).mean(axis=1)
    return str(losses.idxmin()), float(losses.min())


def _losses(ours: np.ndarray, theirs: np.ndarray, picks: int) -> np.ndarray:
    if not len(ours):
        return np.full(ours.shape[1], np.nan)
    first = np.argsort(-ours, axis=0, kind="stable")[:picks]
    with np.errstate(invalid="ignore"):
        return theirs.max(axis=0) - np.take_along_axis(theirs, first, axis=0).max(axis=0)


def differences(matrix: pd.DataFrame) -> Float[np.ndarray, "source source target"]:
    """Row score minus column score of each pair of sources, for each target."""
    values = matrix.to_numpy(float)
    return values[:, None, :] - values[None, :, :]


def _bootstrapped(
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray],
    has_some: Bool[np.ndarray, " target"],
    num_sources: int,
    count: int,
) -> Interval:
    """Evaluate a statistic of weights of sources and targets, once on all and on DRAWS resamples."""
    if not count:
        return Interval(np.nan, np.nan, np.nan, 0)
    draw, targets = np.random.default_rng(0), has_some.astype(float)
    value = float(statistic(np.ones((1, num_sources)), targets[None])[0])
    sources = draw.multinomial(num_sources, np.full(num_sources, 1 / num_sources), size=DRAWS).astype(float)
    of_targets = draw.multinomial(int(targets.sum()), targets / targets.sum(), size=DRAWS).astype(float)
    values = statistic(sources, of_targets)
    low, high = np.nanpercentile(values, (2.5, 97.5))
    return Interval(value, float(low), float(high), count)


def seed_deviation(scores: pd.DataFrame) -> float:
    """Compute the pooled standard deviation between seeds, in points.

    Args:
        scores: Columns source, target, seed, score: one encoder and one budget.

    Returns:
        Square root of the mean variance of the cells with two seeds or more. NaN without such a cell.
    """
    of_cells = scores.groupby(["source", "target"])["score"]
    variances = of_cells.var()[of_cells.count() > 1]
    return float(np.sqrt(variances.mean())) if len(variances) else np.nan


def column_noise(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare the spread between sources with the noise between seeds, for each target.

    Args:
        scores: Columns source, target, seed, score: one encoder and one budget.

    Returns:
        A row per target: signal (standard deviation between sources, without the part that seeds explain), noise
        (pooled deviation between seeds), ratio.
    """
    lines = []
    for target, of_target in scores.groupby("target"):
        noise = seed_deviation(of_target)
        of_sources = of_target.groupby("source")["score"]
        between = float(of_sources.mean().var())
        explained = 0.0 if np.isnan(noise) else noise**2 / float(of_sources.count().mean())
        signal = float(np.sqrt(max(between - explained, 0.0)))
        lines.append((target, signal, noise, signal / noise if noise and noise > 0 else np.nan))
    return pd.DataFrame(lines, columns=["target", "signal", "noise", "ratio"]).set_index("target")
