"""The score of late interaction, MaxSim: each token of a query finds the nearest token of a document.

(Khattab and Zaharia 2020, equation 3, https://arxiv.org/abs/2004.12832) Texts are (texts, length, dim), vectors of
length 1, and 0 where there is no token. Of one vector each, of any length, the score is their dot product. A text
without any token scores 0.
"""

import torch
from jaxtyping import Float
from torch import Tensor

AT_ONCE = 2**24
"""Products of tokens that are held at a time, 64 MiB."""


def all_maxsims(
    queries: Float[Tensor, "queries length dim"],
    documents: Float[Tensor, "documents tokens dim"],
    *,
    at_once: int = AT_ONCE,
) -> Float[Tensor, "queries documents"]:
    """Mean over the tokens i of a query of max_j q_i · d_j, of each query with each document; in [−1, 1] for length 1.

    ColBERT takes the sum, which is this times the number of tokens of the query. Documents are looked at some at a
    time, at most `at_once` products; for the gradient the number of the nearest token is kept, and no product.
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
    """The same of each query with the document of its row."""
    products = torch.bmm(queries, documents.transpose(1, 2))
    is_token = _is_token(documents)
    nearest = products.masked_fill(~is_token[:, None], -torch.inf).max(dim=-1).values
    nearest = nearest.masked_fill(~is_token.any(dim=-1, keepdim=True), 0)
    return _mean(nearest.unsqueeze(-1), queries).squeeze(-1)


def _is_token(texts: Float[Tensor, "texts length dim"]) -> Tensor:
    """Where there is a token."""
    return (texts != 0).any(dim=-1)


def _mean(
    nearest: Float[Tensor, "queries length documents"], queries: Float[Tensor, "queries length dim"]
) -> Float[Tensor, "queries documents"]:
    is_token = _is_token(queries)
    count = is_token.sum(dim=1, keepdim=True).clamp(min=1)
    return nearest.masked_fill(~is_token.unsqueeze(-1), 0).sum(dim=1) / count
