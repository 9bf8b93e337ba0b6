"""The folder of one run: locked while in use, never overwritten."""

import fcntl
import os
import shutil
import sys
from pathlib import Path
from types import TracebackType

from callbacks.snapshots import forget_snapshot
from juzhen.core.errors import UserError
from juzhen.core.result import RESULT_FILE, Result
from juzhen.core.whole import KEPT_ASIDE, clear_leftovers
from launch.own_folder import CHECKPOINTS, LEFT_BY_RUNS, RESUME_FILE, STAGES, take_folder


class RunFolder:
    """One run's folder as a context: taken by one process, and cleared of earlier work without losing it.

    resume="never"  what an earlier attempt left is moved to `previous/<number>/`
    resume="auto"   it is continued; `finished` tells whether nothing is left to do

    Processes that Lightning starts for further devices (`is_helper`) neither lock nor clear, and have no result
    to show: the first process may still be writing it.

    fills           the folder is known to hold a result, which is added to; nothing is asked of its form

    Raises UserError when another process works in the folder, the disk refuses, or no run has made the folder.
    """

    def __init__(self, path: str | Path, *, resume: str, fills: bool = False) -> None:
        self.path = Path(path)
        self.resume = resume
        self.fills = fills
        # Started by Lightning for a further device: a helper of a run that holds the folder already.
        self.is_helper = int(os.environ.get("LOCAL_RANK", "0")) > 0
        self._lock = None

    def __enter__(self) -> "RunFolder":
        if self.is_helper:
            return self
        if not self.fills:
            take_folder(self.path)
        try:
            self._lock = (self.path / ".lock").open("a+")
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot write there ({error.strerror}); set output_dir=…"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise UserError(
                f"{self.path}: another process is running this very job. Wait for it, or change something (seed=…)."
            ) from None
        clear_leftovers(self.path)
        self._clear_finished()
        if self.resume == "never":
            self._set_aside()
        return self

    def _clear_finished(self) -> None:
        """Gives back what a stage with a result would have gone on from: a kill came before it did so itself."""
        for result in (self.path / RESULT_FILE, *self.path.glob(f"{STAGES}/*/{RESULT_FILE}")):
            if result.exists():
                checkpoints = result.parent / CHECKPOINTS
                (checkpoints / RESUME_FILE).unlink(missing_ok=True)
                forget_snapshot(checkpoints)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._lock is not None:
            self._lock.close()  # which gives the lock up

    @property
    def finished(self) -> bool:
        """A result is there: every stage was trained and tested."""
        return self.is_done(self.path)

    @staticmethod
    def is_done(stage_folder: Path) -> bool:
        """A stage is done when its Result is written, which comes last."""
        return (stage_folder / RESULT_FILE).exists()

    def result(self) -> Result:
        return Result.read(self.path)

    def stage_folder(self, stage: int, num_stages: int, name: str) -> Path:
        """Where a stage keeps its files: the run folder for the last stage, a subfolder for those before."""
        folder = self.path if stage == num_stages - 1 else self.path / STAGES / f"{stage}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _set_aside(self) -> None:
        leftovers = [self.path / name for name in LEFT_BY_RUNS if (self.path / name).exists()]
        if not leftovers:
            return
        attic = self.path / KEPT_ASIDE
        attic.mkdir(exist_ok=True)
        folder = attic / str(
            1 + max((int(one.name) for one in attic.iterdir() if one.name.isdigit()), default=0)
        )
        folder.mkdir()
        for item in leftovers:
            shutil.move(item, folder / item.name)
        print(f"what an earlier run left in {self.path} is kept in {folder}", file=sys.stderr)


def require_free_space(path: Path, *, needed_bytes: int) -> None:
    """Raises UserError when the disk of `path` has too little room for what the run will write."""
    free = shutil.disk_usage(path).free
    if free < needed_bytes:
        raise UserError(
            f"{os.fspath(path)}: {free / 2**20:.0f} MiB free, but weights and checkpoints need about "
            f"{needed_bytes / 2**20:.0f} MiB. Free some space, or set output_dir=… to another disk."
        )
