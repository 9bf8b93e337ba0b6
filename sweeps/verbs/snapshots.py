"""`juzhen snapshots`: the states of training that lie in shared memory, and how to have the memory back."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from callbacks.snapshots import SHARED, Snapshot, Use, delete, folder_in, snapshots
from juzhen.cli.arguments import VerbParser
from juzhen.core.errors import UserError
from juzhen.report.terminal import terminal

if TYPE_CHECKING:  # --help should not wait for it
    from rich.console import Group


def parser() -> VerbParser:
    parser = VerbParser("snapshots", "States of training in shared memory, and whose they are.")
    parser.add_argument("--clear", action="store_true", help="delete those that no training is writing to")
    parser.add_argument(
        "--memory", type=Path, metavar="FOLDER", help=f"hardware.snapshot_folder; default: {SHARED}"
    )
    return parser


def run(*, clear: bool = False, memory: Path | None = None) -> None:
    """Lists them; with `clear` deletes those that no training is writing to."""
    if memory is not None and not memory.is_dir():
        raise UserError(f"--memory {memory}: no such folder; leave it out for {SHARED}")
    folder = folder_in(memory or SHARED)
    found = snapshots(folder)
    terminal().print(to_console(found, folder), highlight=False)
    if clear:
        cleared = [one for one in found if one.use is not Use.AT_WORK]
        for one in cleared:
            delete(one)
        print(f"{len(cleared)} deleted, {_mib(cleared)} MiB given back; their runs go on from the disk")


def to_console(found: list[Snapshot], folder: Path) -> "Group":
    """A line of sums and a row for each, the one written last first."""
    from rich.console import Group
    from rich.text import Text

    from juzhen.core.texts import time_in_words
    from juzhen.report.stacked_table import Column, StackedTable

    line = f"{folder}: {len(found)} states of training, {_mib(found)} MiB"
    if not found:
        return Group(line)
    rows = []
    for one in found:
        run = "unknown" if one.owner is None else str(one.owner.parent)
        age = f"{time_in_words(max(0.0, time.time() - one.written_at))} ago"
        rows.append((run, str(one.use), "" if one.steps is None else str(one.steps), _mib([one]), age))
    columns = [Column(name) for name in ("run", "state", "step", "MiB", "written")]
    return Group(Text(line), StackedTable(columns, rows))


def _mib(found: list[Snapshot]) -> str:
    return f"{sum(one.num_bytes for one in found) / 2**20:,.0f}"
