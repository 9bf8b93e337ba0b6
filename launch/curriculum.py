"""All stages of a job, one after another: each is finished, or another run has trained it, or it is trained."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf
from torch import nn

from datamodules.leaks import SeenRows
from datamodules.loading import JobData, load_job_data
from datamodules.stages import Stage
from encoders.bundle import ENCODER_FOLDER
from launch.run_folder import RunFolder
from launch.stage_run import StageRun
from launch.stage_store import POLL_SECONDS, StageStore
from launch.stages import StagePlan, history, plan_job
from lightning_modules.matching import Match, match_losses
from schema.config import JobConfig
from schema.examples import Examples

NOT_PART_OF_THE_WEIGHTS = ("checkpoint_every",)
"""Numbers of `training` that change no weights."""

ALREADY_IN_THE_START = ("path", "revision", "learning_rate", "initialise")
"""Of the backbone: what the digest of the starting weights knows better, or the optimiser."""


class Curriculum:
    """The stages of a typed job, from reading their rows to the last Result."""

    def __init__(self, typed: DictConfig, settings: dict[str, Any], key: str) -> None:
        self.job: JobConfig = OmegaConf.to_object(typed)
        self.model = get_class(self.job.model["_target_"])
        if not self.model.trains:
            typed.dataset, self.job.dataset = {}, {}
        self.plans = plan_job(typed)
        self.jobs: list[JobConfig] = [OmegaConf.to_object(plan.job) for plan in self.plans]
        self.settings = settings
        self.key = key
        self.store = StageStore(self.job.schedule.store)

    def run(self, folder: RunFolder) -> None:
        """Every stage that is not finished; all rows are read and checked before the first."""
        matches = [match_losses(job) for job in self.jobs]
        data = self._load(matches)
        start, previous = self.model.load_encoder(self.jobs[0]), None
        shares = self.store.root is not None  # only then are digests worth their time
        digest = _start_digest(start, self.job) if shares else ""
        seen = SeenRows(data[0].evaluation) if self.job.evaluation.without_leaks else None
        for index, plan in enumerate(self.plans):
            job, stage = self.jobs[index], Stage(index, plan.name, plan.datasets, history(self.plans, index))
            stage_folder = folder.stage_folder(index, len(self.plans), plan.name)
            if shares:
                digest = stage_digest(digest, stage, job, matches[index], data[index])
            if seen is not None:
                seen.learn(data[index].train)  # a stage that was finished before has been learnt from too
            if not folder.is_done(stage_folder):
                encoder = start if previous is None else self._carried_on(job, previous)
                run_stage = StageRun(job, data[index], matches[index], self._settings(plan), self.key, seen)
                # Weights to evaluate and nothing to train are no stage that anybody could share.
                store = self.store if plan.datasets else StageStore(None)
                with store.entry(digest, stage_folder, name=plan.name, is_helper=folder.is_helper) as entry:
                    run_stage(stage, encoder, stage_folder, entry)
            previous = stage_folder

    def _carried_on(self, job: JobConfig, previous: Path) -> nn.Module:
        """The encoder of the stage before, as this stage's job reads it: its loss may ask for another head.

        Read from the disk also by the process that has it in memory, so that a continued run has the same.
        """
        while not RunFolder.is_done(previous):  # a helper may be here before the first process has written
            time.sleep(POLL_SECONDS)
        return self.model.load_encoder(job, folder=previous / ENCODER_FOLDER)

    def _settings(self, plan: StagePlan) -> dict[str, Any]:
        """The job's configuration with the numbers that this stage really has."""
        own = {group: OmegaConf.to_container(plan.job[group]) for group in ("loss", "training", "optimiser")}
        return self.settings | own

    def _load(self, matches: Sequence[Mapping[str, Match]]) -> list[JobData]:
        """What each stage reads. Sets are read once, except those that two stages learn from in two ways."""
        kinds = {name: match.kind for stage in reversed(matches) for name, match in stage.items()}
        shared = load_job_data(self.job, kinds, scored=self.model.scored)
        loaded = []
        for job, stage in zip(self.jobs, matches, strict=True):
            wanted = {name: match.kind for name, match in stage.items()}
            if all(kinds[name] == kind for name, kind in wanted.items()):
                loaded.append(replace(shared, train={name: shared.train[name] for name in wanted}))
            else:
                loaded.append(load_job_data(job, wanted, scored=self.model.scored))
        return loaded


def stage_digest(
    parent: str, stage: Stage, job: JobConfig, matches: Mapping[str, Match], data: JobData
) -> str:
    """Hex digits over all that decides the weights after a stage, except the code.

    parent  digest of the weights that it starts from
    """
    training = {key: one for key, one in vars(job.training).items() if key not in NOT_PART_OF_THE_WEIGHTS}
    schedule = job.schedule
    deciding = {
        "parent": parent,
        "index": stage.index,
        "seed": job.seed,
        "precision": job.hardware.precision,
        "model": job.model,
        "loss": {name: [match.kind, match.loss] for name, match in matches.items()},
        "training": training,
        "optimiser": vars(job.optimiser),
        "sampling": [
            schedule.sample_by,
            schedule.temperature,
            {name: [one.weight, one.batch_size] for name, one in schedule.sets.items()},
        ]
        if len(stage.datasets) > 1 or schedule.sets
        else [],
        "train": {name: examples_digest(data.train[name]) for name in stage.datasets},
        "selecting": [
            [one.name, examples_digest(one)] for one in data.selecting(stage.datasets, job.training.monitor)
        ],
    }
    return hashlib.sha256(json.dumps(deciding, default=str).encode()).hexdigest()


def examples_digest(examples: Examples) -> str:
    """Hex digits over rows as they are learnt from: texts, order, targets."""
    digest = hashlib.sha256(f"{examples.kind} {examples.fingerprint} {len(examples)}".encode())
    if isinstance(examples.sentences, list):
        digest.update("\n".join(examples.sentences).encode())
    for column, rows in examples.columns.items():
        digest.update(column.encode() + np.ascontiguousarray(rows).tobytes())
    if examples.targets is not None:
        digest.update(np.ascontiguousarray(examples.targets).tobytes())
    return digest.hexdigest()


def _start_digest(encoder: nn.Module | None, job: JobConfig) -> str:
    """Hex digits over the weights that a job starts from, and over how they are read."""
    backbone = {key: one for key, one in vars(job.backbone).items() if key not in ALREADY_IN_THE_START}
    digest = hashlib.sha256(json.dumps(backbone, sort_keys=True).encode())
    for name, tensor in encoder.state_dict().items() if encoder is not None else ():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
