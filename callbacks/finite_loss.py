"""A loss that is not a number stops the run before it spoils the weights."""

import pytorch_lightning as pl
import torch

from juzhen.core.batch import Batch
from juzhen.core.errors import UserError


class FiniteLoss(pl.Callback):
    """Raises UserError naming the batch when a loss is NaN or infinite.

    On a CPU every step is looked at before its gradients are computed. On other devices looking costs a wait,
    so it is done every `every_steps` steps.
    """

    def __init__(self, *, every_steps: int) -> None:
        self.every_steps = every_steps
        self._batch: Batch | None = None

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, index: int
    ) -> None:
        self._batch = batch

    def on_before_backward(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor
    ) -> None:
        if pl_module.device.type != "cpu" and trainer.global_step % self.every_steps:
            return
        if torch.isfinite(loss):
            return
        examples = trainer.datamodule.train[self._batch.task]
        rows = self._batch.rows.tolist()
        lines = rows if examples.lines is None else examples.lines[rows].tolist()
        shown = ", ".join(map(str, sorted(lines)[:8])) + (" …" if len(lines) > 8 else "")
        raise UserError(
            f"the loss is {loss.item()} at step {trainer.global_step} on {self._batch.task} (lines {shown} of its "
            f"training file). The last checkpoint is intact. Usual causes: optimizer.lr too high, "
            f"a temperature close to 0, or 16-bit precision (hardware.precision=32-true)."
        )
