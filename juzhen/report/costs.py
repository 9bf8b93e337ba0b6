"""What the training of a row took: its stage and the stages before it."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from juzhen.core.result import Result
from juzhen.core.texts import time_in_words
from juzhen.report.matrix import BASELINES, Matrix, Row
from juzhen.report.table import MISSING, Table


@dataclass(frozen=True)
class Cost:
    """Means over seeds; None where a result does not say.

    seconds    of training without validation, summed over the stages
    rows_seen  rows that were learnt from, a row that came twice counted twice
    stages     of the curriculum
    device     what it was trained on
    """

    seconds: float | None
    rows_seen: float | None
    stages: int
    device: str


def row_costs(rows: Sequence[Row], results: Sequence[Result]) -> dict[str, Cost]:
    """Label → Cost of each trained row. A stage that several runs share counts in each of them."""
    chains: dict[tuple[str, int], dict[int, Result]] = {}
    for one in results:
        chains.setdefault((one.key, one.seed), {})[one.stage] = one
    costs = {}
    for row in rows:
        if row.trained_on in BASELINES:
            continue
        lasts = [found[-1] for found in row.results.values()]
        whole = [[chains[one.key, one.seed].get(i) for i in range(one.stage + 1)] for one in lasts]
        costs[row.label] = Cost(
            seconds=_mean_total(whole, "train_seconds"),
            rows_seen=_mean_total(whole, "rows_seen"),
            stages=lasts[0].stage + 1,
            device=str(lasts[0].environment.get("device") or "unknown"),
        )
    return costs


def _mean_total(seeds: Sequence[Sequence[Result | None]], key: str) -> float | None:
    """The sum over the stages of each seed that has them all, and of these sums the mean."""
    told = [[None if one is None else one.training.get(key) for one in stages] for stages in seeds]
    sums = [sum(one for one in stages if one is not None) for stages in told if None not in stages]
    return statistics.fmean(sums) if sums else None


def cost_table(costs: Mapping[str, Cost], matrix: Matrix) -> Table:
    note = "Training without validation and evaluation, all stages of a curriculum, mean over seeds."
    lines = []
    for row in matrix.rows:
        if row.label in costs:
            cost = costs[row.label]
            seen = MISSING if cost.rows_seen is None else f"{cost.rows_seen:,.0f}"
            lines.append(
                (row.label, str(row.num_seeds), str(cost.stages), seen, duration(cost.seconds), cost.device)
            )
    head = ("trained on", "seeds", "stages", "rows seen", "training", "device")
    return Table("costs", "What each row cost", note, head, lines)


def duration(seconds: float | None) -> str:
    return MISSING if seconds is None else time_in_words(seconds)
