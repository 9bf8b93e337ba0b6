"""What a terminal shows: tables, and progress on stderr.

Progress is a line that is redrawn in a terminal, and plain lines at intervals in a pipe or a log file. rich is loaded
when something is shown.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from juzhen.core.text import time_in_words

if TYPE_CHECKING:  # slow imports, loaded when something is shown
    from logging import StreamHandler

    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

PATIENCE = 3.0
"""Seconds before a bar appears if the caller leaves it open."""

REDRAW_SECONDS = 0.2

LINE_SECONDS = 10.0
"""Seconds between two plain lines.

Later it is a twentieth of the elapsed time, so that the log of hours stays short.
"""

WIDE = 100
"""Columns of a terminal with room for less important facts."""


def tell(line: str) -> None:
    """Print a line on stderr at once, also if stdout is a file.

    Args:
        line: Text without a line feed at its end.
    """
    print(line, file=sys.stderr, flush=True)


def is_live() -> bool:
    """True if stderr is a terminal whose lines can be redrawn.

    Returns:
        False for a file, a pipe, and TERM=dumb.
    """
    return sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb")


def quiet_libraries() -> None:
    """Keep the bars of datasets, transformers and the hub out of pipes and log files.

    Call it before they are imported.
    """
    if not is_live():
        os.environ.setdefault("TQDM_DISABLE", "1")
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


class ProgressLine:
    """Progress of one task. It is drawn when it changes, without a thread, because workers may be forked at any time.

    Args:
        work: Name of the task.
        total: Number of its parts.
        done: Parts that were done before, as after a resume. The estimate does not count them.
        unit: Word after the numbers.
        stays: Keep the last state on the screen. In a pipe it is printed, however short the work was.
        shown: False only counts.
    """

    def __init__(
        self,
        work: str,
        total: int,
        *,
        done: int = 0,
        unit: str = "",
        stays: bool = False,
        shown: bool = True,
    ) -> None:
        self.work, self.total, self.done, self.unit, self.stays = work, total, done, unit, stays
        self.begun = self._drawn = time.monotonic()
        self._first: tuple[float, int] | None = None
        self._note: str | Callable[[bool], str] = ""
        self._is_closed = not shown
        self._bar: Progress | None = _bar(self) if shown and is_live() else None
        self._handlers: list[StreamHandler[Any]] = []
        if self._bar is not None:
            import logging

            stream = sys.stderr
            self._draw_bar(self._bar)
            self._bar.start()
            # Handlers hold the stream itself. Their lines must go above the bar, and not behind it.
            self._handlers = [
                handler
                for handler in logging.root.handlers
                if isinstance(handler, logging.StreamHandler) and handler.stream is stream
            ]
            for handler in self._handlers:
                handler.setStream(sys.stderr)

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def seconds_left(self) -> float | None:
        """Seconds left at the mean speed since the first part, which often is slower. None before there is a speed."""
        if self._first is None or self.done <= self._first[1]:
            return None
        since, start = self._first
        return (time.monotonic() - since) / (self.done - start) * (self.total - self.done)

    def update(self, done: int, note: str | Callable[[bool], str] = "") -> None:
        """Set the number of finished parts.

        Args:
            done: The number.
            note: More about it. A function is called only to draw it, with True if there is much room.
        """
        if self._first is None and done > self.done:
            self._first = (time.monotonic(), done)
        self.done, self._note = done, note
        now = time.monotonic()
        pause = REDRAW_SECONDS if self._bar else max(LINE_SECONDS, (now - self.begun) / 20)
        if self._is_closed or now - self._drawn < pause:
            return
        self._drawn = now
        if self._bar is not None:
            self._draw_bar(self._bar)
        else:
            self._print()

    def close(self) -> None:
        if self._bar is not None:
            bar, self._bar = self._bar, None
            self._draw_bar(bar, ends=True)
            bar.stop()
            for handler in self._handlers:
                handler.setStream(sys.stderr)
        elif not self._is_closed and (self.stays or time.monotonic() - self.begun > LINE_SECONDS):
            self._print(ends=True)
        self._is_closed = True

    def _facts(self, *, wide: bool, ends: bool) -> list[str]:
        """Format the known numbers, the note and the time."""
        count = f"{self.done:,}/{self.total:,}{self.unit and f' {self.unit}'}"
        note = self._note(wide) if callable(self._note) else self._note
        seconds = self.seconds_left
        outlook = "" if seconds is None else f"{time_in_words(seconds)} left"
        if ends:
            outlook = f"in {time_in_words(time.monotonic() - self.begun)}"
        return [fact for fact in (count, note, outlook) if fact]

    def _print(self, *, ends: bool = False) -> None:
        print(f"{self.work}: {', '.join(self._facts(wide=True, ends=ends))}", file=sys.stderr, flush=True)

    def _draw_bar(self, bar: "Progress", *, ends: bool = False) -> None:
        wide = bar.console.width >= WIDE
        facts = ("  " if wide else " ").join(self._facts(wide=wide, ends=ends))
        bar.update(bar.tasks[0].id, completed=self.done, facts=facts)
        bar.refresh()


def _bar(line: ProgressLine) -> "Progress":
    """The line in rich: task, bar, numbers, note, time left. A long name of the task is shortened."""
    from rich.cells import cell_len, set_cell_size
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    console = Console(stderr=True)
    work, room = line.work, max(12, min(40, console.width - 58))
    if cell_len(work) > room:
        work = f"{set_cell_size(work, room - 1).rstrip()}…"
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
        TextColumn("{task.fields[facts]}", markup=False),
        console=console,
        auto_refresh=False,
        expand=True,
        transient=not line.stays,
        redirect_stdout=False,  # results go to their own place
    )
    bar.add_task(work, total=line.total, completed=line.done, facts="")
    return bar


@contextmanager
def progress_bar(work: str, total: int, *, shown: bool | None) -> Iterator[Callable[[int], None]]:
    """Show the progress of a block.

    Args:
        work: Name of the task.
        total: Number of its parts.
        shown: None: a bar appears on a terminal after PATIENCE seconds.

    Yields:
        A function to call with the number of parts that were finished since the last call.
    """
    begun, done = time.monotonic(), 0
    line = ProgressLine(work, total) if shown else None

    def advance(count: int) -> None:
        nonlocal done, line
        done += count
        if line is None and shown is None and time.monotonic() - begun > PATIENCE and is_live():
            line = ProgressLine(work, total, done=done)
        if line is not None:
            line.update(done)

    try:
        yield advance
    finally:
        if line is not None:
            line.close()


def terminal() -> "Console":
    """Open a console that shows names and folders unchanged, with square brackets.

    It is as wide as COLUMNS, else as the terminal, else 80. rich alone assumes 80 for terminals that it calls dumb.

    Returns:
        Console of rich that writes to stdout.
    """
    from rich.console import Console

    return Console(markup=False, width=shutil.get_terminal_size().columns)


def for_people() -> "Console | None":
    """The console if stdout is a terminal, or if COLUMNS gives a width. None in a pipe or a file.

    Returns:
        The console, or None.
    """
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

    Returns:
        The table, which `rich.console.Console.print` draws.
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
