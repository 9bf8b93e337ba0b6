"""What /search looks through, and the limits of one request."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from juzhen.core.columns import check_texts
from juzhen.index import Index, IndexHit
from juzhen.index.qdrant import QdrantIndex
from juzhen.index.rerank import RERANKED
from juzhen.serving.bodies import SearchBody
from juzhen.serving.errors import RequestError, naming

MOST_HITS = 50_000
"""Texts of an answer."""


@dataclass(frozen=True)
class Corpus:
    """An index, its name, and how many numbers of an embedding it holds."""

    index: Index | QdrantIndex
    name: str
    dim: int

    def search(
        self, queries: list[str], body: SearchBody, depth: int, vectors: np.ndarray | None
    ) -> list[list[IndexHit]]:
        """Raises RequestError for a filter or a mode that does not suit the index."""
        where = body.filter or None
        with naming("mode", "filter", "per_document"):
            return self.index.search(
                queries,
                depth,
                mode=body.mode,
                where=where,
                vectors=vectors,
                per_document=body.per_document,
            )

    def facts(self, *, reranks: bool) -> dict[str, Any]:
        """As /index tells them."""
        return {"name": self.name, **self.index.facts(), "reranks": reranks}


def require_corpus(corpus: Corpus | None) -> Corpus:
    if corpus is None:
        raise RequestError(404, "there is nothing to search; start the server with --index", code="no_index")
    return corpus


def depth_of(queries: list[str], body: SearchBody, *, most_pairs: int) -> int:
    """Hits of each query that are looked up. Raises RequestError for more than a request may have."""
    depth = max(body.top_k, RERANKED) if body.rerank else body.top_k
    most = most_pairs if body.rerank else MOST_HITS
    if len(queries) * depth > most:
        message = (
            f"query: {len(queries):,} texts with {depth} hits each; at most {most:,} hits in one request"
        )
        raise RequestError(400, message, param="query")
    with naming("query"):
        check_texts(queries, called="query: text")
    return depth
