"""The health of scores at each validation, for models whose score is no cosine, and an alarm when all are alike."""

from typing import Literal

import numpy as np
import pytorch_lightning as pl

from callbacks.health import append_line, collapsed, gradient_norms, log_health, score_counts, score_summary
from juzhen.core.schema import validated
from juzhen.losses.arguments import Weight
from lightning_modules.base import SentenceModule

SCORES_FILE = "scores.jsonl"


class ScoreHealth(pl.Callback):
    """Logs `score_summary` of the dev pairs that choose a checkpoint, and writes it with histograms to `scores.jsonl`.

    What a validation has scored is looked at, so nothing is computed for it. Pairs whose score is the cosine of two
    embeddings are left to `callbacks.health.SpaceHealth`.

    collapse_spread  alarm when scores deviate by less than this
    on_collapse      warn, or stop: then the alarm ends the run
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
        values = score_summary(scores, grades, called="score") | gradient_norms(pl_module)
        log_health(pl_module, values)
        if trainer.is_global_zero:
            low, high = float(scores.min()), float(scores.max())
            # Bins need a width, also where all scores are the same.
            counts = score_counts(scores, grades, low=low, high=max(high, low + self.collapse_spread))
            append_line(trainer, SCORES_FILE, values | {"scores": counts})
        self._judge(trainer.global_step, values)

    def _judge(self, step: int, values: dict[str, float | None]) -> None:
        """Warns, or raises UserError, where a model gives all pairs the same score."""
        spread = values["score_variance"] ** 0.5
        if spread < self.collapse_spread:
            symptom = (
                f"they deviate by {spread:.2g} (callbacks.score_health.collapse_spread={self.collapse_spread:g}) from "
                f"{values['score_mean']:.3g}, whatever the pair"
            )
            collapsed("scores", step, symptom, key="callbacks.score_health", then=self.on_collapse)
