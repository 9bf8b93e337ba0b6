"""The health of the embedding space at each validation, and an alarm when it collapses."""

import json
import logging
import math
import os
import time
from typing import Annotated, Any, Literal

import numpy as np
import pytorch_lightning as pl
import torch
from pydantic import Field

from callbacks.resume import stage_folder
from juzhen.core.errors import UserError
from juzhen.core.schema import validated
from juzhen.data.probe import Probe
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.tokens import batches_by_length
from juzhen.losses.arguments import Cosine, Count, Weight
from juzhen.metrics.correlation import POSITIVE_ABOVE, score_distribution
from juzhen.metrics.geometry import measure_space, score_histograms, unit
from lightning_modules.biencoder import BiEncoder

log = logging.getLogger(__name__)

HEALTH_FILE = "health.jsonl"
NUM_BINS = 40


class SpaceMeter:
    """Measures one encoder's space on a probe, again and again while it learns."""

    def __init__(self, encoder: SentenceEncoder, probe: Probe, *, batch_tokens: int) -> None:
        self._encoder = encoder
        self._probe = probe
        table = encoder.tokenize(probe.sentences)
        self._batches = [
            (rows, table[rows]) for rows in batches_by_length(table.lengths, batch_tokens=batch_tokens)
        ]

    def measure(self) -> dict[str, float | None]:
        """Name → number; None where one is not defined for this probe. Raises UserError for NaN and infinity."""
        self._embeddings = np.empty((len(self._probe.sentences), self._encoder.dim), dtype=np.float32)
        for rows, token_lists in self._batches:
            self._embeddings[rows] = self._encoder.infer(self._encoder.collate(token_lists))
        if not np.isfinite(self._embeddings).all():
            raise UserError(
                "the embeddings of dev sentences are no finite numbers any more: training has left what the precision "
                "can hold. Usual causes: optimizer.lr too high, or 16-bit precision (hardware.precision=32-true)"
            )
        pairs, grades = self._probe.pairs, self._probe.grades
        spread = score_summary(self._cosines(), grades, called="cosine")
        return measure_space(self._embeddings, pairs=pairs, grades=grades) | spread

    def histogram(self) -> dict[str, list[float]]:
        """Cosines of positive and of other pairs, counted in bins, as last measured."""
        return score_counts(self._cosines(), self._probe.grades, low=-1, high=1)

    def _cosines(self) -> np.ndarray:
        first, second = unit(self._embeddings)[self._probe.pairs]
        return np.einsum("rd,rd->r", first, second)


class SpaceHealth(pl.Callback):
    """Logs `health/…` on a fixed probe of dev pairs, and writes a line with histograms to `health.jsonl`.

    Models without embeddings are left alone. All processes measure the same, so that all stop together.

    probe_sentences  dev sentences that are looked at
    collapse_cosine  alarm when two of them have a larger cosine than this on average
    collapse_rank    alarm when embeddings use fewer directions than this (effective rank)
    on_collapse      warn, or stop: then the alarm ends the run
    """

    def __init__(
        self,
        *,
        probe_sentences: int,
        collapse_cosine: float,
        collapse_rank: float,
        on_collapse: Literal["warn", "stop"],
    ) -> None:
        key = "callbacks.space_health"
        self.probe_sentences = validated(Count, probe_sentences, f"{key}.probe_sentences")
        self.collapse_cosine = validated(
            Annotated[Cosine, Field(le=0.9999)], collapse_cosine, f"{key}.collapse_cosine"
        )
        self.collapse_rank = validated(Weight, collapse_rank, f"{key}.collapse_rank")
        self.on_collapse = on_collapse
        self.seconds = 0.0
        self._meter: SpaceMeter | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not isinstance(pl_module, BiEncoder) or not trainer.datamodule.selecting:
            return
        job = pl_module.job
        dev = [examples for examples in trainer.datamodule.data.evaluation if examples.split == "dev"]
        probe = Probe.drawn(dev, num_sentences=self.probe_sentences, seed=job.seed)
        if probe is not None:
            self._meter = SpaceMeter(pl_module.encoder, probe, batch_tokens=job.hardware.eval_batch_tokens)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._meter is None or trainer.state.fn != "fit":
            return
        began = time.perf_counter()
        values = self._meter.measure() | gradient_norms(pl_module)
        log_health(pl_module, values)
        self.seconds += time.perf_counter() - began
        if trainer.is_global_zero:
            measured = {"seconds": round(self.seconds, 4), "cosines": self._meter.histogram()}
            append_line(trainer, HEALTH_FILE, values | measured)
        self._judge(trainer.global_step, values)

    def _judge(self, step: int, values: dict[str, float | None]) -> None:
        """Warns, or raises UserError, where all sentences look alike or lie in next to no directions."""
        cosine, rank = values["mean_cosine"], values["effective_rank"]
        if cosine is not None and cosine > self.collapse_cosine:
            symptom = (
                f"two sentences have a cosine of {cosine:.4f} on average (callbacks.space_health.collapse_cosine="
                f"{self.collapse_cosine:g})"
            )
        elif rank is None or rank < self.collapse_rank:
            symptom = (
                f"embeddings use {0 if rank is None else rank:.1f} directions (callbacks.space_health.collapse_rank="
                f"{self.collapse_rank:g})"
            )
        else:
            return
        collapsed("embeddings", step, symptom, key="callbacks.space_health", then=self.on_collapse)


def score_summary(scores: np.ndarray, grades: np.ndarray, *, called: str) -> dict[str, float | None]:
    """What `score_distribution` gives, and the mean score of positives, of other pairs, and the gap between them.

    called  what scores are called in the names of these numbers: score, cosine

    None where there are no positives, or no others.
    """
    is_positive = grades > POSITIVE_ABOVE
    positive, negative = (
        float(scores[chosen].mean()) if chosen.any() else None for chosen in (is_positive, ~is_positive)
    )
    numbers = {
        name.removeprefix("score_"): value for name, value in score_distribution(scores, grades).items()
    }
    numbers |= {"of_positives": positive, "of_negatives": negative}
    numbers["gap"] = None if positive is None or negative is None else positive - negative
    return {f"{called}_{name}": value for name, value in numbers.items()}


def score_counts(
    scores: np.ndarray, grades: np.ndarray, *, low: float, high: float
) -> dict[str, list[float]]:
    """Scores of positive and of other pairs, counted in NUM_BINS bins from `low` to `high`."""
    edges, positives, negatives = score_histograms(scores, grades, num_bins=NUM_BINS, low=low, high=high)
    return {
        "edges": edges.round(6).tolist(),
        "positives": positives.tolist(),
        "negatives": negatives.tolist(),
    }


def log_health(module: pl.LightningModule, values: dict[str, float | None]) -> None:
    defined = {f"health/{name}": value for name, value in values.items() if value is not None}
    module.log_dict(defined, rank_zero_only=False)


def append_line(trainer: pl.Trainer, name: str, values: dict[str, Any]) -> None:
    """One line of JSON with the step, in a file beside the checkpoints; a resumed stage goes on in the same file.

    A number that is not finite is null: JSON has none.
    """
    values = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }
    path, flags = stage_folder(trainer) / name, os.O_NONBLOCK  # a pipe is not waited for
    with open(
        path,
        "a",
        encoding="utf-8",
        opener=lambda name, flags_of_open: os.open(name, flags_of_open | flags, 0o666),
    ) as file:
        file.write(json.dumps({"step": trainer.global_step, **values}) + "\n")


def gradient_norms(module: pl.LightningModule) -> dict[str, float]:
    """Mean and largest length of the gradients since the last time, before clipping; empty where none was clipped."""
    if not module.gradient_norms:
        return {}
    norms = torch.stack(list(module.gradient_norms)).float()
    module.gradient_norms.clear()
    return {"gradient_norm": norms.mean().item(), "largest_gradient_norm": norms.max().item()}


def collapsed(subject: str, step: int, symptom: str, *, key: str, then: str) -> None:
    """Warns that something has collapsed, or raises UserError where `then`, the callback's `on_collapse`, is stop."""
    message = (
        f"the {subject} have collapsed at step {step}: {symptom}. Usual causes: optimizer.lr too high, a loss "
        "without negatives, or a temperature that is too high"
    )
    if then == "stop":
        raise UserError(f"{message}. To go on all the same: {key}.on_collapse=warn")
    log.warning("%s. %s.on_collapse=stop would end such a run.", message, key)
