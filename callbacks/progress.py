"""Progress bars with words that say what is going on."""

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar


class StageProgress(TQDMProgressBar):
    """One bar for the whole stage: steps done, time left, loss and best-known dev score."""

    def __init__(self, stage: str) -> None:
        super().__init__(refresh_rate=5, leave=True)
        self.stage = stage

    def on_train_epoch_start(self, trainer: pl.Trainer, *arguments: Any) -> None:
        super().on_train_epoch_start(trainer, *arguments)
        self.train_progress_bar.set_description(f"training on {self.stage}")

    def init_validation_tqdm(self) -> Any:
        bar = super().init_validation_tqdm()
        bar.set_description("scoring dev")
        return bar

    def init_test_tqdm(self) -> Any:
        bar = super().init_test_tqdm()
        bar.set_description("scoring all sets")
        return bar

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        shown = super().get_metrics(trainer, pl_module)
        shown.pop("v_num", None)
        names = {"train/loss": "loss"}
        return {names.get(key, key.replace("dev/selection/", "dev_")): value for key, value in shown.items()}
