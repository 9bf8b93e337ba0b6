"""The health of scores at each validation, for models whose score is no cosine, and an alarm when all are alike."""

import json
from pathlib import Path

import numpy as np
import pytorch_lightning as pl

from callbacks.health import collapsed, gradient_norms
from conf.job import HealthConfig
from lightning_modules.base import SentenceModule
from lightning_modules.score_summary import score_counts, score_summary

SCORES_FILE = "scores.jsonl"


class ScoreHealth(pl.Callback):
    """Logs `score_summary` of the dev pairs that choose a checkpoint, and writes it with histograms to `scores.jsonl`.

    What a validation has scored is looked at, so nothing is computed for it. Pairs whose score is the cosine of two
    embeddings are left to `callbacks.health.SpaceHealth`.

    config  what counts as collapsed, and what is done then
    folder  of the stage; the file goes on where a resumed stage left it
    """

    def __init__(self, config: HealthConfig, folder: Path) -> None:
        self.config = config
        self.path = folder / SCORES_FILE

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: SentenceModule) -> None:
        if trainer.state.fn != "fit" or pl_module.scores_by_cosine:
            return
        plan = trainer.datamodule.validation_plan
        graded = [
            (scores, one.grades())
            for one, scores in zip(plan.sets, pl_module.pair_scores(plan), strict=True)
            if one.grades() is not None
        ]
        if not graded:
            return
        scores, grades = (np.concatenate(parts) for parts in zip(*graded, strict=True))
        found = score_summary(scores, grades, called="score") | gradient_norms(pl_module)
        pl_module.log_dict(
            {f"health/{name}": value for name, value in found.items() if value is not None},
            rank_zero_only=False,
        )
        if trainer.is_global_zero:
            self._write(trainer.global_step, found, scores, grades)
        self._judge(trainer.global_step, found)

    def _write(
        self, step: int, found: dict[str, float | None], scores: np.ndarray, grades: np.ndarray
    ) -> None:
        low, high = float(scores.min()), float(scores.max())
        # Bins need a width, also where all scores are the same.
        counts = score_counts(scores, grades, low=low, high=max(high, low + self.config.collapse_spread))
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **found, "scores": counts}) + "\n")

    def _judge(self, step: int, found: dict[str, float | None]) -> None:
        """Warns, or raises UserError, where a model gives all pairs the same score."""
        spread = found["score_variance"] ** 0.5
        if spread < self.config.collapse_spread:
            symptom = (
                f"they deviate by {spread:.2g} (health.collapse_spread={self.config.collapse_spread:g}) from "
                f"{found['score_mean']:.3g}, whatever the pair"
            )
            collapsed("scores", step, symptom, self.config)
