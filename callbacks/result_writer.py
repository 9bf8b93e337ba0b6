"""The Result of a stage, put together from what the run knows."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytorch_lightning as pl

from callbacks.peak_memory import PeakMemory
from callbacks.resume import ResumePoint
from callbacks.selection import BEST, LAST, BestOnDev
from callbacks.set_counts import SetCounts
from callbacks.throughput import Throughput
from conf.job import JobConfig
from datamodules.datamodule import SentenceDataModule
from juzhen.core.environment import describe_environment
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result, Score
from juzhen.data.comparisons import NUM_CANDIDATES
from juzhen.data.leaks import Seen
from juzhen.encoders.cut import Cut
from lightning_modules.base import SentenceModule


def build_result(
    job: JobConfig,
    *,
    key: str,
    settings: dict[str, Any],
    module: SentenceModule,
    data: SentenceDataModule,
    trainer: pl.Trainer,
    untrained: dict[str, Score],
    training: dict[str, Any],
    cut: Mapping[str, Cut] = MappingProxyType({}),
) -> Result:
    """Everything measured in the stage that `trainer` has just tested; `training` as `describe_training` gives it."""
    return Result(
        name=job.name,
        key=key,
        trained_on=list(data.stage.history),
        scores=module.scores | {f"{key}/{metric}": Score(None) for key, metric in data.data.absent.items()},
        untrained=untrained,
        config=settings,
        data=with_leaks(_describe_data(data, cut), module.seen),
        training=training,
        environment=describe_environment() | {"device": _device_name(module)},
        seed=job.seed,
        stage=data.stage.index,
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        transfer={task.name: task.described() for task in data.data.tasks},
        unscored=data.data.unscored,
    )


def _describe_data(data: SentenceDataModule, cut: Mapping[str, Cut]) -> dict[str, dict[str, Any]]:
    read = [(f"train/{name}", examples) for name, examples in data.train.items()]
    read += [(f"{one.split}/{one.name}", one) for one in data.data.evaluation]
    return {key: _described(one, cut.get(key)) | _ranked_among(one, data) for key, one in read}


def _described(examples: Examples, cut: Cut | None) -> dict[str, Any]:
    left_out = {} if cut is None else {"cut": asdict(cut) | {"share": round(cut.share, 6)}}
    return left_out | {
        "rows": len(examples),
        "kind": str(examples.kind),
        "dropped": examples.num_dropped,
        "leaky": examples.num_leaky,
        "fingerprint": examples.fingerprint,
    }


def _ranked_among(examples: Examples, data: SentenceDataModule) -> dict[str, Any]:
    """Of positive pairs that are scored: texts among which an anchor looks for its own, and what divides scores."""
    if examples.split == "train" or examples.kind is not Kind.POSITIVE_PAIR:
        return {}
    return {"candidates": min(NUM_CANDIDATES, len(examples)), "temperature": data.test_plan.temperature}


def with_leaks(data: dict[str, dict[str, Any]], seen: Mapping[str, Seen]) -> dict[str, dict[str, Any]]:
    """What is known of each split, and how much of it training has seen where that was looked for."""
    found = {
        key: {"leaked": {"rows": len(one.rows), "share": one.share, "by_set": dict(one.by_set)}}
        for key, one in seen.items()
    }
    return {key: described | found.get(key, {}) for key, described in data.items()}


def describe_training(trainer: pl.Trainer, data: SentenceDataModule) -> dict[str, Any]:
    """How long the stage that `trainer` has just fitted took, and what its best validation was."""
    if not data.train:
        return {}
    best = next((one.best_model_score for one in trainer.callbacks if isinstance(one, BestOnDev)), None)
    watch = next(one for one in trainer.callbacks if isinstance(one, Throughput))
    counts = next(one for one in trainer.callbacks if isinstance(one, SetCounts))
    memory = next(one for one in trainer.callbacks if isinstance(one, PeakMemory))
    snapshots = next(one for one in trainer.callbacks if isinstance(one, ResumePoint)).snapshots
    steps = trainer.fit_loop.epoch_loop.global_step
    return {
        "steps": steps,
        "planned_steps": data.total_steps,
        "steps_per_epoch": data.steps_per_epoch,
        "selected_on": data.selecting,
        "chosen_by": data.selection.in_words,
        f"best_dev_{data.selection.metric}": None if best is None else float(best),
        "kept": LAST if best is None else BEST,
        **watch.summary(),
        "sets": counts.summary(),
        "seconds_per_step": round(watch.train_seconds / steps, 4) if steps else None,
        "peak_memory_mib": memory.mib,
        "snapshots": None
        if snapshots is None
        else {"written": snapshots.written, "seconds": round(snapshots.seconds, 3)},
    }


def _device_name(module: SentenceModule) -> str:
    """What the numbers were computed on: `cpu`, `mps`, or the name of the CUDA device."""
    import torch

    if module.job.hardware.accelerator == "cuda":
        return torch.cuda.get_device_name()
    return module.job.hardware.accelerator


def best_weights(trainer: pl.Trainer) -> Path | None:
    """The checkpoint with the best dev score, None when nothing was selected on, or no validation had a score."""
    for callback in trainer.callbacks:
        if isinstance(callback, BestOnDev) and callback.best_model_path:
            return Path(callback.best_model_path)
    return None
