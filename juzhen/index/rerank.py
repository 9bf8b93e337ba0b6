"""The second stage of a search: a cross-encoder puts what was found in order."""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.index.hits import IndexHit

RERANKED = 50
"""Texts that the cross-encoder reads for each query, or as many as are asked for if that is more."""


def in_order_of(found: Sequence[IndexHit], scores: np.ndarray, top_k: int) -> list[IndexHit]:
    """The best of them by these scores; of equal ones the one that came first stays first."""
    order = np.argsort(-scores, kind="stable")[:top_k]
    return [found[position]._replace(score=float(scores[position])) for position in order.tolist()]


def reranked(
    encoder: PairEncoder, queries: Sequence[str], found: Sequence[Sequence[IndexHit]], top_k: int
) -> list[list[IndexHit]]:
    """For each query the `top_k` best of its texts by the cross-encoder, whose scores are from 0 to 1."""
    pairs = [(query, hit.text) for query, hits in zip(queries, found, strict=True) for hit in hits]
    scores = expit(encoder.score(pairs)) if pairs else np.empty(0)
    ends = np.cumsum([len(hits) for hits in found])[:-1]
    parts = np.split(scores, ends)
    return [in_order_of(hits, part, top_k) for hits, part in zip(found, parts, strict=True)]
