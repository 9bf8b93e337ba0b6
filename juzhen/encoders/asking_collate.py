"""Batches of an encoder that reads queries and documents apart, whatever a set says: the first text of a row asks."""

from dataclasses import replace

import numpy as np

from juzhen.core.batch import Batch
from juzhen.core.examples import Examples
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.token_table import TokenTable


def as_asked(examples: Examples) -> Examples:
    """The rows, whose first texts are queries and whose others are documents; as they are where sides are given."""
    return examples if examples.sides is not None else replace(examples, symmetric=False)


class AskingCollator(SentenceCollator):
    """A `SentenceCollator` of rows `as_asked`."""

    def token_lists(self, examples: Examples) -> TokenTable:
        return super().token_lists(as_asked(examples))

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        return super().training_batch(as_asked(examples), rows, index=index)

    def __call__(self, examples: Examples, rows: np.ndarray) -> Batch:
        return super().__call__(as_asked(examples), rows)

    def shown(self, examples: Examples, numbers: np.ndarray, *, index: int | None) -> TokenTable:
        return super().shown(as_asked(examples), numbers, index=index)
