"""Families whose score is MaxSim."""

from pathlib import Path
from typing import Any

from juzhen.encoders.layout import gives_routes, gives_tokens
from juzhen.families.family import AskingEncoders, Family
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.late.evaluator import MaxSimEvaluator, QueryDocumentEvaluator
from juzhen.families.late.query_document import QueryDocumentEncoder


class MultiVectorEncoders(AskingEncoders):
    """Texts to a vector for each token; the first text of a row asks, the others answer."""

    unscored = MaxSimEvaluator.unscored

    def holds(self, folder: Path) -> bool:
        return gives_tokens(folder)

    def load(self, source: str | Path, **options: Any) -> MultiVectorEncoder:
        return MultiVectorEncoder.load(source, **options)

    def evaluator(self, encoder: MultiVectorEncoder, **options: Any) -> MaxSimEvaluator:
        return MaxSimEvaluator(encoder)


class QueryDocumentEncoders(AskingEncoders):
    """Queries and documents by weights of their own; the first text of a row asks, the others answer."""

    unscored = QueryDocumentEvaluator.unscored
    save = Family.save

    def holds(self, folder: Path) -> bool:
        return gives_routes(folder)

    def load(self, source: str | Path, **options: Any) -> QueryDocumentEncoder:
        return QueryDocumentEncoder.load(source, **options)

    def evaluator(self, encoder: QueryDocumentEncoder, **options: Any) -> QueryDocumentEvaluator:
        return QueryDocumentEvaluator(encoder)
