"""All stages of a job, one after another: each is finished, or another run has trained it, or it is trained."""

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import nn

from callbacks.trainer import chosen_callbacks
from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule, Stage
from juzhen.data.leaks import SeenRows
from juzhen.data.loading import JobData, load_stages
from juzhen.encoders.resolve_path import ENCODER_FOLDER
from launch.digests import stage_digest, start_digest
from launch.job import history, plan_job
from launch.run_folder import RunFolder
from launch.run_record import described_data, remember_data
from launch.stage_run import StageRun
from launch.stage_store import POLL_SECONDS, StageStore
from lightning_modules.chosen_losses import Match
from lightning_modules.learnable import check_learnable
from lightning_modules.matching import check_augmentation, match_losses

log = logging.getLogger(__name__)


class Curriculum:
    """The stages of a job, from reading their rows to the last Result."""

    def __init__(self, job: JobConfig, settings: dict[str, Any], key: str) -> None:
        self.model = own_class(job.model["_target_"])
        self.job = job if self.model.trains else replace(job, dataset={})
        self.plans = plan_job(self.job)
        self.jobs = [plan.job for plan in self.plans]
        self.stages = [
            Stage(index, plan.name, plan.datasets, history(self.plans, index))
            for index, plan in enumerate(self.plans)
        ]
        self.settings = settings | {"model": job.model}
        self.key = key
        self.store = StageStore(self.job.schedule.store)

    def run(self, folder: RunFolder) -> None:
        """Every stage that is not finished; all rows are read and checked before the first."""
        matches = [match_losses(job) for job in self.jobs]
        for job in self.jobs:
            self.model.check_start(job)
        for callback in chosen_callbacks(self.job.callbacks):  # what is wrong is told before rows are read
            if check := getattr(callback, "check_job", None):
                check(self.job, matches)
        for stage in matches:
            check_augmentation(self.job, stage, model=self.model)
        kinds = [{name: match.kind for name, match in stage.items()} for stage in matches]
        data = load_stages(self.job, self.jobs, kinds, unscored=self.model.unscored)
        for name, reason in data[0].unscored.items():
            log.warning("%s is not scored. %s", name, reason)
        self._require_learnable(folder, matches, data)
        if not folder.is_helper:
            read = list(data[0].evaluation)
            for rows in data:
                read += rows.train.values()
            remember_data(folder.path, described_data(self.job, read))
        start, previous = self.model.load_encoder(self.jobs[0]), None
        shares = self.store.root is not None  # only then are digests worth their time
        digest = start_digest(start, self.job) if shares else ""
        seen = SeenRows(data[0].evaluation) if self.job.evaluation.without_leaks else None
        for job, stage, losses, rows in zip(self.jobs, self.stages, matches, data, strict=True):
            stage_folder = folder.stage_folder(stage.index, len(self.stages), stage.name)
            if shares:
                digest = stage_digest(digest, stage, job, losses, rows)
            if seen is not None:
                seen.learn(rows.train)  # a stage that was finished before has been learnt from too
            if not folder.is_done(stage_folder):
                encoder = start if previous is None else self._carried_on(job, previous)
                parts = (job, stage, rows, losses, encoder, stage_folder)
                # Weights to evaluate and nothing to train are no stage that anybody could share.
                store = self.store if stage.datasets else StageStore(None)
                with store.entry(digest, stage_folder, name=stage.name, is_helper=folder.is_helper) as entry:
                    StageRun(*parts, entry, self._settings(stage.index), self.key, seen).run()
            previous = stage_folder

    def _require_learnable(
        self, folder: RunFolder, matches: Sequence[Mapping[str, Match]], data: Sequence[JobData]
    ) -> None:
        """Raises UserError for a stage that could not learn anything; what it can do only in part is said on stderr."""
        for job, stage, losses, read in zip(self.jobs, self.stages, matches, data, strict=True):
            if folder.is_done(folder.stage_folder(stage.index, len(self.stages), stage.name)):
                continue
            rows = SentenceDataModule(read, stage, job=job)
            for line in check_learnable(job, rows, losses):
                if not folder.is_helper:
                    stage_name = f"stage {stage.name}: " if len(self.stages) > 1 else ""
                    print(f"warning: {stage_name}{line}", file=sys.stderr)

    def _carried_on(self, job: JobConfig, previous: Path) -> nn.Module:
        """The encoder of the stage before, as this stage's job reads it: its loss may ask for another head.

        Read from the disk also by the process that has it in memory, so that a continued run has the same.
        """
        while not RunFolder.is_done(previous):  # a helper may be here before the first process has written
            time.sleep(POLL_SECONDS)
        return self.model.load_encoder(job, folder=previous / ENCODER_FOLDER)

    def _settings(self, index: int) -> dict[str, Any]:
        """The job's configuration with the numbers that this stage really has.

        What an earlier stage has learnt with in their place is kept as `earlier`.
        """
        groups = ("loss", "training", "optimizer")
        numbers = {group: asdict(self.plans[index].job)[group] for group in groups}
        stages = self.job.schedule.stages
        by_job = [
            group
            for group in groups
            if numbers[group] != self.settings[group]
            and not all(getattr(stages.get(plan.name), group, None) for plan in self.plans[:index])
        ]
        return (
            self.settings
            | numbers
            | ({"earlier": {group: self.settings[group] for group in by_job}} if by_job else {})
        )
