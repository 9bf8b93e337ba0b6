"""Finished cells that lack a column whose file has come since."""

from collections.abc import Iterable
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.data.files import has_split
from sweeps.ledger import Cell


def lacks_what_is_there(cell: Cell) -> bool:
    """An evaluation split of a finished cell had no file and now has one; no file of rows is opened."""
    try:
        result = Result.read(cell.run_dir)
        source, data_dir = result.config["source"], result.config["data_dir"]
        columns = [column.split("/") for column in result.absent]
        return any(
            has_split(result.described(name), split, source=source, data_dir=data_dir)
            for split, name in columns
        )
    except (UserError, OSError, KeyError):
        return False  # the commands that read this result, or that file, say what is wrong with it


def arrived_line(cells: Iterable[Cell]) -> str | None:
    """What to type for the finished ones among `cells` that lack something; None when there are none."""
    lacking = [cell for cell in cells if cell.finished and lacks_what_is_there(cell)]
    if not lacking:
        return None
    folder = Path(lacking[0].run_dir).parent
    which = "1 finished cell lacks" if len(lacking) == 1 else f"{len(lacking)} finished cells lack"
    return f"{which} columns whose files are there now: juzhen evaluate {folder}"
