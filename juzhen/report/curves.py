"""Learning curves of runs, from the tables that training leaves in metrics/."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from juzhen.core.csv_rows import csv_rows
from juzhen.core.errors import UserError, nearest
from juzhen.core.numerals import as_number
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
    values   quantity, such as dev/csts/spearman or train/loss → its (step, value) in order; the first step is 1
    batches  set → batches that were drawn from it; empty where training has not ended
    """

    name: str
    values: dict[str, list[tuple[int, float]]]
    batches: dict[str, int] = field(default_factory=dict)


def read_curves(folder: str | Path) -> Curves:
    """The curves of a run folder, or of any folder with a metrics.csv. Needs no torch.

    A run that was continued has a table for each attempt; where two have the same step, the later one counts.
    Raises UserError where there is no table, or a broken one.
    """
    folder = Path(folder)
    tables = sorted(
        folder.glob(f"metrics/*/{TABLE}"), key=lambda path: (len(path.parent.name), path.parent.name)
    )
    if (folder / TABLE).exists():
        tables.append(folder / TABLE)
    if not tables:
        raise UserError(
            f"{folder}: no metrics/*/{TABLE}; expected the folder of a run that has trained, as in runs/NAME"
        )
    by_step: dict[str, dict[int, float]] = {}
    for table in tables:
        _read_table(table, by_step)
    values = {key: sorted(found.items()) for key, found in sorted(by_step.items())}
    name, batches = _told(folder)
    return Curves(name, values, batches)


def _read_table(path: Path, by_step: dict[str, dict[int, float]]) -> None:
    _, rows = csv_rows(path)
    for number, row in rows:
        if not row.get(DURING_TRAINING):
            continue
        try:
            step = int(as_number(row[STEP])) + 1
            for key, value in row.items():
                if value and key not in (STEP, DURING_TRAINING):
                    by_step.setdefault(key, {})[step] = as_number(value)
        except (KeyError, ValueError, OverflowError) as error:
            raise UserError(
                f"{path}, line {number}: expected numbers as training logs them ({short(str(error))})"
            ) from error


def _told(folder: Path) -> tuple[str, dict[str, int]]:
    """A run's own name with its seed, and batches of each set; the folder's name where there is no result yet."""
    try:
        result = read_json(folder / RESULT_FILE)
        sets = result.get("training", {}).get("sets", {})
        batches = {name: its["batches"] for name, its in sets.items()}
        return f"{result['name']}, seed {result['seed']}", batches
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return folder.name, {}


def distinct_labels(curves: Sequence[Curves], folders: Sequence[str | Path]) -> list[Curves]:
    """The curves with their folders as names where two would share one."""
    names = [one.name for one in curves]
    return [
        one if names.count(one.name) == 1 else replace(one, name=Path(folder).name)
        for one, folder in zip(curves, folders, strict=True)
    ]


def choose_quantities(curves: Sequence[Curves], asked: Sequence[str] | None) -> list[str]:
    """What is drawn: what was asked for, or else every dev correlation that some run has, and the loss.

    Where several sets were mixed, the loss of each set by itself, too.

    Raises UserError for a quantity that no run has logged, and when none has logged anything.
    """
    known = sorted({key for one in curves for key in one.values})
    if not known:
        raise UserError(
            f"{', '.join(one.name for one in curves)}: nothing was logged while training yet; wait for the first "
            f"steps, or name a run that has trained"
        )
    if not asked:
        chosen = [key for key in known if key.endswith("/spearman") and key != "dev/selection/spearman"]
        of_sets = [key for key in known if re.fullmatch(r"train/[^/]+/loss", key)]
        losses = [key for key in known if key == "train/loss"] + (of_sets if len(of_sets) > 1 else [])
        return [*chosen, *losses] or known[:1]
    for key in asked:
        if key not in known:
            raise UserError(
                f"--of {key}: no run has logged it; {nearest(key, known)}. There are: {', '.join(known)}"
            )
    return list(asked)


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """The mean over the last `window` values, or over as many as there are.

    >>> smoothed([1.0, 2.0, 3.0, 4.0], 2)
    [1.0, 1.5, 2.5, 3.5]
    """
    last = [values[max(0, end - window) : end] for end in range(1, len(values) + 1)]
    return [sum(some) / len(some) for some in last]
