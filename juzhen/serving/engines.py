"""What is served: encoders that make tokens of texts, and numbers of tokens, in batches over all requests."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Self

import numpy as np
import torch
from scipy.special import expit

from juzhen.backends import open_backend
from juzhen.core.columns import check_texts, sound_rows
from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import Side
from juzhen.encoders.cut import cut_texts
from juzhen.encoders.decision import Decides
from juzhen.encoders.grades import similarity
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.special_tokens import special_around
from juzhen.encoders.token_table import TokenTable
from juzhen.encoders.transformer import token_embeddings
from juzhen.encoders.unknown import note_unknown
from juzhen.serving.errors import RequestError

SIDES = {
    "query": Side.QUERY,
    "search_query": Side.QUERY,
    "document": Side.DOCUMENT,
    "passage": Side.DOCUMENT,
    "search_document": Side.DOCUMENT,
}
"""input_type of Cohere's, Jina's and Voyage's clients → the side whose prompt is meant; the others have the default."""


@dataclass(frozen=True)
class ServedThreshold:
    """The score of an encoder from which two texts count as the same.

    of      the set on whose dev split it was fitted; None: it was given as a number
    reason  why there is none
    """

    value: float | None = None
    of: str | None = None
    reason: str | None = None

    @classmethod
    def of_encoder(cls, encoder: Decides, chosen: str | None = None) -> Self:
        """That of a set, or a number, where one is chosen; else the encoder's own, where it has one.

        Raises UserError for a chosen set that has none.
        """
        if chosen is not None and (number := as_number(chosen)) is not None:
            return cls(number)
        try:
            name, value = encoder.fitted_threshold(chosen)
        except UserError as error:
            if chosen is not None:
                raise UserError(f"--threshold {chosen}: {error}") from error
            return cls(reason=str(error))
        return cls(value, name)

    def facts(self) -> dict[str, Any]:
        return {"threshold": self.value, "set": self.of}


def as_number(text: str) -> float | None:
    """A finite number that stands in a text; None where it is another word."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


class Embedder:
    """An encoder, its prompts, its back end and its threshold.

    The tokenizer is one for all, and has a lock: its settings belong to the call that is at work.
    """

    def __init__(
        self, encoder: SentenceEncoder, name: str, backend: str, *, threshold: str | None = None
    ) -> None:
        self.threshold = ServedThreshold.of_encoder(encoder, threshold)
        self.encoder, self.name = encoder.eval(), name
        self.lock = threading.Lock()
        self._backend = open_backend(encoder, backend)
        self._readers: dict[tuple[str | None, str | None], SentenceEncoder] = {}
        ids = encoder.tokenizer("a")["input_ids"]
        before, after = special_around(encoder.tokenizer)
        self._special = ids[:before], ids[len(ids) - after :]
        self._num_tokens = len(token_embeddings(encoder.backbone).weight)
        try:  # whatever is made at the first call
            self.compute([(tokens, 0) for tokens in encoder.tokenize(["a", "今天"])])
        except FloatingPointError as error:
            raise UserError(f"{name}: {error}. Replace the weights, or choose the back end torch.") from error

    def reader(self, prompt_name: str | None, input_type: str | None) -> SentenceEncoder:
        """The encoder behind the prompt that is asked for. Raises RequestError for one that it does not have."""
        key = prompt_name, input_type
        if key not in self._readers:
            if prompt_name is not None and input_type is not None:
                raise RequestError(400, "prompt_name, input_type: give one of the two", param="prompt_name")
            if prompt_name is None:
                self._readers[key] = self.encoder.reading(SIDES.get(input_type or "", Side.EVERY))
            elif prompt_name in (names := self.encoder.prompts.texts):
                self._readers[key] = self.encoder.with_prompt(prompt_name)
            else:
                hint = nearest(prompt_name, names) if names else "this encoder has none"
                raise RequestError(400, f"prompt_name: no such prompt; {hint}", param="prompt_name")
        return self._readers[key]

    def tokens(
        self, texts: Sequence[str], reader: SentenceEncoder, *, param: str, truncate: bool
    ) -> tuple[list[tuple[np.ndarray, int]], np.ndarray, int]:
        """What `compute` takes of each text, their lengths, and how many of them are cut.

        Raises RequestError for a text that is longer than the encoder reads, unless it may be cut.
        """
        check_texts(texts, called=f"{param}: text")
        table = reader.tokenize(texts)
        is_cut = cut_texts(reader, texts, table.lengths)
        note_unknown(reader, texts, table)
        if not truncate and is_cut.any():
            raise RequestError(
                400,
                f"{param}: text {int(is_cut.argmax())} has more than the {reader.max_length} tokens that this encoder "
                "reads; send a shorter text, or truncate: true",
                param=param,
                code="context_length_exceeded",
            )
        inputs = [(ids, reader.unpooled) for ids in table]
        return inputs, self.encoder.input_lengths(table), int(is_cut.sum())

    def checked_ids(
        self, lists: Sequence[Any], *, param: str
    ) -> tuple[list[tuple[np.ndarray, int]], np.ndarray]:
        """What `compute` takes of token numbers, and their lengths. They are read as they are.

        Raises RequestError for those of another tokenizer.
        """
        before, after = self._special
        for number, ids in enumerate(lists):
            is_whole = ids[: len(before)] == before and ids[len(ids) - len(after) :] == after
            if not is_whole or max(ids) >= self._num_tokens or len(ids) <= len(before) + len(after):
                raise RequestError(
                    400,
                    f"{param}: token list {number} is not of this encoder's tokenizer, whose lists begin with "
                    f"{before}, end with {after} and hold numbers below {self._num_tokens:,}; send texts "
                    "(LangChain: check_embedding_ctx_length=False)",
                    param=param,
                )
            if len(ids) > self.encoder.max_length:
                raise RequestError(
                    400,
                    f"{param}: token list {number} has {len(ids):,} tokens; the encoder reads "
                    f"{self.encoder.max_length}",
                    param=param,
                    code="context_length_exceeded",
                )
        table = TokenTable.of(lists)
        return [(ids, 0) for ids in table], self.encoder.input_lengths(table)

    def shares(self, scores: Any) -> np.ndarray:
        """Scores from 0 to 1: (1 + cosine) / 2, of a learnt form its sigmoid."""
        scores = np.asarray(scores, dtype=np.float64)
        return np.clip((1 + scores) / 2, 0, 1) if self.encoder.score_head is None else expit(scores)

    def compute(self, inputs: Sequence[tuple[np.ndarray, int]]) -> np.ndarray:
        """Vectors of token numbers, each with the number of tokens that pooling leaves out; equal ones once."""
        keys = [(unpooled, ids.tobytes()) for ids, unpooled in inputs]
        distinct = dict(zip(keys, inputs, strict=True))
        rows = {key: row for row, key in enumerate(distinct)}
        vectors = np.empty((len(distinct), self.encoder.dim), dtype=np.float32)
        for unpooled in {unpooled for unpooled, _ in distinct}:
            chosen = [key for key in distinct if key[0] == unpooled]
            tokens = self.encoder.collate([distinct[key][0] for key in chosen])
            tokens.unpooled = unpooled
            vectors[[rows[key] for key in chosen]] = self._backend.encode(tokens)
        require_finite(vectors, may_be_zero=self.encoder.may_be_zero)
        return vectors[[rows[key] for key in keys]]


class Reranker:
    """A cross-encoder and its threshold."""

    def __init__(self, encoder: PairEncoder, name: str) -> None:
        self.threshold = ServedThreshold.of_encoder(encoder)
        self.encoder, self.name = encoder.eval(), name
        self.lock = threading.Lock()

    def tokens(self, query: str, documents: Sequence[str]) -> tuple[list[Any], np.ndarray, int]:
        """What `compute` takes of each pair, their lengths, and how many of them are cut."""
        check_texts([query], called="query: text")
        check_texts(documents, called="documents: text")
        query_table, table = self.encoder.tables([query], documents)
        self.encoder.note_unknown([query], documents, (query_table, table))
        first, second = np.full(len(documents), query_table.lengths[0]), table.lengths
        lengths = self.encoder.room(first, second)
        num_cut = int(self.encoder.is_cut(first, second).sum())
        return [(query_table[0], ids) for ids in table], lengths, num_cut

    def pair_tokens(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[Any], np.ndarray, int]:
        """The same of pairs that share no query."""
        inputs, lengths, cut = zip(*(self.tokens(first, [second]) for first, second in pairs), strict=True)
        return [joint for (joint,) in inputs], np.concatenate(lengths), sum(cut)

    @torch.inference_mode()
    def compute(self, inputs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        first, second = (TokenTable.of([pair[side] for pair in inputs]) for side in (0, 1))
        orders = [(first, second), (second, first)] if self.encoder.symmetric else [(first, second)]
        device = self.encoder.inner.device
        logits = [self.encoder(self.encoder.join(*order).to(device)) for order in orders]
        scores = similarity(torch.stack(logits).mean(dim=0), self.encoder.grades)
        raw: np.ndarray = scores.float().cpu().numpy()
        require_finite(raw)
        return raw

    def shares(self, scores: Any) -> np.ndarray:
        """Scores from 0 to 1."""
        return np.asarray(expit(np.asarray(scores, dtype=np.float64)))


def require_finite(numbers: np.ndarray, *, may_be_zero: bool = True) -> None:
    if not sound_rows(numbers, may_be_zero=may_be_zero).all():
        raise FloatingPointError("the model gave NaN or infinity")
