"""Texts that are longer than an encoder reads: split into chunks, whose embeddings are averaged, instead of cut.

How many texts are cut is counted here, too.
"""

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, Self, runtime_checkable
from unicodedata import normalize

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from juzhen.core.batch import Tokens
from juzhen.core.columns import as_texts, require_finite
from juzhen.core.errors import UserError, check_count, nearest
from juzhen.core.examples import Examples, Side
from juzhen.core.lazy_names import offered
from juzhen.core.text import percent
from juzhen.core.text_warnings import STRICT, Truncations, current, reported
from juzhen.data.running_text import TextTable
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import unit
from juzhen.encoders.tokens import (
    BATCH_TOKENS,
    TEXTS_PER_CALL,
    TokenTable,
    batches_by_length,
    note_unknown,
    special_around,
)
from juzhen.encoders.workers import Workers

LongTexts = Literal["cut", "chunk"]
LONG_TEXTS: tuple[LongTexts, ...] = ("cut", "chunk")

UNLIMITED = 2**30
"""Tokens that no text has."""


@runtime_checkable
class Backend(Protocol):
    """Turns tokens into embeddings, without gradients and without dropout."""

    @property
    def name(self) -> str:
        """Short name of the computation. It is part of the key of cached embeddings."""

    def encode(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings in float32, in the order in which the sentences were collated.

        Args:
            tokens: Collated sentences.

        Returns:
            float32 array (sentences, dim).
        """


class LongTextMixin(PooledEncoder):
    """Handling of texts with more than `max_length` tokens."""

    _chunk_overlap: int | None = None

    @property
    def chunk_overlap(self) -> int | None:
        """Tokens that neighbouring chunks of a long text share. None if long texts are truncated."""
        return self._chunk_overlap

    def require_length(self, normalize: bool | None) -> None:
        """Raise UserError for `normalize=False`, which encoders of embeddings of length 1 do not follow.

        Args:
            normalize: Option of a call.

        Raises:
            UserError: `normalize` is False, and the embeddings have length 1.
        """
        if normalize is False and self.normalize:
            raise UserError("normalize=False: this encoder gives embeddings of length 1. Leave it out")

    @takes_peer_options
    def with_long_texts(self, long_texts: LongTexts | None, overlap: int | None = None) -> Self:
        """Return a copy that shares the weights and treats long texts differently.

        Args:
            long_texts: cut: truncate · chunk: mean of the embeddings of the chunks, weighted by tokens. None returns
                itself.
            overlap: Tokens that neighbouring chunks share. None is 0.

        Returns:
            The copy.

        Raises:
            UserError: The encoder reads texts through templates.
        """
        if long_texts not in (None, *LONG_TEXTS):
            raise UserError(
                f"long_texts={long_texts!r}: unknown choice. {nearest(str(long_texts), LONG_TEXTS)}"
            )
        if overlap is not None and long_texts != "chunk":
            raise UserError(f'overlap={overlap}: only chunks overlap. Give long_texts="chunk" with it')
        if long_texts is None:
            return self
        other = copy.copy(self)
        other._chunk_overlap = None
        if long_texts == "chunk":
            check_count("overlap", overlap or 0, least=0, most=room_of(self) - 1)
            other._chunk_overlap = overlap or 0
        return other

    @contextmanager
    def _reported(self, *, strict: bool, size: int) -> Iterator[Truncations]:
        """Warns once of texts that are truncated inside, and of embeddings cut to a `size` never trained."""
        chunks = "" if self.templates is not None else 'long_texts="chunk" reads them whole, '
        with reported(strict=strict, advice=chunks + STRICT) as seen:
            if size < min(self.nested_dims, default=self.dim):
                named = ", ".join(map(str, self.nested_dims)) or "none"
                seen.note(
                    f"truncate_dim={size}: the encoder was not trained for embeddings of {size} of its {self.dim} "
                    f"dimensions (nested_dims: {named}). Use more dimensions, or measure what is lost."
                )
            yield seen

    @takes_peer_options
    def lost_tokens(
        self, texts: str | Iterable[str], *, prompt_name: str | None = None, prompt: str | None = None
    ) -> Int[np.ndarray, "texts"]:
        """Number of tokens of each text that `encode` truncates. Prompts as in `encode`.

        Args:
            texts: One text or a list.
            prompt_name: Name of a prompt. None: the default.
            prompt: Text of a prompt.

        Returns:
            int array (texts,).
        """
        chosen = prompt_name is not None or prompt is not None
        encoder = self.with_prompt(prompt_name, prompt) if chosen else self
        sentences, _ = as_texts(texts, may_be_empty=True)
        lost = lost_tokens(encoder, sentences)
        return lost if self.chunk_overlap is None else np.zeros_like(lost)


@dataclass(frozen=True)
class Passages:
    """Passages of texts, text by text, in order.

    Attributes:
        vectors: float32 embeddings.
        texts: Number of the text of each passage.
        spans: Start and end among the characters of the text. The passages cover the text.
    """

    vectors: Float[np.ndarray, "passages dim"]
    texts: Int[np.ndarray, "passages"]
    spans: Int[np.ndarray, "passages 2"]

    def __len__(self) -> int:
        return len(self.vectors)


class PassageMixin(LongTextMixin):
    """An encoder that gives several vectors of a long text."""

    @takes_peer_options
    def encode_chunks(
        self,
        texts: str | Iterable[str],
        *,
        chunk_tokens: int | None = None,
        overlap: int = 0,
        late: bool = False,
        prompt_name: str | None = None,
        prompt: str | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        workers: int | Sequence[str | torch.device] | Workers | None = None,
        backend: Backend | None = None,
        strict: bool = False,
    ) -> Passages:
        """Encode texts as passages that cover them.

        Args:
            texts: One text or a list.
            chunk_tokens: Largest number of tokens of a passage, without special tokens and prompt. A passage may
                end in its last quarter, after a sentence or else a space. None takes the capacity of the encoder.
            overlap: Tokens that neighbours share.
            late: Late chunking: encode the whole text in one pass and average the token states of each passage
                (Günther et al. 2024, https://arxiv.org/abs/2409.04701). Special tokens count in the first and the
                last passage. A text with more tokens than positions takes several passes, which begin with tokens
                of the previous passage.
            prompt_name: As in `encode`.
            prompt: As in `encode`.
            normalize: As in `encode`.
            truncate_dim: As in `encode`.
            batch_tokens: As in `encode`.
            show_progress: As in `encode`.
            workers: As in `encode`.
            backend: As in `encode`.
            strict: As in `encode`.

        Returns:
            The passages and their embeddings.

        Raises:
            UserError: The tokenizer is slow and returns no character offsets. With `late`: the pooling is not mean, the
                transformer is causal, or workers or a backend are given.

        Example:
            >>> from juzhen import SentenceEncoder
            >>> text = "今天天气很好。我们去公园。" * 8
            >>> passages = SentenceEncoder.load("builtin/mini_zh").encode_chunks(text, chunk_tokens=16, overlap=2)
            >>> passages.spans[:2].tolist(), passages.vectors.shape
            ([[0, 26], [23, 46]], (5, 256))
        """
        options = {name: value for name, value in locals().items() if name not in ("self", "texts")}
        passages: Passages = offered("long_texts", "encode_chunks")(self, texts, **options)
        return passages


def require_plain(encoder: PooledEncoder, what: str) -> None:
    """Raise UserError for an encoder with templates, which has no chunks.

    Args:
        encoder: The encoder.
        what: Requested feature or option, for the message.

    Raises:
        UserError: The encoder has templates.
    """
    if encoder.templates is not None:
        raise UserError(
            f"{what}: this encoder reads texts through templates, which belong to whole texts. Leave it out "
            "(long texts are cut), or take an encoder without templates"
        )


@dataclass(frozen=True)
class Wrapping:
    """Number of tokens around a text.

    Args:
        before: Special tokens and a prompt before the text.
        after: Special tokens after it.
    """

    before: int
    after: int

    @classmethod
    def of(cls, encoder: PooledEncoder) -> "Wrapping":
        """Count the tokens around the texts of an encoder.

        Args:
            encoder: Its tokenizer and its prompt are read.

        Returns:
            Numbers of tokens before and after a text.
        """
        return cls(*special_around(encoder.tokenizer, prompt=encoder.prompt))

    @property
    def size(self) -> int:
        return self.before + self.after

    def inside(self, ids: np.ndarray) -> np.ndarray:
        """Return the tokens of the text alone.

        Args:
            ids: Tokens of a text with prompt and special tokens.

        Returns:
            View of the token ids without `before` first and `after` last ones.
        """
        return ids[self.before : len(ids) - self.after]

    def around(self, ids: np.ndarray, start: int, end: int) -> np.ndarray:
        """Return a part of a text with the prompt and special tokens of the whole one.

        Args:
            ids: Tokens of a text with prompt and special tokens.
            start: First token of the part, from 0 at the text itself.
            end: The token after the part.

        Returns:
            Token ids of the part between the prompt and the special tokens.
        """
        body = self.inside(ids)[start:end]
        return np.concatenate([ids[: self.before], body, ids[len(ids) - self.after :]])


def room_of(encoder: PooledEncoder) -> int:
    """Return how many tokens of a text the encoder reads at a time, without prompt and special tokens.

    Args:
        encoder: Its `max_length` counts all tokens.

    Returns:
        `max_length` less the tokens of prompt and special tokens.

    Raises:
        UserError: An encoder with templates.
    """
    require_plain(encoder, 'long_texts="chunk"')
    return encoder.max_length - Wrapping.of(encoder).size


def windows(count: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Start and end of windows of `size` tokens that cover `count` tokens. Neighbours share `overlap`.

    Args:
        count: Tokens of a text.
        size: Tokens of a window at most.
        overlap: Tokens that a window shares with the next one, less than `size`.

    Returns:
        (start, end) of each window, end exclusive. A text without tokens has one empty window.

    Example:
        >>> windows(10, 4, 1), windows(4, 4, 1), windows(0, 4, 0)
        ([(0, 4), (3, 7), (6, 10)], [(0, 4)], [(0, 0)])
    """
    step = size - overlap
    starts = range(0, max(count - overlap, 1), step)
    return [(start, min(start + size, count)) for start in starts]


def uncut(encoder: PooledEncoder, texts: Sequence[str], *, progress: bool | None = False) -> TokenTable:
    """Return the tokens of whole texts, special ones and the prompt included.

    Args:
        encoder: Not changed.
        texts: Of any length.
        progress: Show a progress bar. None: on a terminal, after some seconds.

    Returns:
        Token ids of each text, not truncated.
    """
    other = copy.copy(encoder)
    other.__dict__["max_length"] = UNLIMITED  # which may not be set: the transformer does not read so many
    return other.tokenize(texts, progress=progress)


@dataclass(frozen=True)
class ChunkTable:
    """Chunks of texts.

    Attributes:
        tokens: Tokens of each chunk, with the tokens around it.
        texts: Number of the text of each chunk, ascending.
        shares: Fraction of the tokens of the text in each chunk. 1 for an unsplit text.
    """

    tokens: TokenTable
    texts: Int[np.ndarray, "chunks"]
    shares: Float[np.ndarray, "chunks"]

    @classmethod
    def of(cls, encoder: LongTextMixin, texts: Sequence[str]) -> "ChunkTable":
        """Split texts of more than `max_length` tokens into chunks of that length.

        Args:
            encoder: Its `chunk_overlap` is the number of shared tokens.
            texts: Of any length.

        Returns:
            Chunks in the order of the texts, each with the number of its text and its share of the tokens.

        Raises:
            UserError: The overlap leaves no room.
        """
        frame, room, overlap = Wrapping.of(encoder), room_of(encoder), encoder.chunk_overlap or 0
        check_count("overlap", overlap, least=0, most=room - 1)  # a longer prompt leaves less room
        table = uncut(encoder, texts)
        note_unknown(encoder, texts, table, is_whole=True)
        rows: list[np.ndarray] = []
        counts: list[list[int]] = []
        for ids in table:
            if len(ids) <= encoder.max_length:
                rows.append(ids)
                counts.append([1])
                continue
            spans = windows(len(ids) - frame.size, room, overlap)
            rows += [frame.around(ids, start, end) for start, end in spans]
            counts.append([end - start for start, end in spans])
        shares = [np.array(of_text) / sum(of_text) for of_text in counts]
        numbers = np.repeat(np.arange(len(counts)), [len(of_text) for of_text in counts])
        return cls(TokenTable.of(rows), numbers, np.concatenate([np.empty(0), *shares]))


def computed(
    encoder: LongTextMixin,
    texts: Sequence[str],
    compute: Callable[[Tokens], Float[np.ndarray, "batch dim"]],
    workers: Workers | None,
    *,
    batch_tokens: int,
    advance: Callable[[int], None],
) -> Float[np.ndarray, "texts dim"]:
    """Compute embeddings of texts as the encoder reads long ones: cut, or as the mean over their chunks by tokens.

    The mean is brought to length 1 where the encoder's embeddings are.

    Args:
        encoder: Tokenizes the texts.
        texts: Of any length.
        compute: Tokens of a batch → embeddings.
        workers: Processes that compute, or None.
        batch_tokens: Tokens of a batch, padding included.
        advance: Called with the number of finished texts.

    Returns:
        float32.
    """
    embeddings = np.zeros((len(texts), encoder.dim), dtype=np.float32)
    if encoder.chunk_overlap is None:
        table = encoder.tokenize(texts)
        note_read(encoder, texts, table)
        for rows, vectors in encoded(encoder, table, compute, workers, batch_tokens):
            embeddings[rows] = vectors
            advance(len(rows))
        require_finite(embeddings, texts, may_be_zero=encoder.may_be_zero)
        return embeddings
    chunks = ChunkTable.of(encoder, texts)
    pending = np.bincount(chunks.texts, minlength=len(texts))
    is_split = pending > 1
    for rows, vectors in encoded(encoder, chunks.tokens, compute, workers, batch_tokens):
        numbers = chunks.texts[rows]
        np.add.at(embeddings, numbers, chunks.shares[rows, None].astype(np.float32) * vectors)
        np.subtract.at(pending, numbers, 1)
        advance(int((pending[np.unique(numbers)] == 0).sum()))
    if encoder.normalize and is_split.any():
        embeddings[is_split] = unit(embeddings[is_split])
    require_finite(embeddings, texts, may_be_zero=encoder.may_be_zero)
    return embeddings


def encoded(
    encoder: PooledEncoder,
    table: TokenTable,
    compute: Callable[[Tokens], Float[np.ndarray, "batch dim"]],
    workers: Workers | None,
    batch_tokens: int,
) -> Iterator[tuple[Int[np.ndarray, "batch"], Float[np.ndarray, "batch dim"]]]:
    """Compute embeddings of tokens, a batch of rows of like length at a time.

    Args:
        encoder: Packs the batches.
        table: Tokens of the texts.
        compute: Tokens of a batch → embeddings.
        workers: Processes that compute, or None.
        batch_tokens: Tokens of a batch, padding included.

    Yields:
        Row numbers and embeddings.
    """
    batches = list(batches_by_length(encoder.input_lengths(table), batch_tokens=batch_tokens))
    tables = (table[batch] for batch in batches)
    vectors = (
        (compute(encoder.collate(batch)) for batch in tables)
        if workers is None
        else workers.encode(tables, unpooled=encoder.unpooled)
    )
    yield from zip(batches, vectors, strict=True)


def note_read(encoder: PooledEncoder, texts: Sequence[str], table: TokenTable) -> None:
    """Count, for the call at work, texts that are truncated and texts that the encoder does not know all of.

    Args:
        encoder: The encoder.
        texts: The texts.
        table: Their tokens, as read by the encoder.

    Raises:
        UserError: As of `note_truncated`.
    """
    note_truncated(encoder, texts, table.lengths)
    note_unknown(encoder, texts, table)


def note_truncated(encoder: PooledEncoder, texts: Sequence[str], lengths: np.ndarray | None = None) -> None:
    """Record truncated texts for the current call.

    Args:
        encoder: The encoder.
        texts: The texts.
        lengths: As in `lost_tokens`.

    Raises:
        UserError: A text is truncated, and the call is strict.
    """
    if (seen := current()) is not None and getattr(encoder, "chunk_overlap", None) is None:
        rows = np.flatnonzero(find_truncated(encoder, texts, lengths)).tolist()
        seen.count([texts[row] for row in rows], texts, max_length=encoder.max_length)


def lost_tokens(
    encoder: PooledEncoder, texts: Sequence[str], lengths: np.ndarray | None = None
) -> Int[np.ndarray, "texts"]:
    """Tokens of each text beyond `max_length`. 0 if the text is read completely.

    Args:
        encoder: The encoder.
        texts: The texts.
        lengths: Upper bounds of the numbers of tokens. None if unknown. Texts that may exceed `max_length` are
            tokenized again.

    Returns:
        Tokens that the encoder does not read, int64.
    """
    lost = np.zeros(len(texts), dtype=np.int64)
    for rows, whole in _long_texts(encoder, texts, lengths, lambda text: text):
        lost[rows] = np.maximum(whole - encoder.max_length, 0)
    return lost


def find_truncated(
    encoder: PooledEncoder, texts: Sequence[str], lengths: np.ndarray | None = None
) -> Bool[np.ndarray, "texts"]:
    """Find the texts with more tokens than the encoder reads.

    Args:
        encoder: Its `max_length` is the limit.
        texts: Of any length.
        lengths: As in `lost_tokens`.

    Returns:
        True for truncated texts.
    """
    is_cut = np.zeros(len(texts), dtype=bool)
    for rows, counts in _long_texts(encoder, texts, lengths, encoder.beginning):
        is_cut[rows] = counts > encoder.max_length
    return is_cut


def _long_texts(
    encoder: PooledEncoder, texts: Sequence[str], lengths: np.ndarray | None, part: Callable[[str], str]
) -> Iterator[tuple[Int[np.ndarray, "some"], Int[np.ndarray, "some"]]]:
    """Rows of texts that may exceed `max_length`, and the tokens of that part of each."""
    lengths = most_tokens(encoder, texts) if lengths is None else lengths
    long = np.flatnonzero(lengths >= encoder.max_length)
    for start in range(0, len(long), TEXTS_PER_CALL):
        rows = long[start : start + TEXTS_PER_CALL]
        yield rows, uncut(encoder, [part(texts[row]) for row in rows.tolist()]).lengths


def most_tokens(encoder: PooledEncoder, texts: Sequence[str]) -> Int[np.ndarray, "texts"]:
    """Compute an upper bound of the tokens of each text: a token is one byte at least.

    Tokenizers may fold signs first: ㍿ is then four characters.

    Args:
        encoder: Its prompt and special tokens count.
        texts: Of any length.

    Returns:
        Upper bounds, int64.
    """
    special, may_grow = encoder.tokenizer.num_special_tokens_to_add(), _MAY_GROW.search
    folded = (normalize("NFKC", text) if may_grow(text) else text for text in encoder.prompted(texts))
    return np.array([len(text.encode()) + special for text in folded], dtype=np.int64)


_MAY_GROW = re.compile(r"[^\x00-\x7f\u3000-\u303f\u4e00-\u9fff\uff01-\uff5e]")
"""All signs but those that take no more bytes once they are folded."""

SAMPLED = 1000
"""Rows of running text that are looked at: it is tokenised when it is learnt from, and not before."""


@dataclass(frozen=True)
class TruncationStats:
    """Number of truncated texts.

    Attributes:
        looked_at: Number of texts.
        cut: Number of truncated texts.
        max_length: Tokens of a text.
        unit: texts, or pairs in a joint input.
    """

    looked_at: int
    cut: int
    max_length: int
    unit: str = "texts"

    @property
    def share(self) -> float:
        return self.cut / self.looked_at if self.looked_at else 0.0

    def __str__(self) -> str:
        return f"{self.cut:,} of {self.looked_at:,} {self.unit} ({percent(self.cut, self.looked_at)})"


def truncated_sentences(
    encoder: PooledEncoder, examples: Examples, lengths: np.ndarray | None = None
) -> TruncationStats:
    """Count truncated distinct texts of rows, in a sample for running text.

    Args:
        encoder: Its `max_length` is the limit.
        examples: Rows.
        lengths: Number of tokens of each sentence alone, int (sentences,). None if unknown.

    Returns:
        Number of texts counted, number truncated, and `max_length`.
    """
    columns = list(examples.columns.values())
    if isinstance(examples.sentences, TextTable):
        rows = np.unique(np.linspace(0, len(examples) - 1, min(SAMPLED, len(examples))).astype(np.int64))
        texts = [examples.sentences[int(row)] for row in columns[0][rows]]
        return TruncationStats(len(texts), int(find_truncated(encoder, texts).sum()), encoder.max_length)
    sides, numbers = encoder.sides[examples.read_as(slice(None))], np.stack(columns)
    is_cut, is_used = np.zeros((2, len(examples.sentences)), dtype=bool)
    is_used[numbers] = True
    for side in Side:
        is_of_side = np.zeros(len(examples.sentences), dtype=bool)
        is_of_side[numbers[sides == side]] = True
        if not len(used := np.flatnonzero(is_of_side)):
            continue
        texts = [examples.sentences[number] for number in used.tolist()]
        is_cut[used] |= find_truncated(
            encoder.reading(side), texts, None if lengths is None else lengths[used]
        )
    return TruncationStats(int(is_used.sum()), int(is_cut.sum()), encoder.max_length)
