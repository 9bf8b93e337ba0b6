"""Our side: the product's own modules and Trainer, with a clock beside them."""

import tempfile
import time
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
from torch import nn

from callbacks.trainer import build_trainer
from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule
from juzhen.encoders import load_backbone
from lightning_modules.base import SentenceModule
from lightning_modules.matching import build_losses
from tools.bench.device import StepClock
from tools.bench.steps import Steps
from tools.bench.work import Work


class Clock(pl.Callback):
    def __init__(self, last: int) -> None:
        self.last = last
        self.clock = StepClock()
        self.steps: Steps | None = None

    def on_train_start(self, *_: object) -> None:
        self.clock.begin()

    def on_train_batch_end(
        self, trainer: object, module: object, outputs: dict, batch: object, index: int
    ) -> None:
        self.clock.note(outputs["loss"])
        self.clock.step()
        if index + 1 == self.last:
            self.steps = self.clock.end()


def build_module(job: JobConfig, data: SentenceDataModule, work: Work | None) -> SentenceModule:
    """The model of a job on the encoder in its folder, with the losses of `work`; None: it only evaluates."""
    model: type[SentenceModule] = own_class(job.model["_target_"])
    encoder = model.load_encoder(job)
    losses = nn.ModuleDict()
    if work is not None:
        classes = {name: examples.num_classes for name, examples in data.train.items()}
        losses = build_losses(work.matches, dim=encoder.dim, num_classes=classes)
    module = model(
        encoder=encoder,
        losses=losses,
        job=job,
        total_steps=data.total_steps,
        warmup_steps=data.warmup_steps,
    )
    data.serve(module.collate, module.plan)
    return module


def train_ours(work: Work, *, seed: int) -> Steps:
    """All steps of the job, through the Trainer that train.py builds."""
    pl.seed_everything(seed, verbose=False)
    data = work.data_module()
    module = build_module(work.job, data, work)
    clock = Clock(data.total_steps)
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(work.job, data, folder=Path(folder), run_id="bench", settings={})
        trainer.callbacks.append(clock)
        trainer.fit(module, datamodule=data)
    return clock.steps


def tokenise(work: Work) -> tuple[dict[str, np.ndarray], float]:
    """Tokens per sentence of each table, and the seconds of tokenising per row of data (ours does it once)."""
    encoder = load_backbone(work.job.backbone, seed=0)
    encoder.tokenize(["warm up"])
    start, lengths = time.perf_counter(), {}
    for name, examples in work.data.train.items():
        lengths[name] = np.array([len(tokens) for tokens in encoder.tokenize(examples.sentences)])
    rows = sum(len(examples) for examples in work.data.train.values())
    return lengths, (time.perf_counter() - start) / rows
