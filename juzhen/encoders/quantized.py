"""Embeddings in bytes or bits, a quarter and a 32nd of their size, and a search that asks the whole ones last."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int, Shaped

from juzhen.core.errors import require_choice
from juzhen.encoders.pooling import require_finite_vectors, unit
from juzhen.encoders.search import DOCUMENTS_AT_ONCE, QUERIES_AT_ONCE, Best, in_order, pair_products

Precision = Literal["int8", "binary"]
PRECISIONS = ("int8", "binary")
STEPS = 255


def byte_ranges(vectors: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "2 dim"]:
    """The smallest and the largest number of each dimension, between which bytes are spread."""
    return np.stack([vectors.min(axis=0), vectors.max(axis=0)]).astype(np.float32)


@dataclass(frozen=True)
class Quantized:
    """Documents as `quantize` makes them; a corpus for `SentenceEncoder.search`.

    codes    int8, or eight numbers in a byte, 1 where a number is above 0
    dim      numbers of an embedding
    ranges   of int8, as of `byte_ranges`
    whole    the embeddings themselves, which may lie on the disk (`numpy.memmap`): a search takes the scores of its
             best `rescore` × k documents from them; None: from what the codes stand for
    """

    codes: Shaped[np.ndarray, "rows bytes"]
    dim: int
    ranges: Float[np.ndarray, "2 dim"] | None = None
    whole: Float[np.ndarray, "rows dim"] | None = None
    rescore: int = 4

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Int[np.ndarray, "some"] | slice) -> Float[np.ndarray, "some dim"]:
        """The vectors that codes stand for: the middle of each step of int8, −1 and 1 of bits."""
        if self.ranges is None:
            return np.unpackbits(self.codes[rows], axis=-1)[:, : self.dim].astype(np.float32) * 2 - 1
        return (self.codes[rows].astype(np.float32) + 128.5) * steps_of(self.ranges) + self.ranges[0]

    def check(self, encoder: Any) -> None:
        """Nothing is known of the encoder that gave the embeddings but their size."""

    @property
    def documents(self) -> "Float[np.ndarray, 'rows dim'] | Quantized":
        """What scores are taken from in the end."""
        return self if self.whole is None else self.whole

    @property
    def size_in_bytes(self) -> int:
        """Of the codes; without `whole`."""
        return self.codes.nbytes

    def search(
        self,
        queries: Float[np.ndarray, "queries dim"],
        k: int,
        *,
        advance: Callable[[int], None] = lambda count: None,
    ) -> tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]:
        """As `exact_search`: the best rescore × k by codes, then the k best of these by `documents`.

        A query stays as it is. A document by its codes is brought to length 1.
        """
        require_finite_vectors(queries, "queries")
        depth = min(k * self.rescore, len(self)) if self.whole is not None else k
        lists = [
            Best(len(queries[start : start + QUERIES_AT_ONCE]), depth)
            for start in range(0, len(queries), QUERIES_AT_ONCE)
        ]
        for first in range(0, len(self), DOCUMENTS_AT_ONCE):
            block = unit(self[slice(first, first + DOCUMENTS_AT_ONCE)])
            for number, best in enumerate(lists):
                portion = queries[number * QUERIES_AT_ONCE : (number + 1) * QUERIES_AT_ONCE]
                best.add(portion @ block.T, first)
        advance(len(queries))
        numbers = np.concatenate([best.lists()[0] for best in lists])
        if self.whole is None:
            return numbers, np.concatenate([best.lists()[1] for best in lists])
        rows = np.repeat(np.arange(len(queries)), depth)
        documents = unit(np.asarray(self.whole[numbers.ravel()]))
        scores = pair_products(queries, documents, rows, np.arange(len(rows))).reshape(numbers.shape)
        numbers, scores = in_order(numbers, scores)
        return numbers[:, :k], scores[:, :k]


def steps_of(ranges: Float[np.ndarray, "2 dim"]) -> Float[np.ndarray, "dim"]:
    """How far two neighbouring bytes are apart in each dimension; 1 where all numbers are one."""
    steps = (ranges[1] - ranges[0]) / STEPS
    return np.where(steps == 0, np.float32(1), steps)


def quantize(
    vectors: Float[np.ndarray, "rows dim"],
    precision: Precision = "int8",
    *,
    ranges: Float[np.ndarray, "2 dim"] | None = None,
    whole: Float[np.ndarray, "rows dim"] | None = None,
    rescore: int = 4,
) -> Quantized:
    """Embeddings in bytes (`int8`) or bits (`binary`).

    ranges   of int8: `byte_ranges` of embeddings like these, such as those of a corpus; None: of these. Numbers beyond
             are put at the ends
    whole, rescore  as of `Quantized`: `whole=vectors` keeps them for the last scores

    The codes are those of sentence-transformers' `quantize_embeddings`, int8 and ubinary. Raises UserError for an
    unknown precision and for NaN.
    """
    require_choice("precision", precision, PRECISIONS)
    vectors = np.atleast_2d(vectors)
    require_finite_vectors(vectors, "vectors")
    dim = vectors.shape[1]
    if precision == "binary":
        return Quantized(np.packbits(vectors > 0, axis=-1), dim, None, whole, rescore)
    spread = byte_ranges(vectors) if ranges is None else np.asarray(ranges, dtype=np.float32)
    codes = np.clip(np.floor((vectors - spread[0]) / steps_of(spread)), 0, STEPS) - 128
    return Quantized(codes.astype(np.int8), dim, spread, whole, rescore)
