"""Parameters that start learning later: heads first, then layers from the top."""

from typing import Any

import pytorch_lightning as pl
from torch import nn

from conf.job import Duration
from juzhen.core.errors import UserError
from juzhen.training.optimizer import layer_of


class Unfreezing(pl.Callback):
    """Freezes layers for a time. It is a function of the optimizer step, so it can be resumed.

    H is `head_warmup` and U is `layer_every`, in optimizer steps. In the first H steps only parameters
    outside the backbone learn (Kumar et al. 2022, https://arxiv.org/abs/2202.10054, section 4, who train the
    head to its end first). Then the last layer learns, too, and every U steps the layer below it. U = 0
    unfreezes all layers at once. (Howard and Ruder 2018, https://arxiv.org/abs/1801.06146, section 3.3, one
    layer with each epoch) Token embeddings learn with the first layer. Frozen parameters have no gradient, so
    neither momentum nor weight decay changes them. The backward pass ends at the lowest layer that learns.

    Logs `train/layers`, the number of layers that learn.

    Args:
        head_warmup: H as a duration, such as `10 percent`.
        layer_every: U as a duration. `0 steps`: all layers at once.

    Raises:
        UserError: Nothing could learn. It is raised before the first step.
    """

    def __init__(self, *, head_warmup: str, layer_every: str) -> None:
        self.head_warmup, self.layer_every = (
            Duration.parse(text, key=f"callbacks.unfreezing.{key}")
            for key, text in (("head_warmup", head_warmup), ("layer_every", layer_every))
        )

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Freeze the layers that do not learn yet.

        Raises:
            UserError: An encoder without layers, nothing that can learn, or several processes.
        """
        if trainer.world_size > 1:
            raise UserError(
                "callbacks.unfreezing: several processes wait for the gradient of each weight. Type "
                "hardware.strategy=auto hardware.devices=1, or leave the callback out"
            )
        self._head_steps, self._layer_steps = (
            self._steps(trainer, key, duration)
            for key, duration in (("head_warmup", self.head_warmup), ("layer_every", self.layer_every))
        )
        self._weights = {
            name: weights for name, weights in pl_module.named_weights() if weights.requires_grad
        }
        layers = {name: layer_of(name) for name in self._weights}
        self._count = max((layer for layer in layers.values() if layer), default=0)
        if not self._count:
            raise UserError("callbacks.unfreezing: this architecture has no list of layers. Leave it out")
        # Token embeddings lie below the first layer, and learn with it.
        self._depths = {
            name: self._count - max(layer, 1) for name, layer in layers.items() if layer is not None
        }
        above = [name for name in layers if name not in self._depths and not name.startswith("losses.")]
        headless = [
            name for name, loss in pl_module.losses.items() if not above and not list(loss.parameters())
        ]
        if self._head_steps and headless:
            raise UserError(
                f"callbacks.unfreezing.head_warmup: {headless[0]} has no weights above the layers, so nothing "
                "could learn. Type callbacks.unfreezing.head_warmup='0 steps', or choose a loss with a head, such as "
                "loss=softmax"
            )
        self._apply(trainer)

    @staticmethod
    def _steps(trainer: pl.Trainer, key: str, duration: Duration) -> int:
        data = trainer.datamodule
        text = f"{duration.amount:g} {duration.unit}"
        return data.in_steps(text, f"callbacks.unfreezing.{key}", total_steps=data.total_steps)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        self._apply(trainer)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        learning = float(self.learning(trainer.global_step))
        pl_module.log("train/layers", learning, batch_size=1, rank_zero_only=False)

    def learning(self, step: int) -> int:
        """Return the number of layers that learn in a step.

        Args:
            step: Finished optimizer steps.

        Returns:
            Layers from the top, 0 to all.
        """
        if step < self._head_steps:
            return 0
        if not self._layer_steps:
            return self._count
        return min(1 + (step - self._head_steps) // self._layer_steps, self._count)

    def _apply(self, trainer: pl.Trainer) -> None:
        learning = self.learning(trainer.global_step)
        for name, depth in self._depths.items():
            _set(self._weights[name], depth < learning)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for weights in self._weights.values():
            _set(weights, True)


def _set(weights: nn.Parameter, learns: bool) -> None:
    weights.requires_grad_(learns)
    if not learns:
        weights.grad = None
