"""TF-IDF, word overlap and BM25 as models without training. Evaluation is the same as for other models."""

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
    """Similarity by shared characters and words of texts, see `juzhen.metrics.lexical`.

    Args:
        encoder: None, since there are no weights.
        method: tf_idf: cosine over character 1-2-grams, fitted on the sentences of each split. jaccard, dice:
            the overlap of the two texts' terms.
        tokens: Chinese terms of jaccard and dice: characters and pairs of neighbouring ones, or words by
            jieba.
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
        """Return None, since there are no weights.

        Args:
            job: Not read.
            folder: Not read.
        """

    @property
    def evaluator(self) -> LexicalEvaluator:
        return LexicalEvaluator(**vars(self.settings(self.job)))


class BM25Module(Lexical):
    """Ranks the documents of a query by shared terms, see `juzhen.metrics.lexical`.

    Args:
        tokens: Chinese terms: characters and pairs of neighbouring ones, or words by jieba.
        k1: Weight of repeated terms.
        b: Strength of the length normalization.
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
