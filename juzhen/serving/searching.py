"""What /search looks through, and the limits of one request."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from juzhen.core.columns import check_texts
from juzhen.core.errors import UserError
from juzhen.index import Index, IndexHit
from juzhen.index.qdrant import QdrantIndex
from juzhen.index.rerank import RERANKED
from juzhen.serving.bodies import SearchBody
from juzhen.serving.errors import RequestError

MOST_HITS = 50_000
"""Texts of an answer."""


@dataclass(frozen=True)
class Corpus:
    """An index, and its name."""

    index: Index | QdrantIndex
    name: str

    def search(
        self, queries: list[str], body: SearchBody, depth: int, vectors: np.ndarray | None
    ) -> list[list[IndexHit]]:
        """Raises RequestError for a filter or a mode that does not suit the index."""
        where = body.filter or None
        try:
            return self.index.search(
                queries,
                depth,
                mode=body.mode,
                where=where,
                vectors=vectors,
                per_document=body.per_document,
            )
        except UserError as error:
            first = str(error).partition(":")[0]
            param = first if first in ("filter", "per_document") else "mode"
            raise RequestError(400, str(error), param=param) from error

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
    try:
        check_texts(queries, called="query: text")
    except UserError as error:
        raise RequestError(400, str(error), param="query") from error
    return depth
