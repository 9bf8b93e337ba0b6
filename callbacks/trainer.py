"""Trainer of a stage with its callbacks, and the training facts of its Result: time, memory, rows, best validation."""

import logging
import math
import time
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
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
from callbacks.resume import AtomicCheckpointIO, ResumePoint, ValidationPoints, damaged
from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule
from juzhen.core import machine
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.encoders.base_weights import parameter_counts
from lightning_modules.sharding import Sharded


class FiniteLoss(pl.Callback):
    """Ends a training whose loss is NaN or infinite.

    On a CPU it checks every step before gradients are computed. On other devices a check costs a wait, so it
    checks every `every_steps` steps.

    Args:
        every_steps: Optimizer steps between two checks on a device that is not a CPU.

    Raises:
        UserError: Such a loss. The message names the batch.
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
        """Check the loss before its gradient is computed.

        Raises:
            UserError: The loss is NaN or infinite. The message names the rows of the batch.
        """
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

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Find the weights next to the resume point, because a run folder may have moved.

        Raises:
            UserError: They are gone.
        """

        def here(path: str) -> str:
            return str(Path(self.dirpath or "", Path(path).name)) if path else path

        best = {here(path): score for path, score in state_dict["best_k_models"].items()}
        for path in map(Path, best):
            if not path.is_file():
                raise damaged(path, FileNotFoundError())
        paths = {key: here(path) for key, path in state_dict.items() if key.endswith("_model_path")}
        super().load_state_dict(state_dict | paths | {"dirpath": self.dirpath, "best_k_models": best})

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
        job: The whole configuration.
        data: Data module of the stage.
        folder: Folder of the loggers, and of the weights unless `checkpoints` is another folder.
        checkpoints: Folder of the best weights and of the resume point. None: below `folder`.
        run_id: Id of the W&B run, equal for equal configurations.
        settings: Configuration for W&B, in plain containers only.

    Returns:
        A trainer that has not begun.
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

    Args:
        job: The whole configuration.
        data: Data module of the stage. Without training rows only logs, progress and configured callbacks are
            built.
        checkpoints: Folder of the best weights and of the resume point.

    Returns:
        Callbacks for a `pl.Trainer`.
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
    """Build the callbacks of a configuration.

    Args:
        chosen: Name → `_target_` and arguments of a callback. Nulls are left out.

    Returns:
        Callbacks in order, after those that replace weights.

    Raises:
        UserError: A bad number, or another class than a callback of juzhen.
    """
    callbacks = []
    for node in chosen.values():
        if node is not None:
            numbers = {
                key: value for key, value in node.items() if key not in ("_target_", "decides_weights")
            }
            callbacks.append(own_class(node["_target_"])(**numbers))
    # What looks at weights, or mines with them, finds the right ones in their place.
    return sorted(callbacks, key=lambda callback: not getattr(callback, "replaces_weights", False))


RECENT = 100
"""Batches of a set whose mean loss is told, and lengths of its gradient."""


class SetCounts(pl.Callback):
    """Counts batches and rows of each set, over all processes. Continues counting after a resume.

    With several sets, it logs at each logged step the share of batches and of rows of every set so far. It
    also logs the gradient norm of the step's sets over encoder and heads, before clipping. The result has the
    means of the last RECENT losses and norms, of the first process if there are several.
    """

    def __init__(self) -> None:
        self.batches: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.losses: dict[str, deque[Tensor]] = {}
        self.lengths: dict[str, deque[Tensor]] = {}
        self._is_due = False
        self._before: list[Tensor | None] = []

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, index: int
    ) -> None:
        several = len(trainer.datamodule.train) > 1
        self._is_due = several and (trainer.global_step + 1) % trainer.log_every_n_steps == 0
        self._task = batch.task

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        if self._is_due:  # what earlier batches of the step have gathered is taken off again
            self._before = [
                None if gradient is None else gradient.clone() for gradient in _gradients(pl_module)
            ]

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not self._is_due:
            return
        length = _gradient_length(_gradients(pl_module), self._before)
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        length = length * trainer.accumulate_grad_batches / (1.0 if scaler is None else scaler.get_scale())
        self._before = []
        self.lengths.setdefault(self._task, deque(maxlen=RECENT)).append(length)
        pl_module.log(f"train/{self._task}/gradient_norm", length, batch_size=1, rank_zero_only=False)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, index: int
    ) -> None:
        self.batches[batch.task] = self.batches.get(batch.task, 0) + 1
        self.rows[batch.task] = self.rows.get(batch.task, 0) + len(batch) * trainer.world_size
        if len(trainer.datamodule.train) > 1:
            self.losses.setdefault(batch.task, deque(maxlen=RECENT)).append(pl_module.set_loss)
        if self._is_due:
            shares = {
                f"train/{name}/{key}": float(counts[key])
                for name, counts in self._shares().items()
                for key in ("share_of_batches", "share_of_rows")
            }
            pl_module.log_dict(shares, batch_size=1, rank_zero_only=False)

    def state_dict(self) -> dict[str, Any]:
        return {"batches": dict(self.batches), "rows": dict(self.rows)} | {
            key: {name: torch.stack([*values]) for name, values in kept.items()}
            for key, kept in (("losses", self.losses), ("lengths", self.lengths))
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.batches, self.rows = dict(state["batches"]), dict(state["rows"])
        self.losses, self.lengths = (
            {name: deque(values.unbind(), maxlen=RECENT) for name, values in state.get(key, {}).items()}
            for key in ("losses", "lengths")
        )

    def summary(self) -> dict[str, dict[str, float]]:
        """Return set → batches, rows, and their shares of all (fractions). The most frequent set comes first.

        With several sets it includes their mean losses and gradient norms.

        Returns:
            Name of a set → name of a count → number.
        """
        shares = self._shares()
        for key, kept in (("loss", self.losses), ("gradient_norm", self.lengths)):
            for name, values in kept.items():
                numbers = torch.stack([value.cpu() for value in values]).double()
                numbers = numbers[numbers.isfinite()]  # in float16 gradients of a skipped step are infinite
                if len(numbers):
                    shares[name][key] = float(f"{numbers.mean().item():.6g}")
        return shares

    def _shares(self) -> dict[str, dict[str, float]]:
        order = sorted(self.batches, key=lambda name: (-self.batches[name], name))
        batches, rows = sum(self.batches.values()), sum(self.rows.values())
        return {
            name: {
                "batches": self.batches[name],
                "rows": self.rows[name],
                "share_of_batches": round(self.batches[name] / batches, 4),
                "share_of_rows": round(self.rows[name] / rows, 4),
            }
            for name in order
        }


def _gradients(module: pl.LightningModule) -> list[Tensor | None]:
    """Gradients of encoder and heads. A learnt set weight would be as large as all of them together."""
    return [weights.grad for _, weights in module.named_weights()]


def _gradient_length(after: Sequence[Tensor | None], before: Sequence[Tensor | None]) -> Tensor:
    """‖after − before‖ over all tensors. None counts as 0."""
    grown = [
        new if old is None else new - old for new, old in zip(after, before, strict=True) if new is not None
    ]
    return torch.nn.utils.get_total_norm(grown).detach()


class PeakMemory(pl.Callback):
    """Peak memory from the first step to the last, validations included, in this session.

    Attributes:
        mib: Peak of the CUDA device that trains, else of the whole process. None before the end of training.
        before_mib: Memory in use before the first step: libraries, rows, weights.
    """

    def __init__(self) -> None:
        self.mib: float | None = None
        self.before_mib: float | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        forget_peak(pl_module.device)
        self.before_mib = round(_taken_mib(pl_module.device), 1)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.mib = round(peak_mib(pl_module.device), 1)


def forget_peak(device: torch.device) -> None:
    """Reset the peak of `peak_mib`, if the system can. Several runs may share a process.

    Args:
        device: Device that trains. The peak of the process is reset for any device.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    machine.forget_peak()


def _taken_mib(device: torch.device) -> float:
    """Return the memory in use now, in MiB."""
    return torch.cuda.memory_allocated(device) / 2**20 if device.type == "cuda" else machine.resident_mib()


def peak_mib(device: torch.device) -> float:
    """Return the peak memory so far.

    Args:
        device: A CUDA device. For any other device the memory of the process counts.

    Returns:
        MiB.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return machine.peak_mib()


KEPT = ("rows", "train_seconds", "validation_seconds")


class Throughput(pl.Callback):
    """Counts rows and seconds of training, without validation. Continues counting after a resume."""

    def __init__(self) -> None:
        self.rows = 0
        self.train_seconds = 0.0
        self.validation_seconds = 0.0
        self._since = 0.0
        self._validation_since = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, index: int
    ) -> None:
        now = time.perf_counter()
        self.train_seconds += now - self._since
        self._since = now
        self.rows += len(batch) * trainer.world_size

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._validation_since = time.perf_counter()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        now = time.perf_counter()
        self.validation_seconds += now - self._validation_since
        self._since = now

    def state_dict(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in KEPT}

    def load_state_dict(self, state: dict[str, float]) -> None:
        for name in KEPT:
            setattr(self, name, state[name])

    def summary(self) -> dict[str, float | None]:
        """Return rows, seconds and rows per second of training, over all sessions of the stage.

        Returns:
            Name → number. `rows_per_second` is None without a batch.
        """
        return {
            "rows_seen": self.rows,
            "train_seconds": round(self.train_seconds, 2),
            "validation_seconds": round(self.validation_seconds, 2),
            "rows_per_second": round(self.rows / self.train_seconds, 1) if self.train_seconds else None,
        }


def describe_training(trainer: pl.Trainer, data: SentenceDataModule, *, kept_step: int) -> dict[str, Any]:
    """Describe the duration and the best validation of the stage that `trainer` has just fitted.

    Args:
        trainer: The trainer after `fit`.
        data: Data module of the stage.
        kept_step: Step of the weights that the module holds.

    Returns:
        `training` of a Result. {} without training rows.
    """
    if not data.train:
        return {}
    module = trainer.lightning_module
    by_type = {type(callback): callback for callback in trainer.callbacks}
    best = by_type[BestOnDev].best_model_score if BestOnDev in by_type else None
    watch, counts, memory = (by_type.get(kind) for kind in (Throughput, SetCounts, PeakMemory))
    steps = trainer.fit_loop.epoch_loop.global_step
    weights = {name: {"weight": weight} for name, weight in module.loss_weights.items()}
    facts: dict[str, Any] = {}
    for callback in trainer.callbacks:
        if hasattr(callback, "weights_at"):
            weights = callback.weights_at(kept_step, steps) or weights
        if hasattr(callback, "training_facts"):
            facts |= callback.training_facts()
    sets = counts.summary() if counts else {}
    chosen_by = data.selection.in_words if data.selection.sets else ""
    if best is None:
        chosen_by = "the last step" + f" ({chosen_by}: undefined at every validation)" * bool(chosen_by)
    return {
        "steps": steps,
        "planned_steps": data.total_steps,
        "steps_per_epoch": data.steps_per_epoch,
        "selected_on": data.selecting,
        "chosen_by": chosen_by,
        f"best_dev_{data.selection.metric}": None if best is None else float(best),
        "kept": LAST if best is None else BEST,
        **(watch.summary() if watch else {}),
        "sets": {name: of_set | weights.get(name, {}) for name, of_set in sets.items()},
        "seconds_per_step": round(watch.train_seconds / steps, 4) if watch and steps else None,
        **facts,
        "parameters": parameter_counts(weights for _, weights in module.named_weights()),
        "memory_before_mib": memory.before_mib if memory else None,
        "peak_memory_mib": memory.mib if memory else None,
    }


def best_weights(trainer: pl.Trainer) -> Path | None:
    """Find the checkpoint with the best dev score.

    Args:
        trainer: The trainer after `fit`.

    Returns:
        Its file. None without a selection or without a score.
    """
    for callback in trainer.callbacks:
        if isinstance(callback, BestOnDev) and callback.best_model_path:
            return Path(callback.best_model_path)
    return None
