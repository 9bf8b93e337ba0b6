"""BM25 as a model: nothing is learnt, and rankings are evaluated as for the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from conf.job import JobConfig
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.measures import UNSCORED_BY_BM25
from juzhen.evaluation.evaluators import BM25Evaluator
from lightning_modules.base import SentenceModule
from lightning_modules.chosen_losses import Match
from lightning_modules.lexical import Lexical


class BM25(Lexical):
    """The documents of a query by the terms that they share, see `juzhen.metrics.bm25`.

    tokens  terms of Chinese: characters and pairs of neighbouring ones, or words as jieba cuts them
    k1, b   how much a term counts that occurs again, and how much a long document is held against it
    """

    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED_BY_BM25

    @dataclass(frozen=True, kw_only=True)
    class Settings(SentenceModule.Settings):
        tokens: Literal["characters", "jieba"]
        k1: float
        b: float

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        settings = cls.settings(job)
        if not (settings.k1 >= 0 and 0 <= settings.b <= 1):
            raise UserError(
                f"model.k1={settings.k1}, model.b={settings.b}: expected k1 of 0 or more, b from 0 to 1"
            )
        BM25Evaluator(**vars(settings))

    @property
    def evaluator(self) -> BM25Evaluator:
        return BM25Evaluator(**vars(self.settings(self.job)))
