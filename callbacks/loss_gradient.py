"""The length of the gradient of the loss with respect to what the loss reads, and a warning outside a range."""

import logging
from collections import deque

import pytorch_lightning as pl
import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Batch
from juzhen.core.schema import validated
from juzhen.losses.arguments import Range

log = logging.getLogger(__name__)

READINGS = 5
"""A warning needs the mean of so many readings of one set to lie outside the range."""


class LossGradient(pl.Callback):
    """Logs `train/<set>/loss_gradient` now and then: how hard a batch pulls at the scores, before any layer changes it.

    of embeddings         √ Σ_i (‖u_i‖ · ‖∂L/∂u_i‖)², over the sentences of the batch as they are encoded: each distinct
                          one once, by each process that has it
    of scores and logits  √ Σ_i ‖∂L/∂s_i‖², over the rows of the batch

    (The notes on CoSENT, equation 45, and a range of 0.1 to 10. There u has length 1; the factor ‖u_i‖ makes that of
    embeddings of any length, since cosines do not change with it.) Only ranking losses such as CoSENT
    (`Loss.is_ranking`) are checked against the range. A mean over rows pulls 1/√rows as hard and has no such range.

    It is read at the steps that are logged (`logger.every_steps`) and compare something: there the gradient is kept and
    leaves the device.

    low, high  lengths between which there is no warning
    """

    def __init__(self, *, low: float, high: float) -> None:
        self.low, self.high = validated(Range, [low, high], "callbacks.loss_gradient.[low,high]")
        self._readings: dict[str, deque[float]] = {}
        self._told: set[str] = set()
        self._task: str | None = None

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, index: int
    ) -> None:
        # The step whose values Lightning logs.
        is_due = (trainer.global_step + 1) % trainer.log_every_n_steps == 0
        is_due &= batch.compares  # else the gradient is 0, and says nothing of the temperature
        self._task = batch.task if is_due else None
        pl_module.watched = [] if is_due else None

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        watched, pl_module.watched = pl_module.watched, None
        if not watched:
            return
        square = sum(_square(*reading) for reading in watched)
        length = trainer.strategy.reduce(square, reduce_op="sum").sqrt().item()
        # Back to the gradient of the batch's loss, which is divided by accumulation, and scaled for float16. Each
        # process has the sum over processes, of equal losses, of the gradient of its own rows.
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        scale = 1.0 if scaler is None else scaler.get_scale()
        length *= trainer.accumulate_grad_batches / scale / trainer.world_size
        pl_module.log(f"train/{self._task}/loss_gradient", length, batch_size=1, rank_zero_only=False)
        if pl_module.losses[self._task].is_ranking:
            self._judge(self._task, length, trainer.global_step)

    def _judge(self, task: str, length: float, step: int) -> None:
        readings = self._readings.setdefault(task, deque(maxlen=READINGS))
        readings.append(length)
        mean = sum(readings) / len(readings)
        if len(readings) < READINGS or self.low <= mean <= self.high or task in self._told:
            return
        self._told.add(task)
        high = "most pairs are in order already, or loss.temperature is too high"
        reason = high if mean < self.low else "loss.temperature is too low"
        log.warning(
            f"{task}: the gradient of the loss with respect to what it reads has length {mean:.2g} at step {step}, "
            f"outside of callbacks.loss_gradient.low={self.low:g} and high={self.high:g}: {reason}."
        )


@torch.no_grad()
def _square(values: Float[Tensor, "rows *numbers"], are_embeddings: bool) -> Float[Tensor, ""]:
    """Squared length of the gradient of what was watched; of embeddings as if each had length 1."""
    gradient = values.grad.float()
    if are_embeddings:
        gradient = gradient * values.float().norm(dim=-1, keepdim=True)
    return gradient.square().sum()
