"""Tables and lines for a terminal of some width; a pipe has none. Loads rich when something is printed."""

import os
import shutil
import sys
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


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


def console_table(
    head: Sequence[str],
    rows: Iterable[Sequence["str | Text"]],
    *,
    numbers: Container[str] = (),
    title: str | None = None,
    bold: Container[int] = (),
) -> "Table":
    """A table of rich; what does not fit is folded.

    numbers  headings of columns that stand at the right
    bold     numbers of rows whose label, the first cell, is in bold type
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title and Text(title), title_justify="left")
    for name in head:
        # Text, not str: a name may hold square brackets, which rich would read as markup.
        table.add_column(Text(name), justify="right" if name in numbers else "left", overflow="fold")
    for number, (label, *cells) in enumerate(rows):
        first = Text(str(label), style="bold" if number in bold else "")
        table.add_row(first, *(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
    return table
