"""The score of late interaction, MaxSim: each token of a query finds the nearest token of a document.

(Khattab and Zaharia 2020, equation 3, https://arxiv.org/abs/2004.12832) Texts are (texts, length, dim), vectors of
length 1, and 0 where there is no token.
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
    """Mean over the tokens i of a query of max_j q_i · d_j, of each query with each document; in [−1, 1].

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
        products = products.masked_fill(~_is_token(portion), -torch.inf)
        parts.append(products.max(dim=-1).values)
    return _mean(torch.cat(parts, dim=2), queries)


def row_maxsims(
    queries: Float[Tensor, "batch length dim"], documents: Float[Tensor, "batch tokens dim"]
) -> Float[Tensor, "batch"]:
    """The same of each query with the document of its row."""
    products = torch.bmm(queries, documents.transpose(1, 2))
    products = products.masked_fill(~_is_token(documents)[:, None], -torch.inf)
    return _mean(products.max(dim=-1).values.unsqueeze(-1), queries).squeeze(-1)


def _is_token(texts: Float[Tensor, "texts length dim"]) -> Tensor:
    """Where there is a token."""
    return (texts != 0).any(dim=-1)


def _mean(
    nearest: Float[Tensor, "queries length documents"], queries: Float[Tensor, "queries length dim"]
) -> Float[Tensor, "queries documents"]:
    is_token = _is_token(queries)
    return nearest.masked_fill(~is_token.unsqueeze(-1), 0).sum(dim=1) / is_token.sum(dim=1, keepdim=True)
