"""All that is used of what Lightning keeps to itself, in one place, with the reason for each."""

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.loggers import WandbLogger


def is_between_steps(trainer: pl.Trainer) -> bool:
    """True after a batch whose gradients wait for those of the next one.

    No hook tells it, and only the loop knows how the last batches of a stage are gathered.
    """
    return trainer.fit_loop.epoch_loop._should_accumulate()


def is_validation_due(trainer: pl.Trainer) -> bool:
    """True when a validation follows the batch that has just ended: what is saved before it would lose it."""
    return bool(trainer.fit_loop.epoch_loop._should_check_val_fx(trainer.fit_loop._data_fetcher))


class FreshLogs(pl.Callback):
    """Makes Lightning forget what earlier steps have logged.

    It would write the last value of every name again at each step that is logged. In a mixture a step logs the names of
    one set, and the curves of the others would go on although nothing was learnt of them. A step of several batches,
    which may be of several sets, keeps what each of them logs.
    """

    def __init__(self) -> None:
        self._is_new_step = True

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        if not self._is_new_step:
            return
        for metric in trainer._results.result_metrics:
            metric.has_reset = True  # until the step logs the name again

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        self._is_new_step = not is_between_steps(trainer)


def without_anonymous(logger: WandbLogger) -> WandbLogger:
    """The same logger without a setting that Lightning always passes on: W&B says of it that it means nothing."""
    getattr(logger, "_wandb_init", {}).pop("anonymous", None)
    return logger
