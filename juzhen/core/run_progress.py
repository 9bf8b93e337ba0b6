"""How far a run is that has not finished: a small file in its folder, which a sweep reads."""

import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.opened import read_json
from juzhen.core.owned import is_own_folder
from juzhen.core.whole import write_json

PROGRESS_FILE = "progress.json"


@dataclass(frozen=True)
class RunProgress:
    """How far a run is that has not finished.

    work  training on SET, or what else it does
    dev   the latest score of the dev sets; `best` the best one
    left  seconds that this work will still take
    """

    work: str
    done: int
    total: int
    loss: float | None = None
    dev: float | None = None
    best: float | None = None
    left: float | None = None

    def write(self, run_dir: Path) -> None:
        """Where nothing can be written, the next checkpoint says so."""
        if is_own_folder(run_dir):
            with suppress(OSError, ValueError):
                write_json(run_dir / PROGRESS_FILE, asdict(self), in_own_folder=True)

    @staticmethod
    def read(run_dir: str | Path) -> "RunProgress | None":
        """None where there is none, or it cannot be read."""
        try:
            state = RunProgress(**read_json(Path(run_dir) / PROGRESS_FILE))
            numbers = (state.done, state.total, state.loss, state.dev, state.best, state.left)
            is_sound = all(number is None or math.isfinite(number) for number in numbers)
            return state if is_sound and isinstance(state.work, str) else None
        except (OSError, ValueError, TypeError, RecursionError, UserError):
            return None
