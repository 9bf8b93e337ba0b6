"""How often training has drawn from each of its sets."""

from typing import Any

import pytorch_lightning as pl

from juzhen.core.batch import Batch


class SetCounts(pl.Callback):
    """Counts batches and rows of each set, over all processes; goes on counting after a resume."""

    def __init__(self) -> None:
        self.batches: dict[str, int] = {}
        self.rows: dict[str, int] = {}

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, index: int
    ) -> None:
        self.batches[batch.task] = self.batches.get(batch.task, 0) + 1
        self.rows[batch.task] = self.rows.get(batch.task, 0) + len(batch) * trainer.world_size

    def state_dict(self) -> dict[str, dict[str, int]]:
        return {"batches": dict(self.batches), "rows": dict(self.rows)}

    def load_state_dict(self, state: dict[str, dict[str, int]]) -> None:
        self.batches, self.rows = dict(state["batches"]), dict(state["rows"])

    def summary(self) -> dict[str, dict[str, float]]:
        """Set → batches, rows, and their shares of all, fractions; the set that was drawn most often first."""
        order = sorted(self.batches, key=lambda name: (-self.batches[name], name))
        batches, rows = sum(self.batches.values()), sum(self.rows.values())
        return {
            name: {
                "batches": self.batches[name],
                "rows": self.rows[name],
                "share_of_batches": round(self.batches[name] / batches, 4),
                "share_of_rows": round(self.rows[name] / rows, 4),
            }
            for name in order
        }
