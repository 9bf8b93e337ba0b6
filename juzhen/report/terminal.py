"""Tables and lines for a terminal. Loads rich when something is printed."""

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
    """Open a console that shows names and folders unchanged, with square brackets.

    It is as wide as COLUMNS, else as the terminal, else 80. rich alone assumes 80 for terminals that it calls dumb.
    """
    from rich.console import Console

    return Console(markup=False, width=shutil.get_terminal_size().columns)


def for_people() -> "Console | None":
    """The console if stdout is a terminal, or if COLUMNS gives a width. None in a pipe or a file."""
    return terminal() if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal() else None


def console_table(
    head: Sequence[str],
    rows: Iterable[Sequence["str | Text"]],
    *,
    numbers: Container[str] = (),
    title: str | None = None,
    bold: Container[int] = (),
) -> "Table":
    """Make a table of rich. Wide cells are wrapped, of numbers only where they do not fit.

    Args:
        head: Headings.
        rows: Cells.
        numbers: Headings of right-aligned columns.
        title: Title of the table.
        bold: Numbers of rows whose first cell is bold.
    """
    from rich.table import Table
    from rich.text import Text

    rows = [*rows]
    widths = [max(len(str(cell)) for cell in column) for column in zip(head, *rows, strict=True)]
    needed = sum(3 + width if name in numbers else 10 for name, width in zip(head, widths, strict=True))
    fits = needed < shutil.get_terminal_size().columns
    table = Table(title=title and Text(title), title_justify="left")
    for name in head:
        # Text, not str: a name may hold square brackets, which rich would read as markup.
        right = name in numbers
        table.add_column(
            Text(name), justify="right" if right else "left", overflow="fold", no_wrap=fits and right
        )
    for number, (label, *cells) in enumerate(rows):
        first = Text(str(label), style="bold" if number in bold else "")
        table.add_row(first, *(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
    return table
