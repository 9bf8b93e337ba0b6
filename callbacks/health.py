"""The health of the embedding space at each validation, and an alarm when it collapses."""

import json
import logging
import time
from pathlib import Path

import pytorch_lightning as pl
import torch

from conf.job import HealthConfig
from juzhen.core.errors import UserError
from lightning_modules.biencoder import BiEncoder
from lightning_modules.space import Probe, SpaceMeter

log = logging.getLogger(__name__)

HEALTH_FILE = "health.jsonl"


class SpaceHealth(pl.Callback):
    """Logs `health/…` on a fixed probe of dev pairs, and writes a line with histograms to `health.jsonl`.

    Models without embeddings are left alone. All processes measure the same, so that all stop together.

    config  what counts as collapsed, and what is done then
    folder  of the stage; the file goes on where a resumed stage left it
    """

    def __init__(self, config: HealthConfig, folder: Path, *, batch_tokens: int, seed: int) -> None:
        self.config = config
        self.path = folder / HEALTH_FILE
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.seconds = 0.0
        self._meter: SpaceMeter | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not isinstance(pl_module, BiEncoder):
            return
        dev = [one for one in trainer.datamodule.data.evaluation if one.split == "dev"]
        probe = Probe.drawn(dev, num_sentences=self.config.probe_sentences, seed=self.seed)
        if probe is not None:
            self._meter = SpaceMeter(pl_module.encoder, probe, batch_tokens=self.batch_tokens)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._meter is None or trainer.state.fn != "fit":
            return
        began = time.perf_counter()
        found = self._meter.measure() | gradient_norms(pl_module)
        pl_module.log_dict(
            {f"health/{name}": value for name, value in found.items() if value is not None},
            rank_zero_only=False,
        )
        self.seconds += time.perf_counter() - began
        if trainer.is_global_zero:
            self._write(trainer.global_step, found)
        self._judge(trainer.global_step, found)

    def _write(self, step: int, found: dict[str, float | None]) -> None:
        line = {"step": step, **found, "seconds": round(self.seconds, 4), "cosines": self._meter.histogram()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _judge(self, step: int, found: dict[str, float | None]) -> None:
        """Warns, or raises UserError, where all sentences look alike or lie in next to no directions."""
        cosine, rank = found["mean_cosine"], found["effective_rank"]
        if cosine is not None and cosine > self.config.collapse_cosine:
            symptom = (
                f"two sentences have a cosine of {cosine:.4f} on average (health.collapse_cosine="
                f"{self.config.collapse_cosine:g})"
            )
        elif rank is None or rank < self.config.collapse_rank:
            symptom = (
                f"embeddings use {0 if rank is None else rank:.1f} directions (health.collapse_rank="
                f"{self.config.collapse_rank:g})"
            )
        else:
            return
        collapsed("embeddings", step, symptom, self.config)


def gradient_norms(module: pl.LightningModule) -> dict[str, float]:
    """Mean and largest length of the gradients since the last time, before clipping; empty where none was clipped."""
    if not module.gradient_norms:
        return {}
    norms = torch.stack(list(module.gradient_norms)).float()
    module.gradient_norms.clear()
    return {"gradient_norm": norms.mean().item(), "largest_gradient_norm": norms.max().item()}


def collapsed(what: str, step: int, symptom: str, config: HealthConfig) -> None:
    """Warns that something has collapsed, or raises UserError, as `on_collapse` says."""
    message = (
        f"the {what} have collapsed at step {step}: {symptom}. Usual causes: optimiser.lr too high, a loss "
        "without negatives, or a temperature that is too high"
    )
    if config.on_collapse == "stop":
        raise UserError(f"{message}. To go on all the same: health.on_collapse=warn")
    log.warning("%s. health.on_collapse=stop would end such a run.", message)
