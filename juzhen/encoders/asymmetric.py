"""Encoders that encode queries and documents differently, and score them by a custom similarity."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from juzhen.core.columns import as_pairs, as_text_list, as_texts, side_by_side
from juzhen.core.examples import Side
from juzhen.core.text_warnings import STRICT, reported
from juzhen.encoders.batch_invariance import check_batch_invariance
from juzhen.encoders.components import unlike_default, warn_of
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.save import licence_of
from juzhen.encoders.search import Best, as_hits, check_top_k
from juzhen.encoders.tokens import BATCH_TOKENS

ROLES = np.array([Side.EVERY, Side.QUERY, Side.EVERY, Side.QUERY], dtype=np.int8)
"""Sides of encoders that read texts without a side as documents."""


class AsymmetricEncoder(nn.Module):
    """Base class of encoders for queries and documents. `vectors` returns objects with `matrix` and `pairs`."""

    def _opened(self: Any, source: str | Path, folder: Path, place: torch.device) -> Any:
        """The encoder after its parts were read from a folder."""
        self.licence = licence_of(folder)
        if not self._packs:
            check_batch_invariance(self)
        self._is_finished = True
        self._is_loaded_from(folder)
        warn_of(source, unlike_default(self.prompts))
        return self.to(place).eval()

    @abstractmethod
    def vectors(
        self, texts: Sequence[str], side: Side, batch_tokens: int = BATCH_TOKENS, progress: bool | None = None
    ) -> Any:
        """Representation of each text as a query or as a document.

        Args:
            texts: The texts.
            side: Read the texts as queries or as documents.
            batch_tokens: Tokens of a batch, padding included.
            progress: Progress bar. None shows it on a terminal once the work has taken some seconds.

        Returns:
            Vectors in the form of the family, in order.
        """

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
        """Representation of each text in order.

        Args:
            texts: One text or a list.
            is_query: Read the texts as queries. False: as documents.
            batch_tokens: Tokens of a batch, padding included.
            show_progress: Progress bar. None shows it on a terminal once the work has taken some seconds.
            strict: Raise an error for a truncated text. False prints one warning.

        Returns:
            Vectors in the form of the family, in order. The vector alone for a single text.
        """

    @property
    @abstractmethod
    def facts(self) -> str:
        """Settings that change the scores, besides weights, tokenizer and lengths."""

    @takes_peer_options
    def encode_query(self, texts: str | Iterable[str], **options: Any) -> Any:
        """Encode queries.

        Args:
            texts: One text or a list.
            **options: As of `encode`.

        Returns:
            As of `encode`.

        Example:
            >>> MultiVectorEncoder.load("runs/NAME").encode_query("怎么退货").shape  # doctest: +SKIP
        """
        return self.encode(texts, is_query=True, **options)

    @takes_peer_options
    def encode_document(self, texts: str | Iterable[str], **options: Any) -> Any:
        """Encode documents.

        Args:
            texts: One text or a list.
            **options: As of `encode`.

        Returns:
            As of `encode`.

        Example:
            >>> SparseEncoder.load("runs/NAME").encode_document(["如何退货"]).shape  # doctest: +SKIP
        """
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
        """Score each query with each document. Options and errors as in `encode`.

        Args:
            queries: One query or a list.
            documents: One document or a list.
            batch_tokens: Tokens of a batch, padding included.
            show_progress: Progress bar. None shows it on a terminal once the work has taken some seconds.
            strict: Raise an error for a truncated text. False prints one warning.

        Returns:
            float32 array (queries, documents), higher = closer.

        Example:
            >>> SparseEncoder.load("runs/NAME").similarity("怎么退货", ["今天天气很好", "如何退货"])  # doctest: +SKIP
        """
        with reported(strict=strict, advice=STRICT):
            asking = self.vectors(as_texts(queries, "queries")[0], Side.QUERY, batch_tokens, show_progress)
            answers = self.vectors(
                as_texts(documents, "documents")[0], Side.DOCUMENT, batch_tokens, show_progress
            )
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
        """Score pairs in order, float32. The first text of a pair is the query. A single pair gives a number.

        Args:
            pairs: Pairs of query and document, one pair, or the queries.
            second: Documents, if `pairs` are queries.
            batch_tokens: Tokens of a batch, padding included.
            show_progress: Progress bar. None shows it on a terminal once the work has taken some seconds.
            strict: Raise an error for a truncated text. False prints one warning.

        Returns:
            float32 array (pairs,). A number for a single pair.

        Example:
            >>> SparseEncoder.load("runs/NAME").score("怎么退货", "如何退货")  # doctest: +SKIP
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
        """Find the `top_k` documents with the highest scores for each query, best first.

        All documents are scored. Options and errors as in `encode`.

        Args:
            queries: One query or a list.
            corpus: Documents.
            top_k: Documents per query. None returns 10, or all if there are fewer.
            batch_tokens: Tokens in a batch.
            show_progress: Show a progress bar. None: on a terminal.
            strict: Raise UserError for a truncated text.

        Returns:
            A list of `Hit` for each query. One list for a single query.

        Example:
            >>> SparseEncoder.load("runs/NAME").search("怎么退货", ["天气很好", "如何退货"], top_k=1)  # doctest: +SKIP
        """
        asked, is_one = as_texts(queries, "queries")
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
