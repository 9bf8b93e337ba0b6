"""The health of the embedding space at each validation, and an alarm when it collapses."""

import json
import logging
import time
from typing import Any, Literal

import pytorch_lightning as pl
import torch

from callbacks.resume import stage_folder
from juzhen.core.errors import UserError
from juzhen.losses.options import number, whole_number
from lightning_modules.biencoder import BiEncoder
from lightning_modules.space import Probe, SpaceMeter

log = logging.getLogger(__name__)

HEALTH_FILE = "health.jsonl"


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
        self.probe_sentences = whole_number(f"{key}.probe_sentences", probe_sentences, low=1)
        self.collapse_cosine = number(f"{key}.collapse_cosine", collapse_cosine, low=-1.0, high=0.9999)
        self.collapse_rank = number(f"{key}.collapse_rank", collapse_rank, low=0.0)
        self.on_collapse = on_collapse
        self.seconds = 0.0
        self._meter: SpaceMeter | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not isinstance(pl_module, BiEncoder) or not trainer.datamodule.selecting:
            return
        job = pl_module.job
        dev = [one for one in trainer.datamodule.data.evaluation if one.split == "dev"]
        probe = Probe.drawn(dev, num_sentences=self.probe_sentences, seed=job.seed)
        if probe is not None:
            self._meter = SpaceMeter(pl_module.encoder, probe, batch_tokens=job.hardware.eval_batch_tokens)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._meter is None or trainer.state.fn != "fit":
            return
        began = time.perf_counter()
        found = self._meter.measure() | gradient_norms(pl_module)
        log_health(pl_module, found)
        self.seconds += time.perf_counter() - began
        if trainer.is_global_zero:
            measured = {"seconds": round(self.seconds, 4), "cosines": self._meter.histogram()}
            append_line(trainer, HEALTH_FILE, found | measured)
        self._judge(trainer.global_step, found)

    def _judge(self, step: int, found: dict[str, float | None]) -> None:
        """Warns, or raises UserError, where all sentences look alike or lie in next to no directions."""
        cosine, rank = found["mean_cosine"], found["effective_rank"]
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


def log_health(module: pl.LightningModule, found: dict[str, float | None]) -> None:
    known = {f"health/{name}": value for name, value in found.items() if value is not None}
    module.log_dict(known, rank_zero_only=False)


def append_line(trainer: pl.Trainer, name: str, values: dict[str, Any]) -> None:
    """One line of JSON with the step, in a file beside the checkpoints; a resumed stage goes on in the same file."""
    with (stage_folder(trainer) / name).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": trainer.global_step, **values}) + "\n")


def gradient_norms(module: pl.LightningModule) -> dict[str, float]:
    """Mean and largest length of the gradients since the last time, before clipping; empty where none was clipped."""
    if not module.gradient_norms:
        return {}
    norms = torch.stack(list(module.gradient_norms)).float()
    module.gradient_norms.clear()
    return {"gradient_norm": norms.mean().item(), "largest_gradient_norm": norms.max().item()}


def collapsed(what: str, step: int, symptom: str, *, key: str, then: str) -> None:
    """Warns that something has collapsed, or raises UserError where `then`, the callback's `on_collapse`, is stop."""
    message = (
        f"the {what} have collapsed at step {step}: {symptom}. Usual causes: optimizer.lr too high, a loss "
        "without negatives, or a temperature that is too high"
    )
    if then == "stop":
        raise UserError(f"{message}. To go on all the same: {key}.on_collapse=warn")
    log.warning("%s. %s.on_collapse=stop would end such a run.", message, key)
