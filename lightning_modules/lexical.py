"""The lexical baseline as a model: nothing is learnt, and the whole evaluation is the same as for the others."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from encoders.collate import SentenceCollator
from encoders.packing import pack
from lightning_modules.base import SentenceModule
from lightning_modules.scoring import NOTHING
from metrics.lexical import lexical_scores
from schema.batch import Batch, Encoded
from schema.config import JobConfig
from schema.examples import Examples


class LexicalPlan:
    """Nothing passes through a network: scores come from the texts alone."""

    def __init__(self, sets: Sequence[Examples]) -> None:
        self.sets = list(sets)
        self.examples = NOTHING

    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        scored = []
        for one in self.sets:
            first, second, *_ = one.columns
            scored.append(lexical_scores(one.texts(first), one.texts(second)))
        return scored


class Lexical(SentenceModule):
    """Cosine of TF-IDF vectors over character 1-2-grams, fitted on the sentences of each split."""

    trains = False

    def __init__(self, *, encoder: None, **shared: object) -> None:
        super().__init__(**shared)
        self.encoder = encoder
        self.collate = SentenceCollator(
            tokenize=lambda texts: [[0]] * len(texts),
            pack=pack,
        )

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> None:
        """No weights."""

    def encode(self, batch: Batch) -> Encoded:
        raise TypeError("the lexical baseline has nothing to encode")

    def output(self, batch: Batch) -> torch.Tensor:
        return torch.zeros(len(batch), device=self.device)

    def plan(self, sets: Sequence[Examples]) -> LexicalPlan:
        return LexicalPlan(sets)
