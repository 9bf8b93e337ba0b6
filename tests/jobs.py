"""Runs real jobs inside a test: the configuration tree as it is, a tiny encoder, a few rows."""

import csv
import os
import signal
from functools import cache
from pathlib import Path

import pytest
import pytorch_lightning as pl
from forks import in_a_fork
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from torch import nn

import callbacks.trainer as assembly
import train
from conf.job import JobConfig
from conf.own_classes import own_class
from juzhen.cli.program import status_of
from juzhen.data import loading
from juzhen.encoders import SentenceEncoder, load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from launch.job import read_job, register_resolvers, run_key

SMALL = (
    "dataset=[demo_sts]",
    "benchmark=none",
    "backbone=random_small",
    "logger=csv",
    "logger.progress=false",
    "debug_rows=48",
    "training.batch_size=8",
    "training.duration=6 steps",
    "optimizer.lr=1e-3",
    "evaluation.bootstrap_samples=0",
    "hardware.threads=1",
)

MINED_FOR = (
    "dataset=[demo_qmc]",
    "loss=info_nce",
    "mining=dynamic",
    "callbacks.mining.range_max=10",
    "callbacks.mining.relative_margin=null",  # with random weights all texts are close
    "callbacks.mining.every_steps=[2,1,2]",
    "evaluation.splits=[dev]",
    "debug_rows=120",
    "training.duration=10 steps",
    "training.checkpoint_every=3 steps",
)
"""A job that mines its negatives three times."""

NEWS = {"news_story": "故事小说人物", "news_sports": "足球篮球比赛", "news_tech": "手机电脑芯片"}
"""Class → words of its own, of which texts are made."""

COLUMNS = {"anchor": 0, "positive": 1, "negative": 2, "negative_2": 3}
SCORED = COLUMNS | {"score_positive": 4, "score_negative": 5, "score_negative_2": 6}
"""Column → place in the rows of `ranked_rows`."""


def ranked_rows(folder: Path, columns: dict[str, int] = SCORED, last: str = "0.5") -> tuple[str, ...]:
    """Writes rows of a query and three documents with a teacher's scores; gives the overrides that train on them."""
    lines = [
        f"问{row}\t答{row}很好\t坏{row}\t差{row}天气\t{row / 8}\t{-row}\t{last if row == 7 else 1}"
        for row in range(16)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return (
        "dataset=[simclue_rank]",
        "dataset.simclue_rank.source=local",
        "dataset.simclue_rank.rows.train=null",
        "dataset.simclue_rank.layouts.tsv.files={train: train.tsv, dev: null, test: null}",
        *(f"++dataset.simclue_rank.layouts.tsv.columns.{name}={place}" for name, place in columns.items()),
        "dataset.simclue_rank.layouts.tsv.header=false",
        f"data_dir={folder}",
        "training.duration=2 steps",
        "logger.every_steps=1",
    )


def compose_job(*overrides: str) -> DictConfig:
    """The configuration that `python train.py <overrides>` would run."""
    register_resolvers()
    with initialize_config_dir(str(train.CONFIGURATION), version_base="1.3"):
        return compose("train", overrides=list(overrides))


def typed_job(*overrides: str) -> JobConfig:
    """The same, with the types of its keys."""
    return read_job(compose_job(*overrides))


@cache
def key_of(*overrides: str) -> str:
    """The key of its run."""
    return run_key(compose_job("benchmark=none", *overrides))


def tiny_encoder(backbone: Path, **settings: object) -> SentenceEncoder:
    """An encoder of short texts with random weights."""
    settings = {"path": str(backbone), "initialize": "random", "max_length": 32} | settings
    return load_backbone(BackboneConfig(**settings), seed=0)


def module_of(backbone: Path, *overrides: str, **steps: int):
    """Its model over a tiny encoder, without losses."""
    job = typed_job("benchmark=none", "backbone=random_small", f"backbone.path={backbone}", *overrides)
    model, steps = own_class(job.model["_target_"]), {"total_steps": 1, "warmup_steps": 0} | steps
    return model(encoder=model.load_encoder(job), losses=nn.ModuleDict(), job=job, **steps)


def as_program(main, *given: object):
    """What `main` gives. Raises SystemExit, with the status of a program, where the one handler has had to speak."""
    results: list = []
    if status := status_of(lambda: results.append(main(*given))):
        raise SystemExit(status)
    return results[0]


def run_job(output_dir: Path, backbone: Path, *overrides: str) -> Path:
    """Runs one small job in this process; returns its run folder."""
    config = compose_job(*SMALL, f"output_dir={output_dir}", f"backbone.path={backbone}", *overrides)
    train.run_job(config)
    return Path(config.run_dir)


class Interrupt(pl.Callback):
    """Signals this very process when `step` optimizer steps are done."""

    def __init__(self, step: int, name: str) -> None:
        self.step, self.name = step, name

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), getattr(signal, self.name))


def _run_interrupted(output_dir: Path, backbone: Path, step: int, name: str, *overrides: str) -> None:
    # A shell that starts the tests in the background has them ignore it, and they hand that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    build = assembly.build_callbacks
    assembly.build_callbacks = lambda *given: [Interrupt(step, name), *build(*given)]
    as_program(run_job, output_dir, backbone, *overrides)


def interrupt(output_dir: Path, backbone: Path, step: int, name: str, *overrides: str) -> int:
    """The exit status of a small job that sends itself a signal after a given optimizer step."""
    return in_a_fork(_run_interrupted, output_dir, backbone, step, name, *overrides)


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a job that reads rows fails the test. A first look, before torch is loaded, is not taken."""
    monkeypatch.setattr("juzhen.data.loading.look_at_data", lambda job, **options: None)
    monkeypatch.setattr(loading, "load_examples", lambda *given, **options: pytest.fail("data were read"))


def logged(run: Path, name: str = "train/loss") -> list[float]:
    """What a run of one stage logged under a name, step after step."""
    with (run / "metrics" / "0" / "metrics.csv").open(encoding="utf-8") as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


def weights(run: Path, name: str = "model") -> bytes:
    """What the encoder of a run has learnt, bit for bit."""
    return (run / "encoder" / f"{name}.safetensors").read_bytes()
