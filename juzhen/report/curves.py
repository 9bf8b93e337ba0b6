"""Learning curves of runs, from the tables that training leaves in metrics/."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from juzhen.core.csv_rows import csv_rows
from juzhen.core.errors import UserError, nearest
from juzhen.core.opened import read_json
from juzhen.core.result import RESULT_FILE
from juzhen.core.texts import short

TABLE = "metrics.csv"
STEP = "step"
DURING_TRAINING = "epoch"
"""Only rows written while training have a value here; scores at the end, which are of the best weights, have none."""


@dataclass(frozen=True)
class Curves:
    """What one run logged while it trained.

    name     as it is shown
    batches  set → batches that were drawn from it; empty where training has not ended
    values   quantity, such as dev/csts/spearman or train/loss → its (step, value) in order; the first step is 1
    """

    name: str
    batches: dict[str, int]
    values: dict[str, list[tuple[int, float]]]


def read_curves(folder: str | Path) -> Curves:
    """The curves of a run folder, or of any folder with a metrics.csv. Needs no torch.

    A run that was continued has a table for each attempt; where two have the same step, the later one counts.
    Raises UserError where there is no table, or a broken one.
    """
    folder = Path(folder)
    attempts = folder.glob(f"metrics/*/{TABLE}")
    tables = sorted(attempts, key=lambda path: (len(path.parent.name), path.parent.name))
    tables += [folder / TABLE] if (folder / TABLE).exists() else []
    if not tables:
        raise UserError(
            f"{folder}: no metrics/*/{TABLE}; expected the folder of a run that has trained, as in runs/NAME"
        )
    by_step: dict[str, dict[int, float]] = {}
    for path, number, row in ((table, *row) for table in tables for row in csv_rows(table)[1]):
        if not row.get(DURING_TRAINING):
            continue
        try:
            step = int(float(row[STEP])) + 1
            for key, value in row.items():
                if value and key not in (STEP, DURING_TRAINING):
                    by_step.setdefault(key, {})[step] = float(value)
        except (KeyError, ValueError, OverflowError) as error:
            raise UserError(
                f"{path}, line {number}: expected numbers as training logs them ({short(str(error))})"
            ) from error
    values = {key: sorted(points.items()) for key, points in sorted(by_step.items())}
    return Curves(*_name_and_batches(folder), values)


def _name_and_batches(folder: Path) -> tuple[str, dict[str, int]]:
    """A run's own name with its seed, and batches of each set; the folder's name where there is no result yet."""
    try:
        result = read_json(folder / RESULT_FILE)
        sets = result.get("training", {}).get("sets", {})
        batches = {name: counts["batches"] for name, counts in sets.items()}
        return f"{result['name']}, seed {result['seed']}", batches
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return folder.name, {}


def distinct_labels(curves: Sequence[Curves], folders: Sequence[str | Path]) -> list[Curves]:
    """The curves with their folders as names where two would share one."""
    names = [run.name for run in curves]
    return [
        run if names.count(run.name) == 1 else replace(run, name=Path(folder).name)
        for run, folder in zip(curves, folders, strict=True)
    ]


def choose_quantities(curves: Sequence[Curves], quantities: Sequence[str] | None) -> list[str]:
    """What is drawn: what was asked for, or else every dev correlation that some run has, and the loss.

    Where several sets were mixed, the loss of each set by itself, too, and its weight where that has changed.

    Raises UserError for a quantity that no run has logged, and when none has logged anything.
    """
    logged = sorted({key for run in curves for key in run.values})
    if not logged:
        raise UserError(
            f"{', '.join(run.name for run in curves)}: nothing was logged while training yet; wait for the first "
            f"steps, or name a run that has trained"
        )
    for key in quantities or ():
        if key not in logged:
            raise UserError(
                f"--of {key}: no run has logged it; {nearest(key, logged)}. There are: {', '.join(logged)}"
            )
    scores = [key for key in logged if key.endswith("/spearman") and key != "dev/selection/spearman"]
    of_sets = [key for key in logged if re.fullmatch(r"train/[^/]+/loss", key)]
    losses = [key for key in logged if key == "train/loss"] + (of_sets if len(of_sets) > 1 else [])
    weights = [key for key in logged if re.fullmatch(r"train/[^/]+/weight", key)]
    return list(quantities or [*scores, *losses, *weights] or logged[:1])


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """The mean over the last `window` values, or over as many as there are.

    >>> smoothed([1.0, 2.0, 3.0, 4.0], 2)
    [1.0, 1.5, 2.5, 3.5]
    """
    return [statistics.fmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)]
