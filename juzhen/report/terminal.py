"""Where tables are printed: a terminal of some width, or a pipe that has none."""

import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def terminal() -> "Console":
    """What tables and lines are printed with: names and folders are shown as they are, square brackets too.

    As wide as COLUMNS in the environment says, else as the terminal is, else 80: rich alone takes every terminal that
    it calls dumb for one of 80.
    """
    from rich.console import Console

    return Console(markup=False, width=shutil.get_terminal_size().columns)


def for_people() -> "Console | None":
    """The terminal if somebody looks at it, or if COLUMNS says how wide it is meant to be; None in a pipe or a file."""
    return terminal() if sys.stdout.isatty() or os.environ.get("COLUMNS") else None
