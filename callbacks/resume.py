"""Exact resume: what a continued run needs to end with the very same weights."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint

RESUME_FILE = "resume.ckpt"


def random_state() -> dict[str, Any]:
    """The state of every generator that training may draw from, as plain values and tensors."""
    version, numbers, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [name, keys.tolist(), int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_state(state: dict[str, Any]) -> None:
    """Sets every generator back to what `random_state` saw."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([one.cpu() for one in state["cuda"]])


class ResumePoint(Checkpoint):
    """Saves the whole state of training every so many steps, after each validation, and when asked to stop.

    Where a validation is due, the state is saved after it and never before: Lightning takes a validation
    as done when it resumes, and a lost one could change which checkpoint is best. It is not saved between two
    optimiser steps either, because gradients are not part of a checkpoint.

    Must be the last of the callbacks, so that the others have seen the validation. It is a Checkpoint because
    Lightning calls these after all others: saved before ModelCheckpoint, it would forget the newest best score.

    folder       where `resume.ckpt` goes
    every_steps  optimiser steps between two saves
    """

    def __init__(self, folder: Path, *, every_steps: int) -> None:
        self.path = folder / RESUME_FILE
        self.every_steps = every_steps
        self._restored: dict[str, Any] | None = None
        self._saved_at = 0

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

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        due = trainer.global_step - self._saved_at >= self.every_steps or trainer.received_sigterm
        between_steps = trainer.fit_loop.epoch_loop._should_accumulate()
        if due and not between_steps and not is_validation_due(trainer):
            self._save(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # A run that has been told to stop early would, resumed from here, go on instead.
        if trainer.state.fn == "fit" and not trainer.should_stop and not trainer.sanity_checking:
            self._save(trainer)

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path)
        self._saved_at = trainer.global_step


def is_validation_due(trainer: pl.Trainer) -> bool:
    """True when a validation follows the batch that has just ended."""
    loop = trainer.fit_loop.epoch_loop
    return bool(loop._should_check_val_fx(trainer.fit_loop._data_fetcher))


class ValidationPoints(pl.Callback):
    """Validates every so many optimiser steps, and always after the last one."""

    def __init__(self, *, every_steps: int) -> None:
        self.every_steps = every_steps

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.val_check_batch = float("inf")  # the end of the epoch, which is the end of the stage

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        between_steps = trainer.fit_loop.epoch_loop._should_accumulate()
        here = not between_steps and trainer.global_step % self.every_steps == 0
        trainer.val_check_batch = 1 if here else float("inf")
