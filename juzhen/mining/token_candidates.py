"""Candidates that an encoder of token vectors or a sparse encoder finds, by its exact scores."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from juzhen.core.errors import UserError
from juzhen.core.examples import Side
from juzhen.data.rankings import RankingSet
from juzhen.encoders.asking import AskingEncoder
from juzhen.encoders.embedding_cache import encoder_digest
from juzhen.encoders.locate import locate_folder
from juzhen.encoders.search import Best
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.texts import BATCH_TOKENS
from juzhen.families.family import AskingEncoders
from juzhen.families.registry import family_in
from juzhen.mining.candidates import Advance, Found, Numbers, Scores

QUERIES_AT_ONCE = 32


class AskingRetriever:
    """Documents by the scores of an `AskingEncoder`; all of them are looked at.

    Encodes queries and corpus when it is first asked: dim × 4 bytes for each token, of a sparse encoder 8 for each
    number above 0. Takes the options of a `DenseRetriever`; its cache keeps embeddings, and is not used. Raises
    UserError for an index that is not exact, and for prompts by name.
    """

    def __init__(
        self,
        encoder: Any,
        ranking: RankingSet,
        *,
        name: str = "encoder",
        index: str = "exact",
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        cache: Any = None,
        progress: bool | None = None,
    ) -> None:
        if index != "exact":
            has = {"multi_vector": "one per token", "sparse": "sparse ones"}
            other = has.get(encoder.family, "other weights for queries")
            raise UserError(
                f"index={index}: holds one vector per text, and this encoder has {other}; type index=exact"
            )
        if query_prompt is not None or document_prompt is not None:
            raise UserError(
                "query_prompt, document_prompt: this encoder reads queries and documents in the one way it has learnt"
            )
        self.name, self._encoder, self._ranking = name, encoder, ranking
        self._how = batch_tokens, progress
        self.prompts = [encoder.reading(side).prompt for side in (Side.QUERY, Side.DOCUMENT)]
        self.digest = encoder_digest(encoder, encoder.facts)

    @cached_property
    def _vectors(self) -> tuple[Any, Any]:
        return (
            self._encoder.vectors(self._ranking.queries, Side.QUERY, *self._how),
            self._encoder.vectors(self._ranking.corpus, Side.DOCUMENT, *self._how),
        )

    def search(self, queries: Int[np.ndarray, "queries"], k: int, advance: Advance) -> Found:
        asking, answers = self._vectors
        numbers, lists = np.arange(len(answers)), []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            portion = queries[start : start + QUERIES_AT_ONCE]
            best = Best(len(portion), k)
            best.add(asking.matrix(answers, portion, numbers), 0)
            lists.append(best.lists())
            advance(len(portion))
        documents, scores = zip(*lists, strict=True)
        return np.concatenate(documents), np.concatenate(scores)

    def score(self, queries: Numbers, documents: Numbers) -> Scores:
        asking, answers = self._vectors
        return asking.pairs(answers, queries, documents)


def load_source(source: str | Path) -> SentenceEncoder | AskingEncoder:
    """The encoder of a run or a folder that finds documents. Errors: as `SentenceEncoder.load`."""
    folder = locate_folder(str(source))
    family = None if folder is None else family_in(folder)
    load = family.load if isinstance(family, AskingEncoders) else SentenceEncoder.load
    encoder: SentenceEncoder | AskingEncoder = load(source)
    return encoder
