"""Checkpoints that are either whole or not there."""

from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from callbacks.checkpoint_names import IN_CHECKPOINTS
from juzhen.core.commands import command
from juzhen.core.errors import UserError
from juzhen.core.opened import require_file
from juzhen.core.owned import own_folder
from juzhen.core.whole import remove_file, whole_file


class AtomicCheckpointIO(TorchCheckpointIO):
    """A kill leaves the old checkpoint or the new one (`juzhen.core.whole`).

    Lightning's own goes through the temporary folder, which may be another file system, where a move copies.

    folder  the one whose checkpoints may be removed; None: none are
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self.folder = folder

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        path = Path(path)
        try:
            own_folder(path.parent, earlier=IN_CHECKPOINTS)
            with whole_file(path, "wb", in_own_folder=True) as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:
            # torch reports a full disk as a RuntimeError of its zip writer.
            raise UserError(
                f"{path}: the checkpoint could not be written ({error}). The one before it is untouched; "
                f"free some space or set output_dir=… and continue with resume=auto."
            ) from error

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = True
    ) -> dict:
        return read_checkpoint(Path(path), map_location=map_location)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Removes a checkpoint of this folder and nothing else: which one it is has been read from a checkpoint."""
        if self.folder is not None and Path(path).resolve().parent == self.folder.resolve():
            with suppress(OSError):
                remove_file(Path(path))


def read_checkpoint(path: Path, *, map_location: Any = "cpu", mmap: bool = False) -> dict[str, Any]:
    """The content of a checkpoint. Runs no code of it; raises UserError where it cannot be read."""
    try:
        found = torch.load(require_file(path), map_location=map_location, mmap=mmap, weights_only=True)
        return dict(found)
    except (OSError, RuntimeError, ValueError, TypeError, EOFError, UnpicklingError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> UserError:
    """What to do about a checkpoint that is not whole."""
    return UserError(
        f"{path}: this checkpoint is damaged ({type(error).__name__}), and training cannot go on from it. Type "
        f"{command('rm', '-r', path.parent)} and the same command again: this stage starts afresh, and finished "
        "stages and results stay as they are"
    )
