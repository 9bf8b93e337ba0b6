"""MaxSim, the score of late interaction, and its token vectors.

Each token of a query finds the nearest token of a document. (Khattab and Zaharia 2020, equation 3,
https://arxiv.org/abs/2004.12832) Texts are (texts, length, dim), vectors of length 1, and 0 for positions
without a token. For one vector each, of any length, the score is their dot product. A text without any token
scores 0.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.batch import Tokens
from juzhen.encoders.tokens import TokenTable, runs

Numbers = Int[np.ndarray, "texts"]

AT_ONCE = 2**24
"""Products of tokens that are held at a time, 64 MiB."""


def all_maxsims(
    queries: Float[Tensor, "queries length dim"],
    documents: Float[Tensor, "documents tokens dim"],
    *,
    at_once: int = AT_ONCE,
) -> Float[Tensor, "queries documents"]:
    """Mean over the tokens i of a query of max_j q_i · d_j, of each query with each document.

    The score is in [−1, 1] for vectors of length 1. ColBERT takes the sum, which is this times the number of
    tokens of the query. Documents are read in parts of at most `at_once` products. For the gradient only the
    number of the nearest token is kept, not the products.

    Args:
        queries: Vectors of length 1. Vectors of zeros are padding.
        documents: The same.
        at_once: Number of products in memory at a time.

    Returns:
        One score for each query and document.
    """
    count, length, dim = queries.shape
    rows = queries.reshape(-1, dim)
    step = max(1, at_once // max(len(rows) * documents.shape[1], 1))
    parts = []
    for start in range(0, len(documents), step):
        portion = documents[start : start + step]
        products = (rows @ portion.reshape(-1, dim).T).view(count, length, len(portion), -1)
        is_token = _is_token(portion)
        nearest = products.masked_fill(~is_token, -torch.inf).max(dim=-1).values
        parts.append(nearest.masked_fill(~is_token.any(dim=-1), 0))
    return _mean(torch.cat(parts, dim=2), queries)


def row_maxsims(
    queries: Float[Tensor, "batch length dim"], documents: Float[Tensor, "batch tokens dim"]
) -> Float[Tensor, "batch"]:
    """Compute the MaxSim of each query with the document of its row. See `all_maxsims`.

    Args:
        queries: Vectors of length 1. Vectors of zeros are padding.
        documents: The same, as many texts as queries.

    Returns:
        From −1 to 1.
    """
    products = torch.bmm(queries, documents.transpose(1, 2))
    is_token = _is_token(documents)
    nearest = products.masked_fill(~is_token[:, None], -torch.inf).max(dim=-1).values
    nearest = nearest.masked_fill(~is_token.any(dim=-1, keepdim=True), 0)
    return _mean(nearest.unsqueeze(-1), queries).squeeze(-1)


def _is_token(texts: Float[Tensor, "texts length dim"]) -> Tensor:
    return (texts != 0).any(dim=-1)


def _mean(
    nearest: Float[Tensor, "queries length documents"], queries: Float[Tensor, "queries length dim"]
) -> Float[Tensor, "queries documents"]:
    is_token = _is_token(queries)
    count = is_token.sum(dim=1, keepdim=True).clamp(min=1)
    return nearest.masked_fill(~is_token.unsqueeze(-1), 0).sum(dim=1) / count


class StoredVectors:
    """The vectors of each text, None before they are taken.

    Args:
        count: Number of texts.
    """

    def __init__(self, count: int) -> None:
        self._rows: list[Any] = [None] * count

    def gather(self) -> None:
        """Gather the vectors of the other processes, if several encode."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            parts: list[dict[int, Any]] = [{} for _ in range(torch.distributed.get_world_size())]
            ours = {number: row for number, row in enumerate(self._rows) if row is not None}
            torch.distributed.all_gather_object(parts, ours)
            for part in parts:
                for number, row in part.items():
                    self._rows[number] = row
            self._forget()

    def _forget(self) -> None:
        """Drop what was made of the rows."""

    def __len__(self) -> int:
        return len(self._rows)


class TokenVectors(StoredVectors, Sequence[np.ndarray]):
    """(tokens, dim) float32 of each text, dim × 4 bytes per token. A text not passed to `take` has none.

    Args:
        count: Number of texts.
        sums: The score of these texts as queries is the sum over their tokens. False: the mean.
    """

    def __init__(self, count: int, *, sums: bool = False) -> None:
        super().__init__(count)
        self.sums = sums

    def take(
        self, rows: Numbers, vectors: Float[np.ndarray, "tokens dim"], counts: Int[np.ndarray, "texts"]
    ) -> None:
        """Store the vectors of some texts.

        Args:
            rows: Numbers of the texts.
            vectors: The tokens of the first text, then those of the second, and so on.
            counts: Number of tokens of each text.
        """
        for row, part in zip(rows.tolist(), np.split(vectors, np.cumsum(counts))[:-1], strict=True):
            self._rows[row] = part

    def __getitem__(self, row: int) -> np.ndarray:  # type: ignore[override]
        vectors: np.ndarray | None = self._rows[row]
        assert vectors is not None, f"text {row} has not been encoded"
        return vectors

    def pairs(self, documents: "TokenVectors", first: Numbers, second: Numbers) -> Float[np.ndarray, "pairs"]:
        """Compute the MaxSim of pairs. These texts are the queries.

        Args:
            documents: Vectors of the other texts.
            first: Number of the query of each pair.
            second: Number of the document of each pair, in `documents`.

        Returns:
            float32.
        """
        scores = np.empty(len(first), dtype=np.float32)
        order = np.argsort(first, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(first[order])) + 1) if len(order) else ():
            scores[rows] = self.matrix(documents, first[rows[:1]], second[rows])[0]
        return scores

    def matrix(
        self, documents: "TokenVectors", queries: Numbers, numbers: Numbers
    ) -> Float[np.ndarray, "queries documents"]:
        """Compute the MaxSim of each query with each document. These texts are the queries.

        It is the mean, or with `sums` the sum, over the tokens of a query. Equal documents have equal scores:
        each is in a product once. See `all_maxsims`.

        Args:
            documents: Vectors of the other texts.
            queries: Numbers of the queries.
            numbers: Numbers of the documents.

        Returns:
            float32.
        """
        if not len(queries):
            return np.empty((0, len(numbers)), dtype=np.float32)
        query_vectors = [self[row] for row in queries.tolist()]
        lengths = np.array([len(vectors) for vectors in query_vectors])
        divisors = np.ones_like(lengths) if self.sums else lengths
        starts = np.cumsum(lengths) - lengths
        rows = np.concatenate(query_vectors)
        distinct, positions = np.unique(numbers, return_inverse=True)
        scores = np.empty((len(query_vectors), len(distinct)), dtype=np.float32)
        sizes = np.array([len(documents[row]) for row in distinct.tolist()])
        begun = 0
        while begun < len(distinct):
            within = np.cumsum(sizes[begun:]) <= max(AT_ONCE // len(rows), 1)
            ended = begun + max(int(within.sum()), 1)
            portion = [documents[row] for row in distinct[begun:ended].tolist()]
            ends = np.cumsum(sizes[begun:ended])
            products = rows @ np.concatenate(portion).T
            nearest = np.maximum.reduceat(products, ends - sizes[begun:ended], axis=1)
            scores[:, begun:ended] = np.add.reduceat(nearest, starts, axis=0) / divisors[:, None]
            begun = ended
        return scores[:, positions]


def hiding(tokens: Tokens, hidden: Bool[Tensor, "tokens"]) -> Tokens:
    """Hide tokens from the attention of the others. They still look at the others of their sentence.

    Args:
        tokens: Sentences in packed order.
        hidden: True for a token to hide.

    Returns:
        A copy with other attention masks.
    """
    groups, start = [], 0
    for group in tokens.groups:
        is_visible = ~hidden[start : start + group.num_tokens]
        start += group.num_tokens
        if group.slots is not None:
            empty = torch.zeros(
                group.num_sentences * group.length, dtype=torch.bool, device=is_visible.device
            )
            is_visible = empty.index_put((group.slots,), is_visible)
        mask = is_visible.view(group.num_sentences, 1, 1, group.length)
        groups.append(replace(group, mask=mask, hides=True))
    return replace(tokens, groups=groups)


def filled_up(table: TokenTable, least: int, token: int) -> TokenTable:
    """Add tokens at the end of short texts.

    Args:
        table: Token numbers of texts.
        least: Number of tokens that each text has at least.
        token: Number of the added token.

    Returns:
        A new table. Longer texts keep their tokens.
    """
    lengths = np.maximum(table.lengths, least)
    ends = np.cumsum(lengths)
    ids = np.full(ends[-1] if len(ends) else 0, token, dtype=np.int32)
    ids[runs(ends - lengths, table.lengths)] = table.flat()
    return TokenTable(ids, ends - lengths, ends)
