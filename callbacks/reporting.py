"""Reports of a running stage: to loggers, to the progress bar and file, and to the trial of a search."""

import logging
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger, Logger, WandbLogger

from callbacks.lightning_internals import without_anonymous
from callbacks.resume import ValidationPoints
from callbacks.trial import PRUNED_AT, PRUNER, TrialAddress, make_pruner
from conf.job import JobConfig
from datamodules.datamodule import Stage
from juzhen.core.errors import UserError
from juzhen.core.machine import wandb_problem
from juzhen.core.progress import ProgressLine
from juzhen.core.result import RunProgress
from juzhen.core.secrets import redacted

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.2
"""How often W&B writes to its file: what a kill may cost. W&B's own 15 seconds would be all steps of a short run."""


def build_loggers(
    job: JobConfig, stage: Stage, folder: Path, *, run_id: str, settings: Mapping[str, Any]
) -> list[Logger]:
    """Create the loggers of a stage.

    Args:
        job: Its `logger`, `name` and `seed` are read.
        stage: The stage. Its index and name are in the name of the W&B run.
        folder: Folder of the stage, for files of the loggers.
        run_id: Equal for equal configurations, so that a resumed run continues its W&B run.
        settings: Configuration for W&B, in plain containers only.

    Returns:
        A CSVLogger, a WandbLogger, both or neither.

    Raises:
        UserError: `logger.wandb=online` without a key or without an answer.
    """
    config, loggers = job.logger, []
    if config.csv:
        sessions = folder / "metrics"
        session = len(list(sessions.iterdir())) if sessions.exists() else 0
        loggers.append(CSVLogger(folder, name="metrics", version=str(session)))
    mode, of_all_seeds = wandb_mode(config.wandb), job.name.removesuffix(f"-s{job.seed}")
    if mode != "off":
        os.environ.setdefault("WANDB_SILENT", "true")
        wandb = WandbLogger(
            name=job.name if not stage.index else f"{job.name}/{stage.name}",
            save_dir=folder,
            project=config.project,
            entity=config.entity,
            group=config.group or of_all_seeds,
            job_type="train" if stage.datasets else "evaluate",
            tags=redacted([*config.tags, *stage.history]),
            id=run_id,
            resume="allow",
            offline=mode == "offline",
            config=redacted(settings),
            settings={"x_transaction_log_flush_interval": FLUSH_SECONDS},
        )
        loggers.append(without_anonymous(wandb))
    return loggers


def wandb_mode(mode: str) -> str:
    """Resolve `logger.wandb` to online, offline or off.

    Args:
        mode: off, offline, online or auto. `auto` is online only with a key and an answer from the server within
            seconds.

    Returns:
        online, offline or off.

    Raises:
        UserError: `online` without a key or without an answer. W&B itself would block for minutes.
    """
    if mode in ("off", "offline"):
        return mode
    problem = wandb_problem()
    if problem and mode == "online":
        raise UserError(f"logger.wandb=online: {problem}. Fix that, or use logger.wandb=offline.")
    if problem:
        log.info("W&B offline: %s", problem)
    return "offline" if problem else "online"


def finish_wandb() -> None:
    """End the W&B run of this process, so that the next job of a multirun gets a new one."""
    wandb = sys.modules.get("wandb")  # a job that did not log there has not loaded it, which takes seconds
    if wandb is not None and wandb.run is not None:
        wandb.finish()


SECONDS = 5.0
"""Between two states of the file."""


class StageProgress(pl.Callback):
    """One line for a stage, with steps, loss, dev score and the time left, and one for its final evaluation.

    Args:
        stage: Name of the stage, for the line.
        monitor: Logged key of the dev score.
        shown: Show the line.
        folder: Folder of the run, for the progress file.
    """

    def __init__(self, stage: str, *, monitor: str, folder: Path, shown: bool) -> None:
        self.stage, self.monitor, self.folder, self.shown = stage, monitor, folder, shown
        self.line: ProgressLine | None = None
        self.loss: torch.Tensor | None = None
        self.dev: float | None = None
        self.best: float | None = None
        self.scoring = ""
        self.has_trained = False
        self._done, self._total, self._work, self._written = 0, 0, "", 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.best = _best_score(trainer)
        self.has_trained = True
        done, total = trainer.global_step, trainer.datamodule.total_steps
        self._begin(trainer, f"training on {self.stage}", total, done=done, unit="steps")

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any) -> None:
        self.loss = pl_module.step_loss
        self._update(trainer.global_step)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.scoring = "scoring dev"
        self._update(self._done)

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        index: int,
        *loader: Any,
    ) -> None:
        self.scoring = f"scoring dev {index + 1}/{sum(trainer.num_val_batches)}"
        self._update(self._done)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.scoring = ""
        score = trainer.callback_metrics.get(self.monitor)
        if score is not None and math.isfinite(score):
            self.dev = float(score)
            self.best = max(self.dev, -math.inf if self.best is None else self.best)
        self._update(self._done)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._close()

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trains = bool(trainer.datamodule.train) and not self.has_trained
        work = "scoring all sets" + (" before training" if trains else "")
        self._begin(trainer, work, sum(trainer.num_test_batches))

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        index: int,
        *loader: Any,
    ) -> None:
        self._update(index + 1)

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._close()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def _begin(self, trainer: pl.Trainer, work: str, total: int, *, done: int = 0, unit: str = "") -> None:
        self._close()
        self._work, self._total, self._done = work, total, done
        self.scoring = ""
        if trainer.is_global_zero:
            self.line = ProgressLine(work, total, done=done, unit=unit, stays=bool(unit), shown=self.shown)
            self._write()

    def _update(self, done: int) -> None:
        self._done = done
        if self.line is None:
            return
        self.line.update(done, self._note)
        if time.monotonic() - self._written > SECONDS:
            self._write()

    def _note(self, wide: bool) -> str:
        """Return loss and dev score. Numbers of a GPU are awaited only if the line is shown."""
        if not self._work.startswith("training"):
            return ""
        parts = [] if self.loss is None else [f"loss {float(self.loss):#.4g}"]
        if self.scoring:
            return " ".join([*parts, self.scoring])
        parts += [] if self.dev is None else [f"dev {100 * self.dev:.1f}"]
        if self.best is not None and self.best != self.dev and (wide or self.dev is None):
            parts.append(f"best {100 * self.best:.1f}")
        return " ".join(parts)

    def _write(self) -> None:
        self._written = time.monotonic()
        if self.line is not None:
            loss, seconds = None if self.loss is None else float(self.loss), self.line.seconds_left
            state = RunProgress(self._work, self._done, self._total, loss, self.dev, self.best, seconds)
            state.write(self.folder)

    def _close(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None


def _best_score(trainer: pl.Trainer) -> float | None:
    """Return the best dev score of an earlier attempt, as restored from its checkpoint."""
    for callback in trainer.checkpoint_callbacks:
        score = getattr(callback, "best_model_score", None)
        if isinstance(callback, ModelCheckpoint) and score is not None:
            return float(score)
    return None


class PruneOnDev(Checkpoint):
    """Reports `monitor` to a trial after each validation. Stops training when the trial's pruner decides so.

    It counts validations, not steps. Trials with different batch sizes are then compared after equal shares
    of their training. The last validation is reported, too, but never stops a run.

    It is a Checkpoint, and comes after ResumePoint, so that a user can resume a pruned run.

    Args:
        address: The trial of this run.
        monitor: Logged key of the dev score.
    """

    def __init__(self, address: TrialAddress, *, monitor: str) -> None:
        self.address = address
        self.monitor = monitor
        self.pruned_at: int | None = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if stage != "fit" or not trainer.is_global_zero:
            return
        import optuna

        self._storage = self.address.open()
        self._study = optuna.load_study(study_name=self.address.study, storage=self._storage)
        study = self._storage.get_study_id_from_name(self.address.study)
        self._trial = self._storage.get_trial_id_from_study_id_trial_number(study, self.address.number)
        described = self._study.user_attrs.get(PRUNER)
        self._study.pruner = make_pruner(described, journal=self.address.journal)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        interval = next(
            callback for callback in trainer.callbacks if isinstance(callback, ValidationPoints)
        ).every_steps
        validation = -(-trainer.global_step // interval)
        score = float(trainer.callback_metrics[self.monitor])
        is_last = trainer.should_stop or trainer.global_step >= pl_module.total_steps
        prune = trainer.is_global_zero and self._report(validation, score) and not is_last
        if prune:
            self._storage.set_trial_user_attr(self._trial, PRUNED_AT, validation)
        if trainer.strategy.broadcast(prune):
            self.pruned_at = validation
            trainer.should_stop = True

    def _report(self, validation: int, score: float) -> bool:
        """Return True if the pruner would end the trial. An abandoned trial gets no report.

        A validation without a score (`callbacks/trainer.py`) is not reported either.
        """
        trial = self._storage.get_trial(self._trial)
        if trial.state.is_finished() or math.isnan(score):
            return False
        if validation not in trial.intermediate_values:  # a continued run validates again
            self._storage.set_trial_intermediate_value(self._trial, validation, score)
        return self._study.pruner.prune(self._study, self._storage.get_trial(self._trial))


def pruning(job: JobConfig, folder: Path, *, monitor: str) -> list[PruneOnDev]:
    """Build the callback of a run in a search.

    Args:
        job: Its `trial` and `run_dir` are read.
        folder: Folder of the stage. The folder of the last stage is `run_dir`.
        monitor: Logged key that is reported to the trial.

    Returns:
        One callback. [] for a run outside a search, and for stages before the last.
    """
    if job.trial is None or folder != Path(job.run_dir):
        return []
    return [PruneOnDev(TrialAddress.parse(job.trial), monitor=monitor)]


def leave_if_pruned(trainer: pl.Trainer) -> None:
    """Exit with status 0 and without a result if a search has ended this run, according to its trial.

    Args:
        trainer: The trainer after `fit`. Nothing happens without a PruneOnDev that stopped it.

    Raises:
        SystemExit: A search has ended this run.
    """
    for callback in trainer.callbacks:
        if isinstance(callback, PruneOnDev) and callback.pruned_at is not None:
            finish_wandb()
            trial = f"trial {callback.address.number} of {callback.address.study}"
            print(f"pruned after validation {callback.pruned_at}: {trial}", file=sys.stderr)
            sys.exit(0)
