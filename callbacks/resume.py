"""Exact resume: whole checkpoints with all state, so that a resumed run ends with identical weights."""

import random
import signal
import threading
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

from callbacks import RESUME_FILE
from callbacks.lightning_internals import is_between_steps, is_validation_due
from juzhen.core.atomic_write import atomic_write, remove_file
from juzhen.core.errors import UserError, command
from juzhen.core.file_guard import claim_dir
from juzhen.core.safe_open import require_file


class AtomicCheckpointIO(TorchCheckpointIO):
    """A kill leaves the old checkpoint or the new one (`juzhen.core.atomic_write`).

    Lightning's CheckpointIO writes through the temporary folder. That may be another file system, where a
    move copies.

    Args:
        folder: Folder whose checkpoints may be removed. None: remove none.
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self.folder = folder

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        path = Path(path)
        try:
            claim_dir(path.parent)
            with atomic_write(path, "wb", in_own_folder=True) as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:
            # torch reports a full disk as a RuntimeError of its zip writer; and Ctrl-C too, while it writes.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise UserError(
                f"{path}: the checkpoint could not be written ({error}). The one before it is untouched. "
                f"Free some space or set output_dir=… and continue with resume=auto."
            ) from error

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = True
    ) -> dict:
        return read_checkpoint(Path(path), map_location=map_location)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a checkpoint of this folder and nothing else. The path comes from a checkpoint."""
        if self.folder is not None and Path(path).resolve().parent == self.folder.resolve():
            with suppress(OSError):
                remove_file(Path(path))


def read_checkpoint(path: Path, *, map_location: Any = "cpu", mmap: bool = False) -> dict[str, Any]:
    """Read the content of a checkpoint without running its code.

    Args:
        path: Checkpoint file of torch.
        map_location: Device for the tensors, as `torch.load` takes it.
        mmap: Map tensors into memory instead of reading them. The checksums of the file are then not checked.

    Returns:
        Name → state, as Lightning saved it.

    Raises:
        UserError: The file is unreadable or damaged.
    """
    try:
        if not mmap:
            with ZipFile(require_file(path)) as file:  # torch does not look for flipped bits
                if name := file.testzip():
                    raise ValueError(name)
        content = torch.load(require_file(path), map_location=map_location, mmap=mmap, weights_only=True)
        return dict(content)
    except (BadZipFile, OSError, RuntimeError, ValueError, TypeError, EOFError, UnpicklingError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> UserError:
    """Make the error for an incomplete checkpoint, with the remedy.

    Args:
        path: Checkpoint file. The remedy removes its folder.
        error: The cause. Its type is named.

    Returns:
        The error to raise.
    """
    return UserError(
        f"{path}: this checkpoint is damaged ({type(error).__name__}), and training cannot continue from it. Type "
        f"{command('rm', '-r', path.parent)} and the same command again: this stage starts again, and finished "
        "stages and results stay"
    )


def random_state() -> dict[str, Any]:
    """Return the state of every generator that training may draw from, as plain values and tensors.

    Returns:
        Name of a generator → its state. That of CUDA is empty if no job uses CUDA.
    """
    version, numbers, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "python": [version, torch.tensor(numbers), gauss],
        "numpy": [
            name,
            torch.from_numpy(keys.astype(np.int64)),
            int(position),
            int(has_gauss),
            float(cached),
        ],
        "torch": torch.get_rng_state(),
        # A GPU that this job has no use for is left alone; asked, it would be set up for it.
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        "mps": torch.mps.get_rng_state() if torch.backends.mps.is_available() else None,
    }


def restore_random_state(state: dict[str, Any]) -> None:
    """Restore the state of every generator from `random_state`.

    Args:
        state: Result of `random_state`. States of a GPU that is missing here are skipped.
    """
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(torch.as_tensor(numbers).tolist()), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.asarray(keys).astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(
            [device_state.cpu() for device_state in state["cuda"][: torch.cuda.device_count()]]
        )
    if state.get("mps") is not None and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"].cpu())


class ResumePoint(Checkpoint):
    """Saves the whole state of training every so many steps, after each validation, and on a stop request.

    If a validation is due, the state is saved after it and never before. Lightning takes a validation as done
    when it resumes, and a lost one could change which checkpoint is best. It is not saved between two
    optimizer steps either, because gradients are not part of a checkpoint.

    The first Ctrl-C in a step waits for its end, so that nothing is lost. A second one stops at once. So does
    a Ctrl-C during a validation or mining, and then the last save counts.

    It must be the last of the callbacks, so that the others have seen the validation. It is a Checkpoint
    because Lightning calls these after all others: saved before ModelCheckpoint, it would forget the newest
    best score.

    Args:
        folder: Folder of `resume.ckpt`.
        every_steps: Optimizer steps between two saves.
    """

    def __init__(self, folder: Path, *, every_steps: int) -> None:
        self.path = folder / RESUME_FILE
        self.every_steps = every_steps
        self._restored: dict[str, Any] | None = None
        self._saved_at = 0
        self._is_in_step = False
        self._is_interrupted = False
        self._sigint: Any = None

    def state_dict(self) -> dict[str, Any]:
        return random_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._restored = state

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saved_at = trainer.global_step
        # Set back here and not on loading: setting up loaders and loggers may have drawn numbers since.
        if self._restored is not None:
            restore_random_state(self._restored)
            self._restored = None
        if trainer.world_size == 1 and threading.current_thread() is threading.main_thread():
            self._sigint = signal.signal(signal.SIGINT, self._on_sigint)

    def _on_sigint(self, *_: Any) -> None:
        if not self._is_in_step or self._is_interrupted:
            raise KeyboardInterrupt
        self._is_interrupted = True

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        self._is_in_step = True

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        self._is_in_step = False
        if is_between_steps(trainer) or is_validation_due(trainer):
            return
        must_stop = trainer.received_sigterm or self._is_interrupted
        if must_stop or trainer.global_step - self._saved_at >= self.every_steps:
            self._save(trainer)
        self._stop_if_interrupted()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # A run that has been told to stop early would, resumed from here, go on instead.
        if trainer.state.fn == "fit" and not trainer.should_stop and not trainer.sanity_checking:
            self._save(trainer)
            self._stop_if_interrupted()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._give_back()
        self._stop_if_interrupted()  # in the last step of all, after which nothing more was to be saved

    def _stop_if_interrupted(self) -> None:
        if self._is_interrupted:
            raise KeyboardInterrupt

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        self._give_back()

    def _give_back(self) -> None:
        if self._sigint is not None:
            signal.signal(signal.SIGINT, self._sigint)
            self._sigint = None

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path)
        self._saved_at = trainer.global_step


class SavedState(NamedTuple):
    """A checkpoint of an unfinished training.

    Args:
        path: The checkpoint.
        steps: Number of finished optimizer steps.
    """

    path: Path
    steps: int


def stage_folder(trainer: pl.Trainer) -> Path:
    """Return the folder around the checkpoints of a stage, for resumable files. Runs may share it.

    Args:
        trainer: A trainer with a ResumePoint. Its folder decides.

    Returns:
        Folder that holds the folder of the checkpoints.
    """
    return next(
        callback for callback in trainer.callbacks if isinstance(callback, ResumePoint)
    ).path.parent.parent


def saved_state(folder: Path) -> SavedState | None:
    """Find the checkpoint of interrupted training.

    Args:
        folder: Folder of the checkpoints of a stage.

    Returns:
        The checkpoint and its finished steps. None without a checkpoint.

    Raises:
        UserError: The checkpoint is damaged.
    """
    path = folder / RESUME_FILE
    if not path.exists():
        return None
    try:
        return SavedState(path, read_checkpoint(path, mmap=True)["global_step"])
    except KeyError as error:
        raise damaged(path, error) from error


class ValidationPoints(pl.Callback):
    """Validates every so many optimizer steps, and always after the last one.

    Args:
        every_steps: Optimizer steps between two validations.
    """

    def __init__(self, *, every_steps: int) -> None:
        self.every_steps = every_steps

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.val_check_batch = float("inf")  # the end of the epoch, which is the end of the stage

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        is_due = not is_between_steps(trainer) and trainer.global_step % self.every_steps == 0
        trainer.val_check_batch = 1 if is_due else float("inf")
