"""TF-IDF and word overlap as a model: nothing is learnt, and the whole evaluation is the same as for the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from conf.job import JobConfig
from juzhen.core.batch import Batch
from juzhen.evaluation.evaluators import LexicalEvaluator
from juzhen.families import FAMILIES
from lightning_modules.base import SentenceModule
from lightning_modules.chosen_losses import Match


class Lexical(SentenceModule):
    """Similarity by the characters and words that texts share, see `juzhen.metrics.lexical`.

    method  tf_idf: cosine over character 1-2-grams, fitted on the sentences of each split · jaccard, dice: the overlap
            of the two texts' terms
    tokens  of jaccard and dice: Chinese by characters and pairs of neighbouring ones, or by words as jieba cuts them
    """

    trains = False

    @dataclass(frozen=True, kw_only=True)
    class Settings(SentenceModule.Settings):
        method: Literal["tf_idf", "jaccard", "dice"] = "tf_idf"
        tokens: Literal["characters", "jieba"] = "characters"

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        LexicalEvaluator(**vars(cls.settings(job)))

    def __init__(self, *, encoder: None, **shared: Any) -> None:
        super().__init__(**shared)
        self.encoder = encoder
        self.collate = FAMILIES["lexical"].collate(encoder)

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> None:
        """No weights."""

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        raise TypeError("a lexical baseline has nothing to encode")

    @property
    def evaluator(self) -> LexicalEvaluator:
        return LexicalEvaluator(**vars(self.settings(self.job)))
