"""How long training took, and how many rows it took in per second."""

import time
from typing import Any

import pytorch_lightning as pl

from juzhen.core.batch import Batch

KEPT = ("rows", "train_seconds", "validation_seconds")


class Throughput(pl.Callback):
    """Counts rows and seconds of training, without validation; goes on counting after a resume."""

    def __init__(self) -> None:
        self.rows = 0
        self.train_seconds = 0.0
        self.validation_seconds = 0.0
        self._since = 0.0
        self._validation_since = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, index: int
    ) -> None:
        now = time.perf_counter()
        self.train_seconds += now - self._since
        self._since = now
        self.rows += len(batch) * trainer.world_size

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._validation_since = time.perf_counter()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        now = time.perf_counter()
        self.validation_seconds += now - self._validation_since
        self._since = now

    def state_dict(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in KEPT}

    def load_state_dict(self, state: dict[str, float]) -> None:
        for name in KEPT:
            setattr(self, name, state[name])

    def summary(self) -> dict[str, float | None]:
        """Rows, seconds and rows per second of training, over all sessions of the stage."""
        return {
            "rows_seen": self.rows,
            "train_seconds": round(self.train_seconds, 2),
            "validation_seconds": round(self.validation_seconds, 2),
            "rows_per_second": round(self.rows / self.train_seconds, 1) if self.train_seconds else None,
        }
