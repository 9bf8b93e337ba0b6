"""What a Result tells of the training of a stage."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from callbacks.peak_memory import PeakMemory
from callbacks.set_counts import SetCounts
from callbacks.throughput import Throughput
from callbacks.trainer import BEST, LAST, BestOnDev
from datamodules.datamodule import Selection, SentenceDataModule
from juzhen.encoders.base_weights import parameter_counts


def describe_training(trainer: pl.Trainer, data: SentenceDataModule, *, kept_step: int) -> dict[str, Any]:
    """How long the stage that `trainer` has just fitted took, and what its best validation was.

    kept_step  the one whose weights the module holds
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
    return {
        "steps": steps,
        "planned_steps": data.total_steps,
        "steps_per_epoch": data.steps_per_epoch,
        "selected_on": data.selecting,
        "chosen_by": data.selection.in_words if best is not None else _last(data.selection),
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


def _last(selection: Selection) -> str:
    """Why the weights of the last step are kept."""
    return (
        f"the last step ({selection.in_words}: undefined at every validation)"
        if selection.sets
        else "the last step"
    )


def best_weights(trainer: pl.Trainer) -> Path | None:
    """The checkpoint with the best dev score, None when nothing was selected on, or no validation had a score."""
    for callback in trainer.callbacks:
        if isinstance(callback, BestOnDev) and callback.best_model_path:
            return Path(callback.best_model_path)
    return None
