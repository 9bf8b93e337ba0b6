"""Runs real jobs inside a test: the configuration tree as it is, a tiny encoder, a few rows."""

import csv
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

import train
from callbacks.snapshots import boot_id
from juzhen.data import loading
from launch.naming import register_resolvers

SMALL = (
    "dataset=[demo_sts]",
    "suite=none",
    "backbone=embedded",
    "logger=csv",
    "logger.progress=false",
    "debug_rows=48",
    "training.batch_size=8",
    "training.duration=6 steps",
    "optimiser.lr=1e-3",
    "evaluation.bootstrap_samples=0",
    "hardware.threads=1",
)

in_memory = pytest.mark.skipif(
    boot_id() is None or not Path("/dev/shm").is_dir(), reason="no folder in memory here"
)


def compose_job(*overrides: str) -> DictConfig:
    """The configuration that `python train.py <overrides>` would run."""
    register_resolvers()
    with initialize_config_dir(str(train.CONFIGURATION), version_base="1.3"):
        return compose("train", overrides=list(overrides))


def run_job(output_dir: Path, backbone: Path, *overrides: str) -> Path:
    """Runs one small job in this process; returns its run folder."""
    config = compose_job(*SMALL, f"output_dir={output_dir}", f"backbone.path={backbone}", *overrides)
    train.run_job(config)
    return Path(config.run_dir)


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a job that reads rows fails the test. A first look, before torch is loaded, is not taken."""
    monkeypatch.setattr("launch.first_look.look_at_data", lambda job, **options: {})
    monkeypatch.setattr(loading, "load_examples", lambda *given, **options: pytest.fail("data were read"))


def logged(run: Path, name: str = "train/loss") -> list[float]:
    """What a run of one stage logged under a name, step after step."""
    with (run / "metrics" / "0" / "metrics.csv").open(encoding="utf-8") as file:
        return [float(row[name]) for row in csv.DictReader(file) if row[name]]
