"""How many texts are longer than an encoder reads: what it leaves out of them, nobody would notice otherwise."""

from dataclasses import dataclass

import numpy as np

from juzhen.core.examples import Examples, Side
from juzhen.core.text import percent
from juzhen.data.running_text import TextTable
from juzhen.encoders.chunks import find_truncated
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.pooled_encoder import PooledEncoder

SAMPLED = 1000
"""Rows of running text that are looked at: it is tokenised when it is learnt from, and not before."""


@dataclass(frozen=True)
class TruncationStats:
    """Number of truncated texts.

    Attributes:
        looked_at: Number of texts.
        cut: Number of truncated texts.
        max_length: Tokens of a text.
        unit: texts, or pairs in a joint input.
    """

    looked_at: int
    cut: int
    max_length: int
    unit: str = "texts"

    @property
    def share(self) -> float:
        return self.cut / self.looked_at if self.looked_at else 0.0

    def __str__(self) -> str:
        return f"{self.cut:,} of {self.looked_at:,} {self.unit} ({percent(self.cut, self.looked_at)})"


def truncated_sentences(
    encoder: PooledEncoder, examples: Examples, lengths: np.ndarray | None = None
) -> TruncationStats:
    """Count truncated distinct texts of the rows, in a sample for running text.

    `lengths` are the numbers of tokens of each sentence alone. None if unknown.
    """
    columns = list(examples.columns.values())
    if isinstance(examples.sentences, TextTable):
        rows = np.unique(np.linspace(0, len(examples) - 1, min(SAMPLED, len(examples))).astype(np.int64))
        texts = [examples.sentences[int(row)] for row in columns[0][rows]]
        return TruncationStats(len(texts), int(find_truncated(encoder, texts).sum()), encoder.max_length)
    sides, numbers = encoder.sides[examples.read_as(slice(None))], np.stack(columns)
    is_cut, is_used = np.zeros((2, len(examples.sentences)), dtype=bool)
    is_used[numbers] = True
    for side in Side:
        is_of_side = np.zeros(len(examples.sentences), dtype=bool)
        is_of_side[numbers[sides == side]] = True
        if not len(used := np.flatnonzero(is_of_side)):
            continue
        texts = [examples.sentences[number] for number in used.tolist()]
        is_cut[used] |= find_truncated(
            encoder.reading(side), texts, None if lengths is None else lengths[used]
        )
    return TruncationStats(int(is_used.sum()), int(is_cut.sum()), encoder.max_length)


def truncated_pairs(
    encoder: PairEncoder, examples: Examples, lengths: np.ndarray | None = None
) -> TruncationStats:
    """Count truncated pairs. A sentence that was truncated alone fills the whole input, so the pair does not fit.

    `lengths` as in `truncated_sentences`.
    """
    if lengths is None:
        lengths = encoder.inner.tokenize(examples.sentences).lengths
    first, second, *_ = (lengths[numbers] for numbers in examples.columns.values())
    return TruncationStats(
        len(first), int(encoder.is_cut(first, second).sum()), encoder.inner.max_length, unit="pairs"
    )


def truncated_query_pairs(encoder: PairEncoder, examples: Examples) -> TruncationStats:
    """The same where each text is read by its side: all pairs of a query and a document in a row."""
    first, *further = examples.columns.values()
    used, positions = np.unique(np.concatenate(further), return_inverse=True)
    queries, places_of_first = np.unique(first, return_inverse=True)
    texts = [[examples.sentences[number] for number in numbers.tolist()] for numbers in (queries, used)]
    sides = encoder.tables(*texts)
    asked = np.tile(sides[0].lengths[places_of_first], len(further))
    is_cut = encoder.is_cut(asked, sides[1].lengths[positions])
    return TruncationStats(len(asked), int(is_cut.sum()), encoder.inner.max_length, unit="pairs")
