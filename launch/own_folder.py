"""Which folder a run may take: a new or empty one, or one that a run of juzhen has made."""

import os
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.result import RESULT_FILE, Result
from juzhen.core.whole import KEPT_ASIDE, write_text

MARKER = ".juzhen"
"""File by which the folder of a run is known."""

MARK = "The folder of a run of juzhen. What a run has left here may be moved to previous/ by the next one.\n"

STAGES = "stages"
"""Subfolder of a run in which the stages before its last keep their files."""

STAYS = (".hydra", ".lock", "train.log", MARKER, KEPT_ASIDE)
"""What is there, or written to, before a run begins."""

LEFT_BY_RUNS = (
    STAGES,
    "checkpoints",
    "encoder",
    "metrics",
    "wandb",
    "health.jsonl",
    "analysis",
    RESULT_FILE,
)
"""What an attempt leaves: this and nothing else is moved aside."""

CHECKPOINTS = "checkpoints"
RESUME_FILE = "resume.ckpt"
IN_CHECKPOINTS = {RESUME_FILE, "best.ckpt", "snapshot.json"}


def take_folder(path: Path) -> None:
    """Makes the folder of a run, or sees that a run has made it, and that it can be written to. Needs no torch.

    Raises UserError, before anything is changed, for a folder that holds something else, and where nothing can be made.
    """
    if path.is_dir():
        names = {entry.name for entry in path.iterdir()}
        _refuse_links(path, names)
        if not (MARKER in names or _is_old_run(path, names)) and (foreign := sorted(names - {*STAYS})):
            raise UserError(
                f"{path}: no run of juzhen has made this folder, and it holds {', '.join(foreign[:3])}"
                f"{' …' if len(foreign) > 3 else ''}. Nothing was changed. Take a new or empty folder, "
                "run_dir=<folder>, or leave run_dir out"
            )
    make_folder(path)
    try:
        os.close(os.open(path / ".lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666))
        if not (path / MARKER).exists():
            write_text(path / MARKER, MARK)
    except OSError as error:
        raise _unwritable(path, error) from error


def make_folder(path: Path) -> None:
    """Makes a folder that runs are written below. Raises UserError where that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise _unwritable(path, PermissionError(13, "Permission denied"))


def _unwritable(path: Path, error: OSError) -> UserError:
    """What stands in the way, and the way out."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    reason = (
        f"{there} is a file"
        if not there.is_dir()
        else f"nothing can be written below {there} ({error.strerror})"
    )
    return UserError(f"{path}: {reason}; set output_dir=… to a folder that you may write to, or run_dir=…")


def _refuse_links(path: Path, names: set[str]) -> None:
    """A link may have been planted, and what is written through it lies elsewhere."""
    for name in sorted(names & {*STAYS, *LEFT_BY_RUNS}):
        if (path / name).is_symlink():
            raise UserError(
                f"{path / name}: is a link, and a run would write to where it leads; take it away, or choose "
                "another folder with run_dir=…"
            )


def _is_old_run(path: Path, names: set[str]) -> bool:
    """A folder of the time before there was a marker: Hydra's notes, and beside them what a run of ours leaves."""
    if ".hydra" not in names:
        return False
    kept = {entry.name for entry in (path / CHECKPOINTS).iterdir()} if "checkpoints" in names else set()
    if names <= {*STAYS, *LEFT_BY_RUNS} or (kept and kept <= IN_CHECKPOINTS):
        return True
    try:
        return bool(Result.read(path).key)
    except UserError:
        return False
