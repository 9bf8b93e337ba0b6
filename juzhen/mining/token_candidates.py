"""Candidates that an encoder of token vectors finds, by exact MaxSim."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from juzhen.core.errors import UserError
from juzhen.core.examples import Side
from juzhen.data.rankings import RankingSet
from juzhen.encoders.embedding_cache import encoder_digest
from juzhen.encoders.multi_vector import MultiVectorEncoder, is_multi_vector
from juzhen.encoders.search import Best
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.texts import BATCH_TOKENS
from juzhen.encoders.token_vectors import TokenVectors
from juzhen.mining.candidates import Advance, Found, Numbers, Scores

QUERIES_AT_ONCE = 32


class MaxSimRetriever:
    """Documents by the MaxSim of their tokens; all of them are looked at.

    Encodes queries and corpus when it is first asked, dim × 4 bytes for each token. Takes the options of a
    `DenseRetriever`; its cache keeps one vector per text, and is not used. Raises UserError for an index that is not
    exact, and for prompts by name.
    """

    def __init__(
        self,
        encoder: MultiVectorEncoder,
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
        if index != "exact" or query_prompt is not None or document_prompt is not None:
            raise UserError(
                "index, query_prompt, document_prompt: an encoder of token vectors takes none of them"
            )
        self.name, self._encoder, self._ranking = name, encoder, ranking
        self._how = batch_tokens, progress
        self.prompts = [encoder.reading(side).prompt for side in (Side.QUERY, Side.DOCUMENT)]
        self.digest = encoder_digest(encoder, f"{encoder.rules} {self.prompts}")

    @cached_property
    def _vectors(self) -> tuple[TokenVectors, TokenVectors]:
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


def load_source(source: str | Path) -> SentenceEncoder | MultiVectorEncoder:
    """The encoder of a run or a folder that finds documents. Errors: as `SentenceEncoder.load`."""
    return MultiVectorEncoder.load(source) if is_multi_vector(source) else SentenceEncoder.load(source)
