"""Exact resume: what a continued run needs to end with the very same weights."""

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.strategies import DDPStrategy, SingleDeviceStrategy

from callbacks.checkpoint_io import AtomicCheckpointIO, damaged, read_checkpoint
from callbacks.lightning_internals import is_between_steps, is_validation_due, whole_state
from callbacks.snapshot import Snapshots
from callbacks.snapshot_file import NoRoomError
from callbacks.snapshots import RESUME_FILE, Found, find_snapshot
from juzhen.core.errors import UserError


def random_state() -> dict[str, Any]:
    """The state of every generator that training may draw from, as plain values and tensors."""
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
    """Sets every generator back to what `random_state` saw."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(torch.as_tensor(numbers).tolist()), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.asarray(keys).astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([one.cpu() for one in state["cuda"][: torch.cuda.device_count()]])
    if state.get("mps") is not None and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"].cpu())


class ResumePoint(Checkpoint):
    """Saves the whole state of training every so many steps, after each validation, and when asked to stop.

    Where a validation is due, the state is saved after it and never before: Lightning takes a validation
    as done when it resumes, and a lost one could change which checkpoint is best. It is not saved between two
    optimizer steps either, because gradients are not part of a checkpoint.

    Between two saves the state goes to shared memory, where the system keeps it after a kill (`callbacks.snapshot`);
    when training ends, in whatever way, it is moved to disk if it is newer than what is there.

    Must be the last of the callbacks, so that the others have seen the validation. It is a Checkpoint because
    Lightning calls these after all others: saved before ModelCheckpoint, it would forget the newest best score.

    folder       where `resume.ckpt` goes
    every_steps  optimizer steps between two saves
    snapshots    what writes to shared memory; None: nothing does
    """

    def __init__(self, folder: Path, *, every_steps: int, snapshots: Snapshots | None = None) -> None:
        self.path = folder / RESUME_FILE
        self.every_steps = every_steps
        self.snapshots = snapshots
        self._restored: dict[str, Any] | None = None
        self._saved_at = 0

    def state_dict(self) -> dict[str, Any]:
        return random_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._restored = state

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        # In the one process that writes, where all processes of the job could read it and none must help.
        whole_here = isinstance(trainer.strategy, SingleDeviceStrategy | DDPStrategy)
        if not (whole_here and trainer.num_nodes == 1 and trainer.is_global_zero):
            self.snapshots = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saved_at = trainer.global_step
        # Set back here and not on loading: setting up loaders and loggers may have drawn numbers since.
        if self._restored is not None:
            restore_random_state(self._restored)
            self._restored = None

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        due = trainer.global_step - self._saved_at >= self.every_steps or trainer.received_sigterm
        if is_between_steps(trainer) or is_validation_due(trainer):
            return
        if due:
            self._save(trainer)
        elif self.snapshots is not None and self.snapshots.due:
            self._snapshot(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # A run that has been told to stop early would, resumed from here, go on instead.
        if trainer.state.fn == "fit" and not trainer.should_stop and not trainer.sanity_checking:
            self._save(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._move_to_disk()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        try:
            self._move_to_disk()
        except UserError as error:  # the disk is full, perhaps: the state stays where it is and will be found
            print(error, file=sys.stderr)

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path)
        self._saved_at = trainer.global_step

    def _snapshot(self, trainer: pl.Trainer) -> None:
        # Not trainer.save_checkpoint: the other processes of the job would have to decide alike, and wait.
        try:
            self.snapshots.write(whole_state(trainer), steps=trainer.global_step)
        except NoRoomError as error:
            print(
                f"the state after each step is not kept in {self.snapshots.shared}: {error}. A kill may cost up to "
                f"training.checkpoint_every, {self.every_steps} steps; hardware.snapshot_folder names another place.",
                file=sys.stderr,
            )

    def _move_to_disk(self) -> None:
        """Writes the newest state in memory where it outlives the machine, and gives the memory back."""
        if self.snapshots is None:
            return
        newest = newest_state(self.path.parent)
        if newest is not None and newest.path != self.path:
            state = self.snapshots.state()
            if all(torch.isfinite(one).all() for one in state["state_dict"].values()):
                AtomicCheckpointIO().save_checkpoint(state, self.path)
            del state  # or its memory, which is the snapshot's, could not be given back
        self.snapshots.close()


def stage_folder(trainer: pl.Trainer) -> Path:
    """Where a stage keeps what must go on after a resume: the folder around its checkpoints, which runs may share."""
    return next(one for one in trainer.callbacks if isinstance(one, ResumePoint)).path.parent.parent


def newest_state(folder: Path) -> Found | None:
    """Where interrupted training goes on from: the checkpoint in `folder`, or a snapshot that is ahead of it."""
    on_disk, in_memory = folder / RESUME_FILE, find_snapshot(folder)
    if not on_disk.exists():
        return in_memory
    try:
        steps = read_checkpoint(on_disk, mmap=True)["global_step"]
    except KeyError as error:
        raise damaged(on_disk, error) from error
    except UserError:
        if in_memory is None:
            raise
        print(f"{on_disk} is damaged; training goes on from the state in memory", file=sys.stderr)
        return in_memory
    # At the same step the checkpoint knows more: it is written after the validation.
    return in_memory if in_memory is not None and in_memory.steps > steps else Found(on_disk, steps)


class ValidationPoints(pl.Callback):
    """Validates every so many optimizer steps, and always after the last one."""

    def __init__(self, *, every_steps: int) -> None:
        self.every_steps = every_steps

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.val_check_batch = float("inf")  # the end of the epoch, which is the end of the stage

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        here = not is_between_steps(trainer) and trainer.global_step % self.every_steps == 0
        trainer.val_check_batch = 1 if here else float("inf")
