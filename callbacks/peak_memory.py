"""How much memory training took."""

import pytorch_lightning as pl
import torch

from juzhen.core import machine


class PeakMemory(pl.Callback):
    """The most memory that was taken from the first step to the last, validations included, in this session.

    mib         of the CUDA device that trains, else of the whole process; None before the end of training
    before_mib  what was taken before the first step: libraries, rows, weights
    """

    def __init__(self) -> None:
        self.mib: float | None = None
        self.before_mib: float | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        forget_peak(pl_module.device)
        self.before_mib = round(taken_mib(pl_module.device), 1)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.mib = round(peak_mib(pl_module.device), 1)


def forget_peak(device: torch.device) -> None:
    """From now on `peak_mib` looks at what comes, where the system can forget: several runs may share a process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    machine.forget_peak()


def taken_mib(device: torch.device) -> float:
    """Memory that is taken now, in MiB."""
    return torch.cuda.memory_allocated(device) / 2**20 if device.type == "cuda" else machine.resident_mib()


def peak_mib(device: torch.device) -> float:
    """Most memory taken so far, in MiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return machine.peak_mib()
