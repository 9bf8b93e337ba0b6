"""Encoders that read queries and documents apart, and score a query with a document by more than a cosine."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import nn

from juzhen.core.columns import as_pairs, as_text_list, as_texts, side_by_side
from juzhen.core.examples import Side
from juzhen.core.text_warnings import STRICT, reported
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.search import Best, as_hits, check_top_k
from juzhen.encoders.tokens import BATCH_TOKENS


class AsymmetricEncoder(nn.Module):
    """What an encoder can do whose `vectors` have `matrix` and `pairs`: queries of these with documents of others."""

    @abstractmethod
    def vectors(
        self, texts: Sequence[str], side: Side, batch_tokens: int = BATCH_TOKENS, progress: bool | None = None
    ) -> Any:
        """What is scored of each text, read as queries or as documents."""

    @abstractmethod
    def encode(
        self,
        texts: str | Iterable[str],
        *,
        is_query: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> Any:
        """What is scored of each text in order."""

    @property
    @abstractmethod
    def facts(self) -> str:
        """All that changes its scores beside weights, tokenizer and lengths."""

    @takes_peer_options
    def encode_query(self, texts: str | Iterable[str], **options: Any) -> Any:
        """`encode` of queries."""
        return self.encode(texts, is_query=True, **options)

    @takes_peer_options
    def encode_document(self, texts: str | Iterable[str], **options: Any) -> Any:
        """`encode` of documents."""
        return self.encode(texts, is_query=False, **options)

    @takes_peer_options
    def similarity(
        self,
        queries: str | Iterable[str],
        documents: str | Iterable[str],
        *,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> Float[np.ndarray, "queries documents"]:
        """The score of each query with each document, as texts. Options and errors: as `encode`."""
        with reported(strict=strict, advice=STRICT):
            asking = self.vectors(as_texts(queries)[0], Side.QUERY, batch_tokens, show_progress)
            answers = self.vectors(as_texts(documents)[0], Side.DOCUMENT, batch_tokens, show_progress)
        return asking.matrix(answers, np.arange(len(asking)), np.arange(len(answers)))

    @takes_peer_options
    def score(
        self,
        pairs: Iterable[tuple[str, str]] | tuple[str, str] | str | Iterable[str],
        second: str | Iterable[str] | None = None,
        /,
        *,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> Float[np.ndarray, "*pairs"]:
        """The score of each pair in its order, float32; the first text of a pair is the query. Of one pair a number.

        strict  as of `encode`
        """
        first, other, is_one = as_pairs(side_by_side(pairs, second))
        tables = [list(dict.fromkeys(texts)) for texts in (first, other)]
        sides = []
        with reported(strict=strict, advice=STRICT):
            for side, texts, table in zip((Side.QUERY, Side.DOCUMENT), (first, other), tables, strict=True):
                with reported(strict=strict) as seen:
                    seen.weights.update(texts)
                    sides.append(self.vectors(table, side, batch_tokens, show_progress))
        queries, documents = sides
        places = [{text: number for number, text in enumerate(table)} for table in tables]
        rows = [
            np.array([place[text] for text in texts], dtype=np.int64)
            for place, texts in zip(places, (first, other), strict=True)
        ]
        scores = queries.pairs(documents, *rows)
        return scores[0] if is_one else scores

    @takes_peer_options
    def search(
        self,
        queries: str | Iterable[str],
        corpus: Iterable[str],
        top_k: int | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> Any:
        """For each query the `top_k` documents with the highest scores as `Hit`s, best first; of one query one list.

        All documents are looked at. top_k: None: 10, or all where there are fewer. Options and errors: as `encode`.
        """
        asked, is_one = as_texts(queries)
        documents = as_text_list(corpus, "corpus")
        top_k = min(10, len(documents)) if top_k is None else top_k
        check_top_k(top_k, len(documents))
        best = Best(len(asked), top_k)
        scores = self.similarity(
            asked, documents, batch_tokens=batch_tokens, show_progress=show_progress, strict=strict
        )
        best.add(scores, 0)
        hits = as_hits(*best.lists())
        return hits[0] if is_one else hits
