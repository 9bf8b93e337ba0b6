"""Trainer of a stage with its callbacks."""

import logging
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor

from callbacks import CHECKPOINTS
from callbacks.lightning_internals import FreshLogs
from callbacks.reporting import StageProgress, build_loggers, pruning
from callbacks.resume import AtomicCheckpointIO, ResumePoint, ValidationPoints
from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from lightning_modules.sharding import Sharded


class FiniteLoss(pl.Callback):
    """Raises UserError naming the batch when a loss is NaN or infinite.

    On a CPU it checks every step before gradients are computed. On other devices a check costs a wait, so it
    checks every `every_steps` steps.
    """

    def __init__(self, *, every_steps: int) -> None:
        self.every_steps = every_steps
        self._batch: Batch | None = None

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, index: int
    ) -> None:
        self._batch = batch

    def on_before_backward(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor
    ) -> None:
        if pl_module.device.type != "cpu" and trainer.global_step % self.every_steps:
            return
        if torch.isfinite(loss):
            return
        examples = trainer.datamodule.train[self._batch.task]
        rows = self._batch.rows.tolist()
        line_numbers = rows if examples.lines is None else examples.lines[rows].tolist()
        listing = ", ".join(map(str, sorted(line_numbers)[:8])) + (" …" if len(line_numbers) > 8 else "")
        raise UserError(
            f"the loss is {loss.item()} at step {trainer.global_step} on {self._batch.task} (lines {listing} of its "
            f"training file). The last checkpoint is intact. Usual causes: optimizer.lr too high, "
            f"a temperature close to 0, or 16-bit precision (hardware.precision=32-true)."
        )


HARMLESS = (
    ".isinstance.treespec, LeafSpec",  # torch talking to Lightning
    "You're resuming from a checkpoint that ended before the epoch ended",  # our stream starts where it stopped
    "Checkpoint directory .* exists and is not empty",  # that is what resuming means
    "The number of training batches .* is smaller than the logging interval",
    "It is recommended to use `self.log.*sync_dist=True",  # every process scores all rows: the values are equal
    "torch.distributed.nn.functional.all_gather is deprecated",  # Lightning talking to torch
    ".*does not have many workers which may be a bottleneck",  # rows are tokenised once, before the first step
)
"""Warnings that do not apply."""

POINTS = 20
"""Of a curve, at least, where there are as many steps: a short run is logged more often than `logger.every_steps`."""

BEST, LAST = "best on dev", "last step"
"""Which weights of a stage were kept, as a Result tells it."""


class BestOnDev(ModelCheckpoint):
    """Keeps the weights with the highest dev score. A validation without a score keeps nothing.

    Without any dev score the last weights stay.
    """

    def check_monitor_top_k(self, trainer: pl.Trainer, current: Tensor | None = None) -> bool:
        if current is not None and torch.isnan(current):
            return False
        return super().check_monitor_top_k(trainer, current)


class Patience(EarlyStopping):
    """Ends training when the dev score stops improving. A validation without a score does not count."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        score = trainer.callback_metrics.get(self.monitor)
        if score is None or not torch.isnan(score):
            super().on_validation_end(trainer, pl_module)


def build_trainer(
    job: JobConfig,
    data: SentenceDataModule,
    *,
    folder: Path,
    checkpoints: Path | None = None,
    run_id: str,
    settings: dict[str, Any],
) -> pl.Trainer:
    """Build a Trainer for one stage: one Lightning epoch over the stream of the stage.

    Args:
        folder: Folder of the loggers, and of the weights unless `checkpoints` is another folder.
    """
    _drop_harmless_messages()
    hardware, strategy = job.hardware, job.hardware.strategy
    if strategy == "ddp":
        # Processes may have different numbers of evaluation batches, and broadcasting buffers at each of them would
        # then never end; encoders have only constant ones. In a mixture a step leaves the heads of other losses unused.
        strategy = DDPStrategy(broadcast_buffers=False, find_unused_parameters=len(data.train) > 1)
    elif strategy == "fsdp":
        strategy = Sharded(hardware.processes)
    return pl.Trainer(
        accelerator=hardware.accelerator,
        devices=hardware.devices,
        num_nodes=hardware.num_nodes,
        strategy=strategy,
        precision=hardware.precision,
        max_epochs=1,
        accumulate_grad_batches=data.batches_per_step,
        limit_val_batches=1.0 if data.selecting else 0,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,  # our samplers share rows out themselves, without padding
        log_every_n_steps=_logged_every(job, data),
        enable_progress_bar=False,  # `callbacks.reporting` shows it
        enable_model_summary=False,
        plugins=[AtomicCheckpointIO(checkpoints or folder / CHECKPOINTS)],
        default_root_dir=folder,
        callbacks=[
            *build_callbacks(job, data, checkpoints or folder / CHECKPOINTS),
            *pruning(job, folder, monitor=data.selection.key),
        ],
        logger=build_loggers(job, data.stage, folder, run_id=run_id, settings=settings),
    )


def _logged_every(job: JobConfig, data: SentenceDataModule) -> int:
    """Return the optimizer steps between two logged ones. If sets take turns, each has its logged steps."""
    step = min(job.logger.every_steps, max(1, data.total_steps // POINTS))
    if data.stream.order == "in_turn" and not data.blends:
        while math.gcd(step, len(data.train)) > 1:
            step -= 1
    return step


def _drop_harmless_messages() -> None:
    """Drop advertisements, device listings and irrelevant warnings, so that other messages are visible."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    for message in HARMLESS:
        warnings.filterwarnings("ignore", message=message)


def build_callbacks(job: JobConfig, data: SentenceDataModule, checkpoints: Path) -> list[Callback]:
    """Build the callbacks of a stage in the required order.

    Configured callbacks come before the choice of checkpoints. ResumePoint comes last, since it saves the
    state of all others.
    """
    callbacks = [
        FreshLogs(),
        FiniteLoss(every_steps=job.logger.every_steps),
        *chosen_callbacks(job.callbacks),
    ]
    callbacks.append(
        StageProgress(
            data.stage.name,
            monitor=data.selection.key,
            folder=Path(job.run_dir),
            shown=job.logger.progress,
        )
    )
    if not data.train:
        return callbacks
    steps = {
        key: data.in_steps(getattr(job.training, key), f"training.{key}", total_steps=data.total_steps)
        for key in ("validate_every", "checkpoint_every")
    }
    if data.selecting:
        callbacks.append(ValidationPoints(every_steps=steps["validate_every"]))
        chosen_by = {"monitor": data.selection.key, "mode": "max"}
        if (patience := job.training.patience) is not None:
            callbacks.append(Patience(**chosen_by, patience=patience, check_on_train_epoch_end=False))
        options = {
            "save_weights_only": True,
            "save_on_train_epoch_end": False,
            "enable_version_counter": False,
        }
        callbacks.append(BestOnDev(checkpoints, "best", **chosen_by, **options))
    callbacks.append(ResumePoint(checkpoints, every_steps=steps["checkpoint_every"]))
    return callbacks


def chosen_callbacks(chosen: Mapping[str, Mapping[str, Any] | None]) -> list[Callback]:
    """Build the callbacks of a configuration in order, without nulls. Raises UserError for a bad number."""
    callbacks = []
    for node in chosen.values():
        if node is not None:
            numbers = {
                key: value for key, value in node.items() if key not in ("_target_", "decides_weights")
            }
            callbacks.append(own_class(node["_target_"])(**numbers))
    # What looks at weights, or mines with them, finds the right ones in their place.
    return sorted(callbacks, key=lambda callback: not getattr(callback, "replaces_weights", False))
