"""The cells of a sweep while it runs: a table that changes in a terminal, a line for each change in a pipe."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from juzhen.core.progress import is_live
from juzhen.core.result import RunProgress
from juzhen.core.text import time_in_words
from sweeps.cell_state import cell_labels, dev_score, percent, progress_words, seconds_left, share_done
from sweeps.planner import Planner

if TYPE_CHECKING:
    from rich.live import Live

COLUMNS = ("state", "run", "progress", "dev", "time")
REDRAW_SECONDS = 1.0
AROUND = 6
"""Lines of a terminal that are left for the head of the table and for what stands above it."""


class SweepDisplay:
    """As a context around a sweep: `report` takes lines, `refresh` is called again and again with the planner."""

    def __init__(self) -> None:
        self.live: Live | None = None
        self._drawn = 0.0
        self._labels: dict[str, str] = {}
        self._scores: dict[str, float | None] = {}

    def __enter__(self) -> "SweepDisplay":
        if is_live():
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, markup=False, highlight=False)
            self.live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self.live.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def report(self, line: str) -> None:
        """Above the table; at once, also where stderr is a file."""
        if self.live is not None:
            self.live.console.print(line, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def refresh(self, planner: Planner) -> None:
        if self.live is None or time.monotonic() - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = time.monotonic()
        from rich.console import Group
        from rich.text import Text

        from juzhen.report.terminal import console_table

        table = console_table(COLUMNS, self._rows(planner), numbers=COLUMNS[3:])
        self.live.update(Group(table, Text(self._summary(planner))), refresh=True)

    def _rows(self, planner: Planner) -> list[tuple[str, ...]]:
        """Cells at work, then failed ones, finished ones from the best, waiting ones, as many as the lines hold."""
        assert self.live is not None
        summary = planner.summary
        cells = [turn.cell for turn in (*planner.running, *planner.waiting)]
        cells += [*summary.finished, *summary.skipped, *summary.failed]
        if len(self._labels) != len({cell.name for cell in cells}):
            self._labels = cell_labels(cells)
        rows: list[tuple[str, ...]] = []
        for turn in planner.running:
            progress = RunProgress.read(turn.cell.run_dir)
            remaining = (
                "" if progress is None or progress.left is None else f"{time_in_words(progress.left)} left"
            )
            score = None if progress is None else progress.dev
            time_of = remaining or time_in_words(turn.seconds)
            name = self._labels[turn.cell.name]
            rows.append(("running", name, progress_words(progress) or "starting", percent(score), time_of))
        rows += [("failed", self._labels[cell.name], error, "", "") for cell, error in summary.failed.items()]
        done = [*summary.finished, *summary.skipped]
        for cell in done:
            if cell.name not in self._scores:
                self._scores[cell.name] = dev_score(cell)
        done.sort(key=lambda cell: -(self._scores[cell.name] or -1.0))
        for cell in done:
            seconds = planner.seconds.get(cell.name)
            took = "" if seconds is None else time_in_words(seconds)
            score = self._scores[cell.name]
            rows.append(("finished", self._labels[cell.name], "", percent(score), took))
        rows += [("waiting", self._labels[turn.cell.name], "", "", "") for turn in planner.waiting]
        room = max(len(planner.running) + 1, self.live.console.height - AROUND)
        if len(rows) > room:
            rows = [*rows[: room - 1], ("", f"and {len(rows) - room + 1} more", "", "", "")]
        return rows

    def _summary(self, planner: Planner) -> str:
        summary, running, waiting = planner.summary, planner.running, len(planner.waiting)
        counts = {
            "finished": len(summary.finished) + len(summary.skipped),
            "failed": len(summary.failed),
            "running": len(running),
            "waiting": waiting,
        }
        line = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        at_work = [(turn.seconds, share_done(RunProgress.read(turn.cell.run_dir))) for turn in running]
        remaining = seconds_left(
            list(planner.seconds.values()), at_work, waiting, jobs=planner.runner.capacity()
        )
        return line if remaining is None else f"{line}; about {time_in_words(remaining)} left"
