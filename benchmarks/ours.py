"""Our side: the product's own modules and Trainer, with a clock beside them."""

import tempfile
import time
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
from hydra import compose, initialize_config_dir
from transformers import AutoTokenizer

import train as suite
from benchmarks.measure import StepClock, device
from benchmarks.table import PRECISIONS
from benchmarks.work import MAX_LENGTH, OPTIMIZER, Rows, Work
from callbacks.trainer import build_trainer
from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule, only_stage
from juzhen.core.errors import UserError
from juzhen.data.loading import JobData, load_job_data
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.pooling import unit
from launch.job import read_job, register_resolvers
from lightning_modules.loss_factory import build_losses, match_losses

HARDWARE = {"cpu": "cpu", "cuda": "cuda", "mps": "mps_m4"}
MODELS = {"bce": "crossencoder", "distill_mse": "distill"}


@lru_cache(maxsize=2)
def read(work: Work) -> tuple[JobConfig, JobData]:
    """The job of a work and its sets, cut to whole batches: the other side has no shorter ones in between."""
    overrides = [
        f"model={MODELS.get(work.loss, 'biencoder')}", f"loss={work.loss}", f"dataset=[{','.join(work.datasets)}]",
        "backbone=local", f"backbone.path={work.folder}", f"backbone.max_length={MAX_LENGTH}", "benchmark=none",
        f"training.batch_size={work.batch_size}", f"training.duration={work.steps} steps", "evaluation.splits=[]",
        "training.checkpoint_every=1000000 steps", "optimizer.warmup=0 steps", "optimizer.decay=linear",
        *(f"optimizer.{key}={list(value) if key == 'betas' else value}" for key, value in OPTIMIZER.items()),
        f"hardware={HARDWARE[device()]}", f"hardware.precision={PRECISIONS[work.precision]}",
        "logger.progress=false", "logger.csv=false", "logger.wandb=off", "cache_dir=null",
    ]  # fmt: skip
    if work.teacher is not None:
        overrides += [f"model.teacher={work.teacher}", "model.center=0", "model.projection=pca"]
        overrides += [f"cache_dir={work.folder.with_name('cache')}"]
    register_resolvers()
    with initialize_config_dir(str(suite.CONFIGURATION), version_base="1.3"):
        job = read_job(compose("train", overrides=overrides))
    data = load_job_data(job, {name: match.kind for name, match in match_losses(job).items()})
    for name, examples in data.train.items():
        if len(examples) < work.batch_size:
            raise UserError(f"{name} has {len(examples)} rows, less than a batch of {work.batch_size}")
        data.train[name] = examples.select(np.arange(len(examples) // work.batch_size * work.batch_size))
    return job, data


def rows_of(work: Work) -> Rows:
    """All batches in order, for the other side: texts, targets or vectors of the teacher, weights of the head."""
    job, data = read(work)
    stream = SentenceDataModule(data, only_stage(work.datasets), job=job).stream
    parts = [data.train[batch.task].select(batch.rows) for batch in stream]
    texts = [{name: part.texts(name) for name in part.columns} for part in parts]
    columns = {name: [text for part in texts for text in part[name]] for name in texts[0]}
    tokenizer, start, lengths = AutoTokenizer.from_pretrained(work.folder), time.perf_counter(), []
    for part in texts:
        inputs = [*part.values()] if work.loss == "bce" else [list({*chain(*part.values())})]
        lengths += map(len, tokenizer(*inputs, truncation=True, max_length=MAX_LENGTH)["input_ids"])
    seconds, head = (time.perf_counter() - start) / (work.steps * work.batch_size), None
    if work.teacher is not None:
        vectors = SentenceEncoder.load(work.teacher).encode(columns["text"], show_progress=False)
        columns["label"] = unit(vectors.astype(np.float16).astype(np.float32)).tolist()  # as ours keeps them
    elif parts[0].targets is not None:
        columns["score"] = [float(target) for part in parts for target in part.targets]
    if work.loss == "bce":
        weights = own_class(job.model["_target_"]).load_encoder(job).head.state_dict()
        head = {name: tensor.numpy() for name, tensor in weights.items()}
    return Rows(columns, head, lengths, seconds)


def train(work: Work, rows: Rows, *, seed: int) -> StepClock:
    """All steps of a work, through the Trainer that train.py builds."""
    job, data = read(work)
    if work.micro_rows is not None:  # as many tokens as so many sentences have on average
        job.hardware.micro_batch_tokens = max(1, round(work.micro_rows * float(np.mean(rows.lengths))))
    pl.seed_everything(seed, verbose=False)
    clock = StepClock(work.steps)
    batches = SentenceDataModule(data, only_stage(work.datasets), job=job)
    model, classes = (
        own_class(job.model["_target_"]),
        {name: data.train[name].num_classes for name in data.train},
    )
    encoder = model.load_encoder(job)
    losses = build_losses(match_losses(job), dim=encoder.dim, num_classes=classes)
    steps = {"total_steps": batches.total_steps, "warmup_steps": batches.warmup_steps}
    module = model(encoder=encoder, losses=losses, job=job, **steps)
    batches.serve(module.collate, module.plan)
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(job, batches, folder=Path(folder), run_id="bench", settings={})
        hooks = {"on_train_batch_end": lambda trainer, module, step, *_: clock.record(step["loss"])}
        trainer.callbacks.append(pl.callbacks.LambdaCallback(**hooks))
        trainer.fit(module, datamodule=batches)
    return clock
