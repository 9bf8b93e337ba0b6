"""Sparse vectors of many texts, and their dot products in memory that does not grow with the vocabulary."""

from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse

Numbers = Int[np.ndarray, "texts"]

AT_ONCE = 2**22
"""Products of a query and a document that are held at a time."""


class SparseVectors:
    """(texts, vocabulary) float32, 8 bytes for each number above 0; a text that was not taken has none.

    The score of two texts is their dot product: 0 where they share no token, and with a text that has no number at all.
    """

    def __init__(self, count: int, dim: int) -> None:
        self.dim = dim
        self._rows: list[sparse.csr_array | None] = [None] * count

    def take(self, rows: Numbers, vectors: sparse.csr_array) -> None:
        """Keeps the vectors of some texts, one text after another."""
        self.__dict__.pop("table", None)
        for place, row in enumerate(rows.tolist()):
            self._rows[row] = vectors[place : place + 1]

    def gather(self) -> None:
        """Takes what other processes have taken, where several encode."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            parts: list[dict[int, sparse.csr_array]] = [{} for _ in range(torch.distributed.get_world_size())]
            ours = {number: row for number, row in enumerate(self._rows) if row is not None}
            torch.distributed.all_gather_object(parts, ours)
            self.__dict__.pop("table", None)
            for part in parts:
                for number, row in part.items():
                    self._rows[number] = row

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def table(self) -> sparse.csr_array:
        """All of them, (texts, vocabulary)."""
        missing = sum(row is None for row in self._rows)
        assert not missing, f"{missing} texts have not been encoded"
        if not self._rows:
            return sparse.csr_array((0, self.dim), dtype=np.float32)
        return sparse.vstack(self._rows, format="csr")

    def pairs(
        self, documents: "SparseVectors", first: Numbers, second: Numbers
    ) -> Float[np.ndarray, "pairs"]:
        """The score of text `first[i]` of these with text `second[i]` of the others."""
        products = self.table[first].multiply(documents.table[second])
        return np.asarray(products.sum(axis=1), dtype=np.float32).reshape(-1)

    def matrix(
        self, documents: "SparseVectors", queries: Numbers, numbers: Numbers
    ) -> Float[np.ndarray, "queries documents"]:
        """The score of each query with each document; equal documents have equal scores."""
        asked = self.table[queries].T.tocsr()  # a column for each query
        is_all = len(numbers) == len(documents) and (numbers == np.arange(len(documents))).all()
        table = documents.table if is_all else documents.table[numbers]
        scores = np.empty((len(queries), len(numbers)), dtype=np.float32)
        step = max(AT_ONCE // max(len(queries), 1), 1)
        for start in range(0, len(numbers), step):
            scores[:, start : start + step] = (table[start : start + step] @ asked).toarray().T
        return scores
