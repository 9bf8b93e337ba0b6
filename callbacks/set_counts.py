"""How often training has drawn from each of its sets, what their losses are, and how hard each pulls at the weights."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from juzhen.core.batch import Batch

LAST = 100
"""Batches of a set whose mean loss is told, and lengths of its gradient."""


class SetCounts(pl.Callback):
    """Counts batches and rows of each set, over all processes; goes on counting after a resume.

    Of several sets, it logs at each logged step the share of batches and of rows of every set so far, and the length of
    the gradient of the step's sets over encoder and heads, before clipping; the result has the means of the last LAST
    losses and lengths, of the first process where there are several.
    """

    def __init__(self) -> None:
        self.batches: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.losses: dict[str, deque[Tensor]] = {}
        self.lengths: dict[str, deque[Tensor]] = {}
        self._is_due = False
        self._before: list[Tensor | None] = []

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, index: int
    ) -> None:
        several = len(trainer.datamodule.train) > 1
        self._is_due = several and (trainer.global_step + 1) % trainer.log_every_n_steps == 0
        self._task = batch.task

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        if self._is_due:  # what earlier batches of the step have gathered is taken off again
            self._before = [
                None if gradient is None else gradient.clone() for gradient in _gradients(pl_module)
            ]

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not self._is_due:
            return
        length = gradient_length(_gradients(pl_module), self._before)
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        length = length * trainer.accumulate_grad_batches / (1.0 if scaler is None else scaler.get_scale())
        self._before = []
        self.lengths.setdefault(self._task, deque(maxlen=LAST)).append(length)
        pl_module.log(f"train/{self._task}/gradient_norm", length, batch_size=1, rank_zero_only=False)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, index: int
    ) -> None:
        self.batches[batch.task] = self.batches.get(batch.task, 0) + 1
        self.rows[batch.task] = self.rows.get(batch.task, 0) + len(batch) * trainer.world_size
        if len(trainer.datamodule.train) > 1:
            self.losses.setdefault(batch.task, deque(maxlen=LAST)).append(pl_module.set_loss)
        if self._is_due:
            shares = {
                f"train/{name}/{key}": float(counts[key])
                for name, counts in self._shares().items()
                for key in ("share_of_batches", "share_of_rows")
            }
            pl_module.log_dict(shares, batch_size=1, rank_zero_only=False)

    def state_dict(self) -> dict[str, Any]:
        return {"batches": dict(self.batches), "rows": dict(self.rows)} | {
            key: {name: torch.stack([*values]) for name, values in kept.items()}
            for key, kept in (("losses", self.losses), ("lengths", self.lengths))
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.batches, self.rows = dict(state["batches"]), dict(state["rows"])
        self.losses, self.lengths = (
            {name: deque(values.unbind(), maxlen=LAST) for name, values in state.get(key, {}).items()}
            for key in ("losses", "lengths")
        )

    def summary(self) -> dict[str, dict[str, float]]:
        """Set → batches, rows, and their shares of all, fractions; the set that was drawn most often first.

        Of several sets their mean losses and lengths of gradients, too.
        """
        return {
            name: counts
            | {
                key: float(
                    f"{torch.stack([value.cpu() for value in values[name]]).double().mean().item():.6g}"
                )
                for key, values in (("loss", self.losses), ("gradient_norm", self.lengths))
                if name in values
            }
            for name, counts in self._shares().items()
        }

    def _shares(self) -> dict[str, dict[str, float]]:
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


def _gradients(module: pl.LightningModule) -> list[Tensor | None]:
    """Those of encoder and heads: a learnt weight of a set is as large as all of them together."""
    return [weights.grad for _, weights in module.named_weights()]


def gradient_length(after: Sequence[Tensor | None], before: Sequence[Tensor | None]) -> Tensor:
    """‖after − before‖ over all tensors; None counts as 0."""
    grown = [
        new if old is None else new - old for new, old in zip(after, before, strict=True) if new is not None
    ]
    return torch.nn.utils.get_total_norm(grown).detach()
