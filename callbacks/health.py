"""Health of embeddings, scores and gradients during training, with alarms."""

import json
import logging
import math
import os
import time
from collections import deque
from typing import Annotated, Any, Literal

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from callbacks.resume import stage_folder
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.core.schema import validated
from juzhen.data.loading import Probe
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.tokens import batches_by_length
from juzhen.losses.arguments import Cosine, Count, Range, Weight
from juzhen.metrics.correlation import POSITIVE_ABOVE, score_distribution
from juzhen.metrics.geometry import measure_space, score_histograms, unit
from lightning_modules.base import SentenceModule
from lightning_modules.biencoder import BiEncoder

log = logging.getLogger(__name__)

HEALTH_FILE = "health.jsonl"
NUM_BINS = 40


class SpaceMeter:
    """Measures one encoder's embedding space on a probe, repeatedly during training.

    Args:
        encoder: The encoder in training. It is read at each measurement.
        probe: Sentences and pairs of them, with grades.
        batch_tokens: Tokens of a batch.
    """

    def __init__(self, encoder: SentenceEncoder, probe: Probe, *, batch_tokens: int) -> None:
        self._encoder = encoder
        self._probe = probe
        table = encoder.tokenize(probe.sentences)
        self._batches = [
            (rows, table[rows]) for rows in batches_by_length(table.lengths, batch_tokens=batch_tokens)
        ]

    def measure(self) -> dict[str, float | None]:
        """Measure the embeddings of the probe.

        Returns:
            Name → number. None if it is undefined for this probe.

        Raises:
            UserError: An embedding holds NaN or infinity.
        """
        self._embeddings = np.empty((len(self._probe.sentences), self._encoder.dim), dtype=np.float32)
        for rows, token_lists in self._batches:
            self._embeddings[rows] = self._encoder.infer(self._encoder.collate(token_lists))
        if not np.isfinite(self._embeddings).all():
            raise UserError(
                "the embeddings of dev sentences are not finite: training has left the range of the precision. "
                "Lower optimizer.lr, or type hardware.precision=32-true instead of 16 bits"
            )
        pairs, grades = self._probe.pairs, self._probe.grades
        spread = score_summary(self._cosines(), grades, called="cosine")
        return measure_space(self._embeddings, pairs=pairs, grades=grades) | spread

    def histogram(self) -> dict[str, list[float]]:
        """Count the last measured cosines of positive and of other pairs in bins.

        Returns:
            `edges` of the bins, and counts of `positives` and `negatives`.
        """
        return _score_counts(self._cosines(), self._probe.grades, low=-1, high=1)

    def _cosines(self) -> np.ndarray:
        first, second = unit(self._embeddings)[self._probe.pairs]
        return np.einsum("rd,rd->r", first, second)


class SpaceHealth(pl.Callback):
    """Logs `health/…` on a fixed probe of dev pairs, and writes a line with histograms to `health.jsonl`.

    It skips models without embeddings. All processes measure the same, so that all stop together.

    Args:
        probe_sentences: Number of dev sentences in the probe.
        collapse_cosine: Alarm if the mean cosine of two sentences is larger than this.
        collapse_rank: Alarm if embeddings use fewer directions than this (effective rank).
        on_collapse: warn, or stop, which ends the run at an alarm.
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
        values = self._meter.measure() | _gradient_norms(pl_module)
        _log_health(pl_module, values)
        self.seconds += time.perf_counter() - began
        if trainer.is_global_zero:
            measured = {"seconds": round(self.seconds, 4), "cosines": self._meter.histogram()}
            append_line(trainer, HEALTH_FILE, values | measured)
        self._judge(trainer.global_step, values)

    def _judge(self, step: int, values: dict[str, float | None]) -> None:
        """Warn, or raise UserError, if all sentences have similar embeddings or span almost no directions."""
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
        _collapsed("embeddings", step, symptom, key="callbacks.space_health", then=self.on_collapse)


def score_summary(scores: np.ndarray, grades: np.ndarray, *, called: str) -> dict[str, float | None]:
    """Return `score_distribution`, the mean score of positives, that of other pairs, and their gap.

    A mean is None without positives, or without other pairs.

    Args:
        scores: A score of each pair, higher = closer.
        grades: Grade of each pair, 0 to 1. Pairs above POSITIVE_ABOVE are positive.
        called: Name of scores in the keys: score or cosine.

    Returns:
        `<called>_<number>` → value.
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


def _score_counts(
    scores: np.ndarray, grades: np.ndarray, *, low: float, high: float
) -> dict[str, list[float]]:
    """Count scores of positive and of other pairs in NUM_BINS bins from `low` to `high`."""
    edges, positives, negatives = score_histograms(scores, grades, num_bins=NUM_BINS, low=low, high=high)
    return {
        "edges": edges.round(6).tolist(),
        "positives": positives.tolist(),
        "negatives": negatives.tolist(),
    }


def _log_health(module: pl.LightningModule, values: dict[str, float | None]) -> None:
    defined = {f"health/{name}": value for name, value in values.items() if value is not None}
    module.log_dict(defined, rank_zero_only=False)


def append_line(trainer: pl.Trainer, name: str, values: dict[str, Any]) -> None:
    """Append one line of JSON with the step to a file next to the checkpoints. Resumed stages continue it.

    A number that is not finite becomes null, since JSON has none.

    Args:
        trainer: Its ResumePoint knows the folder of the stage.
        name: File name, such as health.jsonl.
        values: Key → value that JSON can hold. `step` is added.
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


def _gradient_norms(module: pl.LightningModule) -> dict[str, float]:
    """Return mean and largest gradient norm since the last call, before clipping. Empty without any."""
    if not module.gradient_norms:
        return {}
    norms = torch.stack(list(module.gradient_norms)).float()
    module.gradient_norms.clear()
    return {"gradient_norm": norms.mean().item(), "largest_gradient_norm": norms.max().item()}


def _collapsed(subject: str, step: int, symptom: str, *, key: str, then: str) -> None:
    """Warn of a collapse, or raise UserError if `then`, the callback's `on_collapse`, is stop."""
    message = (
        f"the {subject} have collapsed at step {step}: {symptom}. Usual causes: optimizer.lr too high, a loss "
        "without negatives, or a temperature that is too high"
    )
    if then == "stop":
        raise UserError(f"{message}. To continue with a warning: {key}.on_collapse=warn")
    log.warning("%s. %s.on_collapse=stop would end such a run.", message, key)


SCORES_FILE = "scores.jsonl"


class ScoreHealth(pl.Callback):
    """Logs `score_summary` of the dev pairs that choose a checkpoint, with histograms in `scores.jsonl`.

    It uses the scores of a validation and computes nothing more. `callbacks.health.SpaceHealth` covers pairs
    whose score is the cosine of two embeddings.

    Args:
        collapse_spread: Alarm if the standard deviation of scores is below this.
        on_collapse: warn, or stop, which ends the run at an alarm.
    """

    def __init__(self, *, collapse_spread: float, on_collapse: Literal["warn", "stop"]) -> None:
        self.collapse_spread = validated(Weight, collapse_spread, "callbacks.score_health.collapse_spread")
        self.on_collapse = on_collapse

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: SentenceModule) -> None:
        if trainer.state.fn != "fit" or pl_module.scores_by_cosine:
            return
        plan = trainer.datamodule.validation_plan
        graded = [
            (scores, examples.grades())
            for examples, scores in zip(plan.sets, pl_module.pair_scores(plan), strict=True)
            if examples.grades() is not None
        ]
        if not graded:
            return
        scores, grades = (np.concatenate(parts) for parts in zip(*graded, strict=True))
        values = score_summary(scores, grades, called="score") | _gradient_norms(pl_module)
        _log_health(pl_module, values)
        if trainer.is_global_zero:
            low, high = float(scores.min()), float(scores.max())
            # Bins need a width, also where all scores are the same.
            counts = _score_counts(scores, grades, low=low, high=max(high, low + self.collapse_spread))
            append_line(trainer, SCORES_FILE, values | {"scores": counts})
        self._judge(trainer.global_step, values)

    def _judge(self, step: int, values: dict[str, float | None]) -> None:
        """Warn, or raise UserError, if a model gives all pairs the same score."""
        spread = values["score_variance"] ** 0.5
        if spread < self.collapse_spread:
            symptom = (
                f"they deviate by {spread:.2g} (callbacks.score_health.collapse_spread={self.collapse_spread:g}) from "
                f"{values['score_mean']:.3g}, whatever the pair"
            )
            _collapsed("scores", step, symptom, key="callbacks.score_health", then=self.on_collapse)


READINGS = 5
"""A warning needs the mean of so many readings of one set to lie outside the range."""


class LossGradient(pl.Callback):
    """Logs `train/<set>/loss_gradient` at some steps: the gradient of the loss before any layer changes it.

    Of embeddings it is √ Σ_i (‖u_i‖ · ‖∂L/∂u_i‖)², over the encoded sentences of the batch. Each distinct
    sentence counts once in each process that has it. Of scores and logits it is √ Σ_i ‖∂L/∂s_i‖², over the
    rows of the batch.

    (The notes on CoSENT, equation 45, and a range of 0.1 to 10. There u has length 1. The factor ‖u_i‖ makes
    the number independent of the length of embeddings, since cosines do not change with it.) Only ranking
    losses such as CoSENT (`Loss.is_ranking`) are checked against the range. The gradient of a mean over rows
    is 1/√rows as large and has no such range.

    It is read at the logged steps (`logger.every_steps`) that compare something. There the gradient is kept
    and leaves the device.

    Args:
        low: Lower end of the range without a warning.
        high: Upper end of that range.
    """

    def __init__(self, *, low: float, high: float) -> None:
        self.low, self.high = validated(Range, [low, high], "callbacks.loss_gradient.[low,high]")
        self._readings: dict[str, deque[float]] = {}
        self._told: set[str] = set()
        self._task: str | None = None

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, index: int
    ) -> None:
        # The step whose values Lightning logs.
        is_due = (trainer.global_step + 1) % trainer.log_every_n_steps == 0
        is_due &= batch.compares  # else the gradient is 0, and says nothing of the temperature
        self._task = batch.task if is_due else None
        pl_module.watched = [] if is_due else None

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        watched, pl_module.watched = pl_module.watched, None
        if not watched:
            return
        square = sum(_square(*reading) for reading in watched)
        length = trainer.strategy.reduce(square, reduce_op="sum").sqrt().item()
        # Back to the gradient of the batch's loss, which is divided by accumulation, and scaled for float16. Each
        # process has the sum over processes, of equal losses, of the gradient of its own rows.
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        scale = 1.0 if scaler is None else scaler.get_scale()
        length *= trainer.accumulate_grad_batches / scale / trainer.world_size
        pl_module.log(f"train/{self._task}/loss_gradient", length, batch_size=1, rank_zero_only=False)
        if pl_module.losses[self._task].is_ranking:
            self._judge(self._task, length, trainer.global_step)

    def _judge(self, task: str, length: float, step: int) -> None:
        readings = self._readings.setdefault(task, deque(maxlen=READINGS))
        readings.append(length)
        mean = sum(readings) / len(readings)
        if len(readings) < READINGS or self.low <= mean <= self.high or task in self._told:
            return
        self._told.add(task)
        high = "most pairs are in order already, or loss.temperature is too high"
        reason = high if mean < self.low else "loss.temperature is too low"
        log.warning(
            f"{task}: the gradient of the loss with respect to what it reads has length {mean:.2g} at step {step}, "
            f"outside of callbacks.loss_gradient.low={self.low:g} and high={self.high:g}: {reason}."
        )


@torch.no_grad()
def _square(values: Float[Tensor, "rows *numbers"], are_embeddings: bool) -> Float[Tensor, ""]:
    """Return the squared length of the gradient of a watched tensor. Embeddings count as if of length 1."""
    gradient = values.grad.float()
    if are_embeddings:
        gradient = gradient * values.float().norm(dim=-1, keepdim=True)
    return gradient.square().sum()
