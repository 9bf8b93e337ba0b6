"""Averages of weights during training. The average is validated and saved. Training does not use it.

Lightning's WeightAveraging stores its average in whole checkpoints only. The best weights are saved without
the rest of the state, so it would keep weights that were never validated.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import pytorch_lightning as pl
import torch
from torch import Tensor

from callbacks.lightning_internals import is_between_steps
from juzhen.core.errors import require_number


class WeightAverage(pl.Callback):
    """Holds an average of all trained weights, and swaps it in for each validation and at the end.

    Memory: two more copies of the weights. Resuming is exact: average and weights are both in the checkpoint.

    Args:
        start_percent: Percent of the steps after which the average begins.
        every_steps: Steps between two averaged weights.
    """

    replaces_weights: ClassVar[bool] = True
    """In validations, so that it is called before callbacks that look at weights."""

    def __init__(self, *, start_percent: float, every_steps: int) -> None:
        require_number("start_percent", start_percent, 0, 100, open_high=True)
        require_number("every_steps", every_steps, 1)
        self.start_percent, self.every_steps = start_percent, every_steps
        self._average: dict[str, Tensor] = {}
        self._learnt: dict[str, Tensor] | None = None  # where the average is in their place
        self._count = 0
        self._seen_step = 0

    @abstractmethod
    def share(self, count: int) -> float:
        """Return the share of the newest weights in the average.

        Args:
            count: Number of averaged weights so far, with the newest, from 1.

        Returns:
            A number from 0 to 1. The average so far has the rest.
        """

    @torch.no_grad()
    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._seen_step = trainer.global_step
        self._average = {name: values.to(pl_module.device) for name, values in self._average.items()}
        self._give_back(pl_module)  # a state that was saved after a validation has the average in their place

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        self._give_back(pl_module)

    @torch.no_grad()
    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        done, start = trainer.global_step, self.start_percent / 100 * trainer.datamodule.total_steps
        if is_between_steps(trainer) or done == self._seen_step:
            return
        self._seen_step = done
        if done <= start or (done % self.every_steps and done < trainer.datamodule.total_steps):
            return
        self._count += 1
        for name, weights in _learnt_by(pl_module).items():
            if self._count == 1:
                self._average[name] = weights.detach().clone()
            else:
                self._average[name].lerp_(weights, self.share(self._count))

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn == "fit":
            self._put(pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._put(pl_module)

    @torch.no_grad()
    def _put(self, module: pl.LightningModule) -> None:
        if self._average and self._learnt is None:
            weights = _learnt_by(module)
            self._learnt = {name: values.detach().clone() for name, values in weights.items()}
            for name, values in weights.items():
                values.copy_(self._average[name])

    @torch.no_grad()
    def _give_back(self, module: pl.LightningModule) -> None:
        if self._learnt is not None:
            for name, values in _learnt_by(module).items():
                values.copy_(self._learnt[name])
            self._learnt = None

    def state_dict(self) -> dict[str, Any]:
        return {"average": self._average, "learnt": self._learnt, "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._average, self._learnt, self._count = state["average"], state["learnt"], state["count"]


def _learnt_by(module: pl.LightningModule) -> dict[str, Tensor]:
    return {name: weights for name, weights in module.named_weights() if weights.requires_grad}


class EMA(WeightAverage):
    """The exponential moving average: θ̄ ← d θ̄ + (1 − d) θ, with d the smaller of `decay` and n / (n + 9).

    n counts the averaged steps. The rise of d forgets the first weights in short trainings (Tarvainen and
    Valpola 2017, https://arxiv.org/abs/1703.01780, do so by hand. The form is TensorFlow's).

    Args:
        decay: Largest share d of the average so far, in [0, 1).
        start_percent: Percent of the steps after which the average begins.
        every_steps: Steps between two averaged weights.
    """

    def __init__(self, *, decay: float, start_percent: float, every_steps: int) -> None:
        super().__init__(start_percent=start_percent, every_steps=every_steps)
        require_number("decay", decay, 0, 1, open_high=True)
        self.decay = decay

    def share(self, count: int) -> float:
        return 1 - min(self.decay, count / (count + 9))


class SWA(WeightAverage):
    """The plain mean of the weights from a point on (Izmailov et al. 2018, https://arxiv.org/abs/1803.05407).

    The learning rate follows the optimizer's schedule. The paper holds it constant, as
    `optimizer.decay=constant` does.
    """

    def share(self, count: int) -> float:
        return 1 / count
