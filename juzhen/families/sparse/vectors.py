"""Sparse vectors: SPLADE pooling of token states, and the stored vectors of many texts.

(Formal et al. 2021, SPLADE v2, https://arxiv.org/abs/2109.10086. The sum is that of SPLADE,
https://arxiv.org/abs/2107.05720)
"""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy import sparse
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from juzhen.core.batch import Group, Tokens
from juzhen.families.late.scores import StoredVectors

POOLINGS = ("max", "sum")
ACTIVATIONS = ("relu", "log1p_relu")
"""As sentence-transformers calls them: log(1 + relu(x)), and log(1 + log(1 + relu(x)))."""

LOGITS_AT_ONCE = 2**25
"""Logits that are held at a time, 128 MiB."""

Head = Callable[[Float[Tensor, "some dim"]], Float[Tensor, "some vocabulary"]]


def weights_of(logits: Float[Tensor, "*any"], activation: str) -> Float[Tensor, "*any"]:
    """Compute the weight of a logit: log(1 + logit) above 0, else 0.

    Args:
        logits: Any shape and precision.
        activation: `relu`, or `log1p_relu`, which takes the logarithm twice.

    Returns:
        float32, the same shape.

    >>> weights_of(torch.tensor([-1.0, 0.0, 1.0]), "relu")
    tensor([0.0000, 0.0000, 0.6931])
    """
    weights = logits.float().relu().log1p()
    return weights.log1p() if activation == "log1p_relu" else weights


def pooled_texts(
    head: Head,
    states: Float[Tensor, "tokens dim"],
    tokens: Tokens,
    *,
    vocabulary: int,
    pooling: str,
    activation: str,
    at_once: int = LOGITS_AT_ONCE,
) -> Iterator[Float[Tensor, "some vocabulary"]]:
    """Compute the vectors of texts, some at a time. All tokens count, special tokens included.

    For the gradient of the maximum the number of its token is kept, 8 bytes for each text and token of the vocabulary.
    For that of the sum logits are computed again.

    Args:
        head: States (some, dim) → logits (some, vocabulary).
        states: Of all tokens, in packed order.
        tokens: Lengths and groups of the texts.
        vocabulary: Number of logits of a token.
        pooling: `max`, or the sum over the tokens.
        activation: As in `weights_of`.
        at_once: Logits in memory at a time, or those of one token if these are more.

    Yields:
        Some texts in packed order.
    """
    start = 0
    for group in tokens.groups:
        padded, real = _padded(states[start : start + group.num_tokens], group)
        start += group.num_tokens
        width = min(group.length, max(at_once // vocabulary, 1))
        rows = max(at_once // (vocabulary * width), 1)
        for first in range(0, group.num_sentences, rows):
            some, some_real = padded[first : first + rows], real[first : first + rows]
            pieces = zip(some.split(width, dim=1), some_real.split(width, dim=1), strict=True)
            if pooling == "max":
                logits = [_highest(head, piece, mask) for piece, mask in pieces]
                highest = logits[0] if len(logits) == 1 else torch.stack(logits).amax(dim=0)
                yield weights_of(highest, activation)
            else:
                parts = [_summed(head, piece, mask, activation) for piece, mask in pieces]
                yield parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)


def _padded(
    states: Float[Tensor, "tokens dim"], group: Group
) -> tuple[Float[Tensor, "sentences length dim"], Bool[Tensor, "sentences length"]]:
    """The states of a group with padding, and where there is a token."""
    shape = group.num_sentences, group.length
    if group.slots is None:
        return states.unflatten(0, shape), torch.ones(shape, dtype=torch.bool, device=states.device)
    empty = states.new_zeros(shape[0] * shape[1], states.shape[1])
    assert group.mask is not None  # as there are slots
    return empty.index_copy(0, group.slots, states).unflatten(0, shape), group.mask[:, 0, 0]


def _logits(head: Head, states: Float[Tensor, "some length dim"]) -> Float[Tensor, "some length vocabulary"]:
    return head(states.flatten(0, 1)).unflatten(0, states.shape[:2])


def _highest(
    head: Head, states: Float[Tensor, "some length dim"], mask: Bool[Tensor, "some length"]
) -> Float[Tensor, "some vocabulary"]:
    logits = _logits(head, states)
    return logits.masked_fill(~mask.unsqueeze(-1), -torch.inf).max(dim=1).values


def _summed(
    head: Head, states: Float[Tensor, "some length dim"], mask: Bool[Tensor, "some length"], activation: str
) -> Float[Tensor, "some vocabulary"]:
    def summed(states: Tensor) -> Tensor:
        weights = weights_of(_logits(head, states), activation)
        return weights.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=1)

    return checkpoint(summed, states, use_reentrant=False) if torch.is_grad_enabled() else summed(states)


Numbers = Int[np.ndarray, "texts"]

PRODUCTS_AT_ONCE = 2**22
"""Products of a query and a document that are held at a time."""


class SparseVectors(StoredVectors):
    """(texts, vocabulary) float32, 8 bytes for each number above 0. A text not passed to `take` has none.

    The score of two texts is their dot product. It is 0 if they share no token.

    Args:
        count: Number of texts.
        dim: Tokens of the vocabulary.
    """

    def __init__(self, count: int, dim: int) -> None:
        super().__init__(count)
        self.dim = dim

    def take(self, rows: Numbers, vectors: sparse.csr_array) -> None:
        """Store the vectors of some texts.

        Args:
            rows: Numbers of the texts.
            vectors: float32 (texts, vocabulary), in the order of `rows`.
        """
        self._forget()
        for place, row in enumerate(rows.tolist()):
            self._rows[row] = vectors[place : place + 1]

    def _forget(self) -> None:
        self.__dict__.pop("table", None)

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
        """Compute the dot product of pairs. These texts are the first ones.

        Args:
            documents: Vectors of the other texts.
            first: Number of the first text of each pair.
            second: Number of the second text of each pair, in `documents`.

        Returns:
            float32.
        """
        products = self.table[first].multiply(documents.table[second])
        return np.asarray(products.sum(axis=1), dtype=np.float32).reshape(-1)

    def matrix(
        self, documents: "SparseVectors", queries: Numbers, numbers: Numbers
    ) -> Float[np.ndarray, "queries documents"]:
        """Compute the dot product of each query with each document. Equal documents have equal scores.

        Args:
            documents: Vectors of the other texts.
            queries: Numbers of the queries, among these texts.
            numbers: Numbers of the documents.

        Returns:
            float32.
        """
        asked = self.table[queries].T.tocsr()  # a column for each query
        is_all = len(numbers) == len(documents) and (numbers == np.arange(len(documents))).all()
        table = documents.table if is_all else documents.table[numbers]
        scores = np.empty((len(queries), len(numbers)), dtype=np.float32)
        step = max(PRODUCTS_AT_ONCE // max(len(queries), 1), 1)
        for start in range(0, len(numbers), step):
            scores[:, start : start + step] = (table[start : start + step] @ asked).toarray().T
        return scores
