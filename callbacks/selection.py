"""What is chosen by the dev score, and what is done where there is none: a correlation of equal values is undefined."""

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor

BEST, LAST = "best on dev", "last step"
"""Which weights of a stage were kept, as a Result tells it."""


class BestOnDev(ModelCheckpoint):
    """Keeps the weights with the highest dev score. A validation without one keeps nothing: the last weights stay."""

    def check_monitor_top_k(self, trainer: pl.Trainer, current: Tensor | None = None) -> bool:
        if current is not None and torch.isnan(current):
            return False
        return super().check_monitor_top_k(trainer, current)


class Patience(EarlyStopping):
    """Ends training when the dev score gets no better. A validation without one tells nothing, and does not count."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        score = trainer.callback_metrics.get(self.monitor)
        if score is None or not torch.isnan(score):
            super().on_validation_end(trainer, pl_module)
