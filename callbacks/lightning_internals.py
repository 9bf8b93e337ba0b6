"""All uses of Lightning's private parts, in one place, with the reason for each."""

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.loggers import WandbLogger


def is_between_steps(trainer: pl.Trainer) -> bool:
    """True after a batch whose gradients wait for those of the next one.

    No hook reports it, and only the loop counts the last batches of a stage.

    Args:
        trainer: A trainer that fits.

    Returns:
        False after a batch with an optimizer step.
    """
    return trainer.fit_loop.epoch_loop._should_accumulate()


def is_validation_due(trainer: pl.Trainer) -> bool:
    """True if a validation follows the batch that has just ended. A checkpoint before it would lose it.

    Args:
        trainer: A trainer that fits, in `on_train_batch_end`.

    Returns:
        False if training goes on.
    """
    return bool(trainer.fit_loop.epoch_loop._should_check_val_fx(trainer.fit_loop._data_fetcher))


class FreshLogs(pl.Callback):
    """Makes Lightning forget the logged values of earlier steps.

    It would write the last value of every name again at each logged step. In a mixture a step logs the names
    of one set, and the curves of the other sets would continue without training. A step of several batches,
    which may come from several sets, keeps the values of each.
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
    """Remove a setting that Lightning always passes on, and that W&B reports as meaningless.

    Args:
        logger: It is changed in place.

    Returns:
        `logger` itself.
    """
    getattr(logger, "_wandb_init", {}).pop("anonymous", None)
    return logger
