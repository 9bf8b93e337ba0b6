"""How far a stage is: a line on stderr, and a small file in the run's folder that a sweep reads."""

import math
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from juzhen.core.progress import ProgressLine
from juzhen.core.result import RunProgress

SECONDS = 5.0
"""Between two states of the file."""


class StageProgress(pl.Callback):
    """One line for a stage, with steps, loss, dev score and the time left, and one for its last scoring.

    shown   the line is shown
    folder  the run's, where the file is kept
    """

    def __init__(self, stage: str, *, monitor: str, folder: Path, shown: bool) -> None:
        self.stage, self.monitor, self.folder, self.shown = stage, monitor, folder, shown
        self.line: ProgressLine | None = None
        self.loss: torch.Tensor | None = None
        self.dev: float | None = None
        self.best: float | None = None
        self.scoring = ""
        self.has_trained = False
        self._done, self._total, self._work, self._written = 0, 0, "", 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.best = best_score(trainer)
        self.has_trained = True
        done, total = trainer.global_step, trainer.datamodule.total_steps
        self._begin(trainer, f"training on {self.stage}", total, done=done, unit="steps")

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        self.loss = pl_module.step_loss
        self._update(trainer.global_step)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.scoring = "scoring dev"
        self._update(self._done)

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        index: int,
        *loader: Any,
    ) -> None:
        self.scoring = f"scoring dev {index + 1}/{sum(trainer.num_val_batches)}"
        self._update(self._done)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.scoring = ""
        score = trainer.callback_metrics.get(self.monitor)
        if score is not None and math.isfinite(score):
            self.dev = float(score)
            self.best = max(self.dev, -math.inf if self.best is None else self.best)
        self._update(self._done)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._close()

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trains = bool(trainer.datamodule.train) and not self.has_trained
        work = "scoring all sets" + (" before training" if trains else "")
        self._begin(trainer, work, sum(trainer.num_test_batches))

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        index: int,
        *loader: Any,
    ) -> None:
        self._update(index + 1)

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._close()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def _begin(self, trainer: pl.Trainer, work: str, total: int, *, done: int = 0, unit: str = "") -> None:
        self._close()
        self._work, self._total, self._done = work, total, done
        self.scoring = ""
        if trainer.is_global_zero:
            self.line = ProgressLine(work, total, done=done, unit=unit, stays=bool(unit), shown=self.shown)
            self._write()

    def _update(self, done: int) -> None:
        self._done = done
        if self.line is None:
            return
        self.line.update(done, self._note)
        if time.monotonic() - self._written > SECONDS:
            self._write()

    def _note(self, wide: bool) -> str:
        """Loss and dev score; the numbers of a GPU are waited for only when somebody sees them."""
        if not self._work.startswith("training"):
            return ""
        parts = [] if self.loss is None else [f"loss {float(self.loss):#.4g}"]
        if self.scoring:
            return " ".join([*parts, self.scoring])
        parts += [] if self.dev is None else [f"dev {100 * self.dev:.1f}"]
        if self.best is not None and self.best != self.dev and (wide or self.dev is None):
            parts.append(f"best {100 * self.best:.1f}")
        return " ".join(parts)

    def _write(self) -> None:
        self._written = time.monotonic()
        if self.line is not None:
            loss, seconds = None if self.loss is None else float(self.loss), self.line.seconds_left
            state = RunProgress(self._work, self._done, self._total, loss, self.dev, self.best, seconds)
            state.write(self.folder)

    def _close(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None


def best_score(trainer: pl.Trainer) -> float | None:
    """The best dev score of an earlier attempt, which its checkpoint has brought back."""
    for callback in trainer.checkpoint_callbacks:
        score = getattr(callback, "best_model_score", None)
        if isinstance(callback, ModelCheckpoint) and score is not None:
            return float(score)
    return None
