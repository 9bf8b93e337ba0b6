"""A table for a terminal of any width: columns that do not fit come in further tables below it, and no text is cut."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
    from rich.table import Table

LABEL_WIDTH = 44
"""Characters of a label beyond which it is folded even where there is room."""

LEAST_LABEL = LEAST_TEXT = 20
"""Characters that a label and a text get before they are folded, unless the terminal has not as many."""

BORDER = 3
"""What a column takes beside its text: a line, and a space on both sides. The last line of a table is one more."""


@dataclass(frozen=True)
class Column:
    """A heading; numbers stand at the right and are never folded, text may be."""

    heading: str
    is_number: bool = False


@dataclass(frozen=True)
class _Need:
    """Characters of a column.

    least    without it nothing can be read: numbers whole, words of text broken if it must be
    words    no word of text is broken
    minimum  before another table is begun
    wanted   nothing is folded
    """

    least: int
    words: int
    minimum: int
    wanted: int


class StackedTable:
    """What rich prints as one table, as several with the same labels, or in a very narrow terminal as a list.

    columns  the labels first
    rows     cells as text, one for each column; a line break stays one
    labels   so many columns are repeated in every table
    bold     numbers of rows whose first label is in bold type
    """

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Iterable[Sequence[str]],
        *,
        labels: int = 1,
        title: str = "",
        bold: Container[int] = (),
    ) -> None:
        self.columns = list(columns)
        self.rows = [list(row) for row in rows]
        self.labels = labels
        self.title = title
        self.bold = bold
        self._needs = [self._need(number) for number in range(len(self.columns))]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> Iterable["RenderableType"]:
        from rich.text import Text

        if self.title:
            yield Text(self.title, style="italic", overflow="fold")
        parts = self.parts(options.max_width)
        if parts is None:
            yield from self._as_list()
        for part in parts or ():
            yield self._table(part, options.max_width)

    def parts(self, width: int) -> list[list[int]] | None:
        """The numbers of the columns of each table, labels included; None where not even one column fits."""
        labels, others = list(range(self.labels)), range(self.labels, len(self.columns))
        parts: list[list[int]] = [labels]
        for number in others:
            longer = [*parts[-1], number]
            fits = sum(self._needs[one].minimum for one in longer) <= _room(longer, width)
            if fits or parts[-1] == labels:
                parts[-1] = longer
            else:
                parts.append([*labels, number])
        alone = [[*labels, number] for number in others] or [labels]
        least = [sum(self._needs[number].least for number in part) - _room(part, width) for part in alone]
        return parts if max(least) <= 0 else None

    def _need(self, number: int) -> "_Need":
        column, texts = self.columns[number], [row[number] for row in self.rows]
        values = _widest(texts)
        if column.is_number:
            wanted = max(values, _widest(column.heading.split()))
            return _Need(least=max(4, values), words=wanted, minimum=wanted, wanted=wanted)
        is_label = number < self.labels
        wanted = max(values, _widest([column.heading]))
        wanted = min(wanted, LABEL_WIDTH) if is_label else wanted
        minimum = min(wanted, LEAST_LABEL if is_label else LEAST_TEXT)
        words = min(minimum, _widest(word for text in texts for word in text.split()))
        return _Need(least=min(max(values, 4), 8), words=words, minimum=minimum, wanted=wanted)

    def _widths(self, part: list[int], width: int) -> dict[int, int]:
        """From what each must have by way of whole words to all it would like, each time to the one that lacks most."""
        widths = {number: self._needs[number].least for number in part}
        spare = _room(part, width) - sum(widths.values())
        for aim in ("words", "minimum", "wanted"):
            lacking = {number: getattr(self._needs[number], aim) - widths[number] for number in part}
            while spare > 0 and max(lacking.values()) > 0:
                neediest = max(part, key=lacking.__getitem__)
                widths[neediest] += 1
                lacking[neediest] -= 1
                spare -= 1
        return widths

    def _table(self, part: list[int], width: int) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for number, room in self._widths(part, width).items():
            column = self.columns[number]
            # Text, not str: a name may hold square brackets, which rich would read as markup.
            side: JustifyMethod = "right" if column.is_number else "left"
            table.add_column(Text(column.heading), width=room, justify=side, overflow="fold")
        for place, row in enumerate(self.rows):
            style = "bold" if place in self.bold else ""
            table.add_row(*(Text(row[number], style="" if number else style) for number in part))
        return table

    def _as_list(self) -> Iterable["RenderableType"]:
        """Labels on a line, then a line for each value; names of labels are left out."""
        from rich.text import Text

        for row in self.rows:
            yield Text(", ".join(row[: self.labels]), overflow="fold", style="bold")
            for column, value in list(zip(self.columns, row, strict=True))[self.labels :]:
                if value:
                    yield Text(f"- {column.heading}: {' '.join(value.split())}", overflow="fold")


def _room(part: list[int], width: int) -> int:
    """Characters for text in a table of these columns."""
    return width - BORDER * len(part) - 1


def _widest(texts: Iterable[str]) -> int:
    """Terminal cells of the widest line; a Chinese sign takes two."""
    from rich.cells import cell_len

    return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)
