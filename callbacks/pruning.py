"""A run that belongs to a search tells how it does on dev, and ends early when the others do better."""

import math
import sys
from pathlib import Path

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint

from callbacks.resume import ValidationPoints
from callbacks.tracking import finish_wandb
from callbacks.trial import TrialAddress, make_pruner
from conf.job import JobConfig

PRUNER = "pruner"
"""Attribute of the study: how its pruner is made."""

PRUNED_AT = "pruned_at"
"""Attribute of the trial: the validation after which its run ended itself."""


class PruneOnDev(Checkpoint):
    """Reports `monitor` to a trial after each validation, and stops training when its pruner says so.

    Validations are counted, not steps: trials with other batch sizes are compared after the same share of their
    training. The last one is reported, too, but ends nothing that has not ended anyway.

    It is a Checkpoint, and behind ResumePoint, so that a run that is stopped here can be gone on with by hand.
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
        """True when the pruner would end the trial. A trial that the search has given up is told nothing.

        Nor is one of which this validation has no score (`callbacks/trainer.py`).
        """
        trial = self._storage.get_trial(self._trial)
        if trial.state.is_finished() or math.isnan(score):
            return False
        if validation not in trial.intermediate_values:  # a continued run validates again
            self._storage.set_trial_intermediate_value(self._trial, validation, score)
        return self._study.pruner.prune(self._study, self._storage.get_trial(self._trial))


def pruning(job: JobConfig, folder: Path, *, monitor: str) -> list[PruneOnDev]:
    """The callback of a run that belongs to a search; none for others, and for stages before the last."""
    if job.trial is None or folder != Path(job.run_dir):
        return []
    return [PruneOnDev(TrialAddress.parse(job.trial), monitor=monitor)]


def leave_if_pruned(trainer: pl.Trainer) -> None:
    """Ends the program, with status 0 and no result, when a search has ended this run, which the trial tells."""
    for callback in trainer.callbacks:
        if isinstance(callback, PruneOnDev) and callback.pruned_at is not None:
            finish_wandb()
            trial = f"trial {callback.address.number} of {callback.address.study}"
            print(f"pruned after validation {callback.pruned_at}: {trial}", file=sys.stderr)
            sys.exit(0)
