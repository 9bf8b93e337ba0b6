"""TF-IDF as a model: nothing is learnt, and the whole evaluation is the same as for the others."""

from pathlib import Path
from typing import Any

from conf.job import JobConfig
from juzhen.core.batch import Batch, Encoded
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.packing import pack
from juzhen.evaluation.evaluators import LexicalEvaluator
from lightning_modules.base import SentenceModule


class Lexical(SentenceModule):
    """Cosine of TF-IDF vectors over character 1-2-grams, fitted on the sentences of each split."""

    trains = False

    def __init__(self, *, encoder: None, **shared: Any) -> None:
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
        raise TypeError("a lexical baseline has nothing to encode")

    @property
    def evaluator(self) -> LexicalEvaluator:
        return LexicalEvaluator()
