"""The folder of one run: locked while in use, never overwritten; new or empty, or one that a run of juzhen has made."""

import fcntl
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from callbacks import CHECKPOINTS, RESUME_FILE
from juzhen.core.atomic_write import KEPT_ASIDE, clear_leftovers, move, remove_file
from juzhen.core.errors import UserError, command
from juzhen.core.file_guard import MARKER, mark_dir, refuse_links
from juzhen.core.result import PROGRESS_FILE, RESULT_FILE, STAGES, Result
from juzhen.core.row_scores import ROWS_FILE
from juzhen.encoders.resolve_path import ENCODER_FOLDER

WANDB = "wandb"
OFFLINE_RUNS = f"{WANDB}/offline-run-*"
MOST_NAMED = 3
"""Offline runs of W&B that a command names one by one."""

STAYS = (".hydra", ".lock", "train.log", MARKER, KEPT_ASIDE)
"""What is there, or written to, before a run begins."""

LEFT_BY_RUNS = (
    STAGES,
    CHECKPOINTS,
    ENCODER_FOLDER,
    "metrics",
    WANDB,
    "mining",
    "health.jsonl",
    "mining.jsonl",
    "scores.jsonl",
    PROGRESS_FILE,
    "analysis",
    ROWS_FILE,
    RESULT_FILE,
)
"""What an attempt leaves: this and nothing else is moved aside."""

WITH_LINKS = (WANDB, KEPT_ASIDE, ENCODER_FOLDER)
"""What may hold links: nothing is written into files there."""


class RunFolder:
    """One run's folder as a context: taken by one process, and cleared of earlier work without losing it.

    resume="never"  what an earlier attempt left is moved to `previous/<number>/`
    resume="auto"   it is continued; `finished` tells whether nothing is left to do

    Processes that Lightning starts for further devices (`is_helper`) neither lock nor clear, and have no result
    to show: the first process may still be writing it.

    fills           the folder is known to hold a result, which is added to; nothing is asked of its form

    Raises UserError when another process works in the folder, or no run has made the folder.
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
        if self.fills:
            _fill_folder(self.path)
        else:
            take_folder(self.path)
        self._lock = (self.path / ".lock").open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise UserError(
                f"{self.path}: another process is running this very job. Wait for it, or change something (seed=…)."
            ) from None
        # A DataLoader's workers outlive a killed run by seconds: with the lock, they would keep the next one out.
        os.register_at_fork(after_in_child=self._lock.close)
        clear_leftovers(self.path)
        self._clear_finished()
        if self.resume == "never":
            self._set_aside()
        return self

    def _clear_finished(self) -> None:
        """Gives back what a stage with a result would have gone on from: a kill came before it did so itself."""
        for result in (self.path / RESULT_FILE, *self.path.glob(f"{STAGES}/*/{RESULT_FILE}")):
            if result.exists():
                remove_file(result.parent / CHECKPOINTS / RESUME_FILE)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._lock is not None:
            if self.finished:
                remove_file(self.path / PROGRESS_FILE, in_own_folder=True)
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

    def earlier_results(self) -> list[Result]:
        """Results of the stages before the last one, in order; empty for a job of one stage."""
        files = self.path.glob(f"{STAGES}/*/{RESULT_FILE}")
        return sorted((Result.read(file.parent) for file in files), key=lambda result: result.stage)

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
        last = max((int(folder.name) for folder in attic.iterdir() if folder.name.isdigit()), default=0)
        folder = attic / str(last + 1)
        folder.mkdir()
        for item in leftovers:
            move(item, folder)
        print(f"what an earlier run left in {self.path} is kept in {folder}", file=sys.stderr)


def offline_line(run_folders: Iterable[str | Path]) -> str | None:
    """Where the files of W&B wait that were written offline, and what to type to upload them; None without any.

    Args:
        run_folders: Of one run, or of all runs of a sweep. Uploaded files, and those of an earlier attempt that was set
            aside, do not count.

    Returns:
        One line, with the command.
    """
    runs = [Path(folder) for folder in run_folders]
    waiting, patterns = list[Path](), dict[str, None]()
    for run in runs:
        whole = command(run) if len(runs) == 1 else f"{command(run.parent)}/*"
        for below in (OFFLINE_RUNS, f"{STAGES}/*/{OFFLINE_RUNS}"):
            found = [folder for folder in sorted(run.glob(below)) if _is_to_upload(folder)]
            waiting += found
            patterns |= {f"{whole}/{below}": None} if found else {}
    if not waiting:
        return None
    places = dict.fromkeys(str(folder.parent) for folder in waiting)
    words = [command(folder) for folder in waiting]
    if len(words) > MOST_NAMED:
        places, words = dict.fromkeys(word.rpartition("/")[0] for word in patterns), [*patterns]
    sync = command("wandb", "sync", unquoted=words)
    return f"W&B was offline, its files are in {', '.join(places)}. Upload them: {sync}"


def _is_to_upload(folder: Path) -> bool:
    """W&B leaves a mark beside the file of a run that it has uploaded."""
    return any(folder.glob("*.wandb")) and not any(folder.glob("*.wandb.synced"))


def require_free_space(path: Path, *, needed_bytes: int) -> None:
    """Raises UserError when the disk of `path` has too little room for what the run will write."""
    free = shutil.disk_usage(path).free
    if free < needed_bytes:
        raise UserError(
            f"{os.fspath(path)}: {free / 2**20:.0f} MiB free, but weights and checkpoints need about "
            f"{needed_bytes / 2**20:.0f} MiB. Free some space, or set output_dir=… to another disk."
        )


def take_folder(path: Path) -> None:
    """Makes the folder of a run, or sees that a run has made it, and that it can be written to. Needs no torch.

    Raises UserError, before anything is changed, for a folder that holds something else.
    """
    if path.is_dir():
        names = {entry.name for entry in path.iterdir()}
        refuse_links(path, [*STAYS, *LEFT_BY_RUNS], within=WITH_LINKS)
        if MARKER not in names and (foreign := sorted(names - {*STAYS})):
            raise UserError(
                f"{path}: no run of juzhen has made this folder, and it holds {', '.join(foreign[:3])}"
                f"{' …' if len(foreign) > 3 else ''}. Nothing was changed. Take a new or empty folder, "
                "run_dir=<folder>, or leave run_dir out"
            )
    make_folder(path)
    os.close(os.open(path / ".lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666))
    mark_dir(path.resolve())


def _fill_folder(path: Path) -> None:
    """As `take_folder`, of a folder with a result to which something is added; its encoders are only read."""
    refuse_links(path, [*STAYS, *LEFT_BY_RUNS], within=WITH_LINKS, read=[ENCODER_FOLDER])
    mark_dir(path.resolve())


def make_folder(path: Path) -> None:
    """Makes a folder that runs are written below; the system refuses where that is not possible."""
    path.mkdir(parents=True, exist_ok=True)
