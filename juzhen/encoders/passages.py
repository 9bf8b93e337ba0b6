"""Passages of long texts, each with its vector: encoded one by one, or pooled from one pass (late chunking)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int

from juzhen.core.columns import as_texts, require_finite
from juzhen.core.errors import UserError, check_count
from juzhen.core.progress import progress_bar
from juzhen.encoders.backbone import evaluating
from juzhen.encoders.chunks import Passages, Wrapping, encoded, require_plain, room_of
from juzhen.encoders.components import num_positions
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import truncate_vectors, unit
from juzhen.encoders.tokens import TEXTS_PER_CALL, TokenTable, batches_by_length, note_unknown, runs
from juzhen.encoders.workers import Workers, started

CONTEXT = 8
"""Where a text has more tokens than the transformer has positions, a pass begins with the tokens before its first
passage: one in so many of its tokens."""

ENDS = "。！？；…\n.!?;"
"""Characters after which a passage preferably ends. A space is the second choice."""

LATEST = 0.75
"""Share of a passage from which on it may end early for that."""


@dataclass(frozen=True)
class Split:
    """Passages by their tokens.

    Attributes:
        tokens: Tokens of the whole texts, with the tokens around them.
        texts: Number of the text of each passage.
        places: Start and end of a passage among the inner tokens of its text.
        spans: As in `Passages`.
    """

    tokens: TokenTable
    texts: Int[np.ndarray, "passages"]
    places: Int[np.ndarray, "passages 2"]
    spans: Int[np.ndarray, "passages 2"]


def encode_chunks(
    given: Any,
    texts: str | Iterable[str],
    *,
    chunk_tokens: int | None,
    overlap: int,
    late: bool,
    prompt_name: str | None,
    prompt: str | None,
    normalize: bool | None,
    truncate_dim: int | None,
    batch_tokens: int,
    show_progress: bool | None,
    workers: int | Sequence[str | torch.device] | Workers | None,
    backend: Any,
    strict: bool,
) -> Passages:
    """Compute `PassageMixin.encode_chunks`.

    Args:
        given: A `SentenceEncoder`.
        texts, chunk_tokens, overlap, late: As in `PassageMixin.encode_chunks`.
        prompt_name, prompt, normalize, truncate_dim: As in `SentenceEncoder.encode`.
        batch_tokens, show_progress, workers, backend, strict: As in `SentenceEncoder.encode`.

    Returns:
        The passages and their embeddings.

    Raises:
        UserError: As in `PassageMixin.encode_chunks`.
    """
    given.require_length(normalize)
    chosen = prompt_name is not None or prompt is not None
    encoder = given.with_prompt(prompt_name, prompt) if chosen else given
    require_chunks(encoder, chunk_tokens, overlap, late=late)
    if late and (workers is not None or (backend is not None and backend.name != "torch")):
        raise UserError(
            "late=True: reads token states, which workers and backends do not return. Leave them out, or "
            "late=True"
        )
    if workers is not None and backend is not None:
        raise UserError("workers, backend: give one of the two")
    sentences, _ = as_texts(texts)
    size = given.size_of(truncate_dim)
    split = _split_texts(encoder, sentences, chunk_tokens or room_of(encoder), overlap)
    vectors = np.empty((len(split.texts), given.dim), dtype=np.float32)
    with (
        given._reported(strict=strict, size=size),
        started(given, workers) as processes,
        progress_bar("encoding passages", len(vectors), shown=show_progress) as advance,
    ):
        note_unknown(encoder, sentences, split.tokens, is_whole=True)
        if late:
            batches = _late(encoder, split, batch_tokens)
        else:
            compute = encoder.infer if backend is None else backend.encode
            frame, bounds = (
                Wrapping.of(encoder),
                zip(split.texts.tolist(), split.places.tolist(), strict=True),
            )
            table = TokenTable.of([frame.around(split.tokens[number], *ends) for number, ends in bounds])
            batches = encoded(encoder, table, compute, processes, batch_tokens)
        for rows, of_batch in batches:
            vectors[rows] = of_batch
            advance(len(rows))
    require_finite(vectors, sentences, owners=split.texts, may_be_zero=given.may_be_zero)
    if size < given.dim:
        vectors = truncate_vectors(vectors, size, normalize=given.normalize)
    return Passages(unit(vectors) if normalize else vectors, split.texts, split.spans)


def require_chunks(encoder: PooledEncoder, chunk_tokens: int | None, overlap: int, *, late: bool) -> None:
    """Raise UserError if the encoder does not support such passages.

    Args:
        encoder: The encoder.
        chunk_tokens: Largest number of tokens of a passage. None: the capacity of the encoder.
        overlap: Tokens that neighbours share, at most half a passage.
        late: Late chunking, which needs mean pooling and a transformer that reads both ways.

    Raises:
        UserError: Templates, a slow tokenizer, a number out of range, or a pooling or transformer without
            late chunking.
    """
    require_plain(encoder, "passages")
    if not encoder.tokenizer.is_fast:
        raise UserError(
            "passages: this slow tokenizer returns no character offsets. Save it as a "
            'tokenizer.json, or take long_texts="chunk", which needs no characters'
        )
    if late and encoder.pooling != "mean":
        raise UserError(
            f"late=True: averages token states, but this encoder has pooling={encoder.pooling}, whose "
            "token has read the whole text. Leave late=True out, or take an encoder with pooling=mean"
        )
    most = _most_tokens(encoder, late=late)
    if chunk_tokens is not None:
        check_count("chunk_tokens", chunk_tokens, most=most)
    size = chunk_tokens or _most_tokens(encoder, late=False) or 1
    check_count("overlap", overlap, least=0, most=size // 2)
    if late and is_causal(encoder):
        raise UserError(
            "late=True: this transformer is causal, so a passage would not see the text "
            "after it. Leave late=True out, or take an encoder that reads both ways"
        )


def _most_tokens(encoder: PooledEncoder, *, late: bool) -> int | None:
    """Text tokens of one pass of the transformer. None for no limit."""
    limit = num_positions(encoder.backbone) if late else encoder.max_length
    return None if limit is None else limit - Wrapping.of(encoder).size


@torch.inference_mode()
def is_causal(encoder: PooledEncoder) -> bool:
    """True if the first state does not depend on later tokens.

    Args:
        encoder: The encoder. Two short texts are encoded.

    Returns:
        True for a decoder with causal attention.
    """
    with evaluating(encoder):
        number = encoder.tokenize(["a"])[0][0]
        further = [other for other in range(4) if other != number][:2]
        rows = [encoder.collate([[number, *([other] * 3)]]).to(encoder.device) for other in further]
        first, second = (encoder.token_states(row)[0].float() for row in rows)
        return torch.allclose(first, second, atol=1e-6)


def _split_texts(encoder: PooledEncoder, texts: Sequence[str], size: int, overlap: int) -> Split:
    """The texts in passages of at most `size` tokens."""
    frame, before = Wrapping.of(encoder), len(encoder.prompt)
    tables, numbers, bounds, spans = [], list[int](), list[tuple[int, int]](), list[tuple[int, int]]()
    for start in range(0, len(texts), TEXTS_PER_CALL):
        portion = texts[start : start + TEXTS_PER_CALL]
        encoding = encoder.tokenizer(
            encoder.prompted(portion),
            truncation=False,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=True,
            verbose=False,  # it would warn of what is asked here
        )
        tables.append(TokenTable.of(encoding["input_ids"]))
        for number, (text, offsets) in enumerate(
            zip(portion, encoding["offset_mapping"], strict=True), start
        ):
            characters = np.array(frame.inside(offsets), dtype=np.int64).reshape(-1, 2) - before
            of_text = _passage_places(text, characters.clip(min=0), size, overlap)
            bounds += of_text
            spans += _spans(text, characters.clip(min=0), of_text)
            numbers += [number] * len(of_text)
    return Split(
        TokenTable.joined(tables),
        np.array(numbers, dtype=np.int64),
        np.array(bounds, dtype=np.int64).reshape(-1, 2),
        np.array(spans, dtype=np.int64).reshape(-1, 2),
    )


def _passage_places(
    text: str, characters: Int[np.ndarray, "tokens 2"], size: int, overlap: int
) -> list[tuple[int, int]]:
    """Where passages begin and end among the tokens of a text, whose characters are given."""
    count, starts = len(characters), characters[:, 0].tolist()
    if count <= size:
        return [(0, count)]
    bounds, start = [], 0
    while True:
        end = min(start + size, count)
        if end < count:
            end = _early(text, starts, max(start + int(LATEST * size), start + overlap + 1), end)
        bounds.append((start, end))
        if end == count:
            return bounds
        start = end - overlap


def _early(text: str, starts: Sequence[int], least: int, end: int) -> int:
    """The last token from `least` to `end` that begins behind the end of a sentence, or else behind a space."""
    chosen = end
    for token in range(end, least - 1, -1):
        before = text[max(starts[token] - 2, 0) : starts[token]]
        if before.rstrip(" ")[-1:] in (*ENDS,):
            return token
        if chosen == end and before[-1:].isspace():
            chosen = token
    return chosen


def _spans(
    text: str, characters: Int[np.ndarray, "tokens 2"], bounds: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The characters of passages: each ends where the token behind it begins, so that none is left out."""
    spans = []
    for start, end in bounds:
        first = 0 if start == 0 else int(characters[start, 0])
        last = len(text) if end == len(characters) else int(max(characters[end, 0], characters[end - 1, 1]))
        spans.append((first, last))
    return spans


@dataclass(frozen=True)
class ForwardPass:
    """Tokens of one pass, with those around the text.

    Args:
        ids: Token ids, (tokens,).
        rows: Numbers of its passages.
        parts: Start and end of each passage in `ids`.
    """

    ids: np.ndarray
    rows: range
    parts: list[tuple[int, int]]


def _passes(encoder: PooledEncoder, split: Split) -> Iterator[ForwardPass]:
    """Passes of each text, several if it is too long. A passage in a later pass has earlier tokens before it."""
    frame, limit = Wrapping.of(encoder), _most_tokens(encoder, late=True)
    ends = np.searchsorted(split.texts, np.arange(len(split.tokens)), side="right").tolist()
    row = 0
    for ids, last in zip(split.tokens, ends, strict=True):
        count = len(ids) - frame.size
        while row < last:
            bounds = split.places[row:last].tolist()
            lead = 0 if limit is None else min(limit // CONTEXT, limit - (bounds[0][1] - bounds[0][0]))
            start = max(bounds[0][0] - lead, 0)
            if limit is not None:
                bounds = [bound for bound in bounds if bound[1] - start <= limit]
            end = bounds[-1][1]
            shift = frame.before - start
            parts = [[first + shift, behind + shift] for first, behind in bounds]
            inputs = frame.around(ids, start, end)
            if bounds[0][0] == 0:
                parts[0][0] = min(encoder.unpooled, parts[0][1] - 1)
            if end == count:
                parts[-1][1] = len(inputs)
            yield ForwardPass(
                inputs, range(row, row + len(parts)), [(first, behind) for first, behind in parts]
            )
            row += len(parts)


def _late(
    encoder: PooledEncoder, split: Split, batch_tokens: int
) -> Iterator[tuple[Int[np.ndarray, "rows"], Float[np.ndarray, "rows dim"]]]:
    """Numbers of passages and their vectors, a batch of texts of like length at a time."""
    passes = list(_passes(encoder, split))
    lengths = np.array([len(each.ids) for each in passes], dtype=np.int64)
    with evaluating(encoder):
        for batch in batches_by_length(lengths, batch_tokens=batch_tokens):
            chosen = [passes[number] for number in batch.tolist()]
            yield np.concatenate([np.array(each.rows) for each in chosen]), _pooled(encoder, chosen)


@torch.inference_mode()
def _pooled(encoder: PooledEncoder, passes: Sequence[ForwardPass]) -> Float[np.ndarray, "rows dim"]:
    """The mean of the states of each part, in the order of the passes, projected and normalized as an embedding is."""
    tokens = encoder.collate([each.ids for each in passes]).to(encoder.device)
    states = encoder.token_states(tokens)
    begins = tokens.starts[tokens.inverse_permutation].tolist()
    parts = np.array(
        [
            (begin + first, behind - first)
            for begin, each in zip(begins, passes, strict=True)
            for first, behind in each.parts
        ]
    )
    numbers = torch.from_numpy(runs(parts[:, 0], parts[:, 1])).to(states.device)
    counts = torch.from_numpy(parts[:, 1]).to(states.device)
    owners = torch.arange(len(parts), device=states.device).repeat_interleave(counts)
    sums = torch.zeros(len(parts), states.shape[1], device=states.device)
    sums = sums.index_add(0, owners, states[numbers].float())
    vectors = encoder._projected(sums / counts.unsqueeze(1))
    return (F.normalize(vectors, dim=-1) if encoder.normalize else vectors).cpu().numpy()
