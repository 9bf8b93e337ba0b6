"""The family of language models that score pairs by their answer."""

import copy
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.layout import gives_answers
from juzhen.encoders.pair_encoder import AskedPairCollator
from juzhen.encoders.tokens import CachedTokenizer
from juzhen.encoders.truncation import TruncationStats, truncated_query_pairs, truncated_sentences
from juzhen.families.answers.encoder import GenerativeReranker
from juzhen.families.family import CrossEncoders


class GenerativeRerankers(CrossEncoders):
    """A query and a document as one question to a language model. The first text of a row is the query."""

    def holds(self, folder: Path) -> bool:
        return gives_answers(folder)

    def load(self, source: str | Path, **options: Any) -> GenerativeReranker:
        return GenerativeReranker.load(source, **options)

    def _collator(self, encoder: Any, tokenize: CachedTokenizer, options: dict[str, Any]) -> SentenceCollator:
        reading = copy.copy(tokenize)
        reading.encoder = encoder.reader
        orders = {"both_in_training": False, "both_in_evaluation": False} | options
        return AskedPairCollator(reading, join=encoder.join, room=encoder.room, **orders)

    def cut(self, encoder: Any, examples: Examples, lengths: np.ndarray | None = None) -> TruncationStats:
        if len(examples.columns) == 1:
            return truncated_sentences(encoder.inner, examples, None)
        return truncated_query_pairs(encoder, examples)

    def export(self, encoder: Any, path: Path, *, quantised: bool) -> Path:
        raise UserError(
            "a language model that scores pairs by its answer is not exported as a graph. Use --format "
            "sentence-transformers, whose folder servers of language models read"
        )
