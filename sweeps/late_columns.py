"""Finished cells to which a column can be added, since its file has come."""

from collections.abc import Iterable
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.evaluation.finished import missing_sets
from sweeps.ledger import Cell


def has_late_columns(cell: Cell) -> bool:
    """An evaluation split of a finished cell had no file and now has one; no file of rows is opened."""
    try:
        return bool(missing_sets(Result.read(cell.run_dir)))
    except (UserError, OSError, KeyError):
        return False  # the commands that read this result, or that file, say what is wrong with it


def late_columns_line(cells: Iterable[Cell]) -> str | None:
    """What to type for the finished ones among `cells` that lack something; None when there are none."""
    lacking = [cell for cell in cells if cell.finished and has_late_columns(cell)]
    if not lacking:
        return None
    folder = Path(lacking[0].run_dir).parent
    which = "1 finished cell lacks" if len(lacking) == 1 else f"{len(lacking)} finished cells lack"
    return f"{which} columns whose files are there now: juzhen evaluate {folder}"
