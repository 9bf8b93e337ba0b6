"""The family of sparse encoders."""

from pathlib import Path
from typing import Any

from juzhen.encoders.layout import gives_weights
from juzhen.families.family import AskingEncoders
from juzhen.families.sparse.encoder import SparseEncoder
from juzhen.families.sparse.evaluator import SparseEvaluator


class SparseEncoders(AskingEncoders):
    """Texts to a weight for each token of the vocabulary; the first text of a row asks, the others answer."""

    unscored = SparseEvaluator.unscored

    def holds(self, folder: Path) -> bool:
        return gives_weights(folder)

    def load(self, source: str | Path, **options: Any) -> SparseEncoder:
        return SparseEncoder.load(source, **options)

    def evaluator(self, encoder: SparseEncoder, **options: Any) -> SparseEvaluator:
        return SparseEvaluator(encoder)
