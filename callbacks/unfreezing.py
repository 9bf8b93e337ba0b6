"""Weights that learn later than others: heads first, then layers from the top."""

from typing import Any

import pytorch_lightning as pl
from torch import nn

from conf.duration import Duration
from juzhen.core.errors import UserError
from juzhen.training.optimizer import depths_below_top, layer_of


class Unfreezing(pl.Callback):
    """Keeps layers as they are until their time comes; a function of the optimizer step, so that it can be resumed.

    At step t of T, where H is `head_warmup` and U is `layer_every`, both as steps: for t < H only what is no part of the
    backbone learns (Kumar et al. 2022, https://arxiv.org/abs/2202.10054, section 4, who train the head to its end
    first). Then the last layer learns, too, and with every U steps the one below; where U is 0, all of them at once.
    (Howard and Ruder 2018, https://arxiv.org/abs/1801.06146, section 3.3, one layer with each epoch) Embeddings of
    tokens come last, together with the first layer. What is frozen has no gradient: neither momentum nor weight decay
    moves it, and below the lowest layer that learns nothing is computed on the way back.

    Logs `train/layers`, how many layers learn. Raises UserError before the first step where nothing could learn.
    """

    def __init__(self, *, head_warmup: str, layer_every: str) -> None:
        self.head_warmup, self.layer_every = (
            Duration.parse(text, f"callbacks.unfreezing.{key}")
            for key, text in (("head_warmup", head_warmup), ("layer_every", layer_every))
        )
        if not self.head_warmup.amount + self.layer_every.amount:
            raise UserError(
                "callbacks.unfreezing.head_warmup=0 steps, layer_every=0 steps: nothing would be frozen; type "
                "callbacks.unfreezing.layer_every='100 steps', or leave the callback out"
            )

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data = trainer.datamodule
        self._head_steps, self._layer_steps = (
            data.in_steps(str(duration), f"callbacks.unfreezing.{key}", total_steps=data.total_steps)
            if duration.amount
            else 0
            for key, duration in (("head_warmup", self.head_warmup), ("layer_every", self.layer_every))
        )
        if trainer.world_size > 1:
            raise UserError(
                "callbacks.unfreezing: several processes wait for the gradient of each weight; type "
                "hardware.strategy=auto hardware.devices=1, or leave the callback out"
            )
        named = {name: weights for name, weights in pl_module.named_parameters() if weights.requires_grad}
        depths = depths_below_top(named)
        self._count = max(depth for depth in depths.values())
        inside = {name for name in named if layer_of(name) is not None}
        # Token embeddings lie below the first layer, and learn with it.
        self._depths = {name: min(depths[name], self._count - 1) for name in inside}
        self._weights = named
        if self._head_steps and len(inside) == len(named):
            raise UserError(
                "callbacks.unfreezing.head_warmup: nothing lies above the layers, so that nothing could learn; type "
                "callbacks.unfreezing.head_warmup='0 steps', or choose a loss with a head, such as loss=softmax"
            )
        self._apply(trainer, pl_module)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        self._apply(trainer, pl_module)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        learning = float(self.learning(trainer.global_step))
        pl_module.log("train/layers", learning, batch_size=1, rank_zero_only=False)

    def learning(self, step: int) -> int:
        """How many layers learn in the step that follows `step` steps, from the top."""
        if step < self._head_steps:
            return 0
        if not self._layer_steps:
            return self._count
        return min(1 + (step - self._head_steps) // self._layer_steps, self._count)

    def _apply(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
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
