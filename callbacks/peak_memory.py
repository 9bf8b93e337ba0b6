"""How much memory training took."""

import pytorch_lightning as pl
import torch

from juzhen.core import memory


class PeakMemory(pl.Callback):
    """The most memory that was taken from the first step to the last, validations included, in this session.

    mib  of the CUDA device that trains, else of the whole process; None before the end of training
    """

    def __init__(self) -> None:
        self.mib: float | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        forget_peak(pl_module.device)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.mib = round(peak_mib(pl_module.device), 1)


def forget_peak(device: torch.device) -> None:
    """From now on `peak_mib` looks at what comes, where the system can forget: several runs may share a process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    memory.forget_peak()


def peak_mib(device: torch.device) -> float:
    """Most memory taken so far, in MiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return memory.peak_mib()
