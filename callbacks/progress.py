"""Progress bars with words that say what is going on."""

import sys
from contextlib import redirect_stdout
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar


class StageProgress(TQDMProgressBar):
    """One bar for the whole stage: steps done, time left, loss and best-known dev score.

    It is shown on stderr: stdout is for results, and who reads those may be gone before they come.
    """

    def __init__(self, stage: str) -> None:
        super().__init__(refresh_rate=5, leave=True)
        self.stage = stage

    @property
    def train_description(self) -> str:
        return f"training on {self.stage}"

    @property
    def validation_description(self) -> str:
        return "scoring dev"

    @property
    def test_description(self) -> str:
        return "scoring all sets"

    def init_train_tqdm(self) -> Any:
        with redirect_stdout(sys.stderr):  # Lightning's bars take what is stdout when they begin
            return super().init_train_tqdm()

    def on_train_epoch_start(self, trainer: pl.Trainer, *arguments: Any) -> None:
        super().on_train_epoch_start(trainer, *arguments)
        self.train_progress_bar.set_description(self.train_description)  # instead of "Epoch 0", the only one

    def init_validation_tqdm(self) -> Any:
        with redirect_stdout(sys.stderr):
            return super().init_validation_tqdm()

    def init_test_tqdm(self) -> Any:
        with redirect_stdout(sys.stderr):
            bar = super().init_test_tqdm()
        bar.set_description(self.test_description)
        return bar

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        shown = super().get_metrics(trainer, pl_module)
        shown.pop("v_num", None)
        names = {"train/loss": "loss"}
        return {names.get(key, key.replace("dev/selection/", "dev_")): value for key, value in shown.items()}
