"""TF-IDF, word overlap and BM25 as models: nothing is learnt, and the evaluation is the same as for the others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conf.job import JobConfig
from juzhen.core.errors import require_number
from juzhen.evaluation.evaluators import BM25Evaluator, LexicalEvaluator
from juzhen.families.registry import FAMILIES
from juzhen.models.settings import BM25ModuleSettings, LexicalSettings
from lightning_modules.base import SentenceModule
from lightning_modules.loss_factory import Match


class Lexical(SentenceModule):
    """Similarity by the characters and words that texts share, see `juzhen.metrics.lexical`.

    method  tf_idf: cosine over character 1-2-grams, fitted on the sentences of each split · jaccard, dice: the overlap
            of the two texts' terms
    tokens  of jaccard and dice: Chinese by characters and pairs of neighbouring ones, or by words as jieba cuts them
    """

    Settings = LexicalSettings

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

    @property
    def evaluator(self) -> LexicalEvaluator:
        return LexicalEvaluator(**vars(self.settings(self.job)))


class BM25Module(Lexical):
    """The documents of a query by the terms that they share, see `juzhen.metrics.lexical`.

    tokens  terms of Chinese: characters and pairs of neighbouring ones, or words as jieba cuts them
    k1, b   how much a term counts that occurs again, and how much a long document is held against it
    """

    Settings = BM25ModuleSettings

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        settings = cls.settings(job)
        require_number("model.k1", settings.k1, 0)
        require_number("model.b", settings.b, 0, 1)
        BM25Evaluator(**vars(settings))

    @property
    def evaluator(self) -> BM25Evaluator:
        return BM25Evaluator(**vars(self.settings(self.job)))
