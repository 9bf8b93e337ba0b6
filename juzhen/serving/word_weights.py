"""Words of a text, and their share of a score."""

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

import numpy as np

from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.serving.errors import RequestError, wrong_field

MOST_WORDS = 128
"""Of a text: with as many the encoder computes it as many times."""


@dataclass(frozen=True)
class Word:
    """A part of a text that is left out as a whole.

    `start` and `end` are its characters in the text, and `tokens` its positions among the tokens of the text.
    """

    start: int
    end: int
    tokens: tuple[int, ...]


def words_of(encoder: SentenceEncoder, text: str, *, param: str) -> tuple[np.ndarray, list[Word]]:
    """Find the words of a text, and the token ids of the text with its prompt. Special tokens belong to no word.

    Tokens within a run of letters, and tokens that share a character, form one word.

    Args:
        encoder: Encoder with the prompt of the text.
        text: Text without prompt. It may be truncated.
        param: Field of the text, for the message.

    Returns:
        int32 (tokens,) ids with special tokens, and the words in order.

    Raises:
        RequestError: Too many words, or a tokenizer without character offsets.
    """
    if not encoder.tokenizer.is_fast:
        raise RequestError(
            400, "the tokenizer of this encoder does not tell where its tokens stand in a text"
        )
    (full,) = encoder.prompted([text])
    shift = len(full) - len(text)
    encoding = encoder.tokenizer(
        full, truncation=True, max_length=encoder.max_length, padding=False, return_offsets_mapping=True
    )
    parts: list[Word] = []
    for number, (start, end) in enumerate(encoding["offset_mapping"]):
        start, end = _stripped(full, max(start, shift), end)
        if start >= end:
            continue
        start, end = start - shift, end - shift
        if parts and (start < parts[-1].end or _is_inside(text, start, parts[-1].end)):
            last = parts.pop()
            parts.append(Word(last.start, max(end, last.end), (*last.tokens, number)))
        else:
            parts.append(Word(start, end, (number,)))
    if len(parts) > MOST_WORDS:
        raise wrong_field(
            param, f"{len(parts):,} words; at most {MOST_WORDS} can be weighed, send a shorter text"
        )
    return np.asarray(encoding["input_ids"], dtype=np.int32), parts


def weighed(text: str, words: Sequence[Word], weights: Sequence[float]) -> list[dict[str, object]]:
    """Split the text into parts that join to the text.

    Args:
        text: The text.
        words: Its words in order, as `words_of` gives them.
        weights: A weight a word.

    Returns:
        Parts with `text` and `weight`. The weight is None outside words.
    """
    parts: list[dict[str, object]] = []
    position = 0
    for word, weight in zip(words, weights, strict=True):
        if word.start > position:
            parts.append({"text": text[position : word.start], "weight": None})
        parts.append({"text": text[word.start : word.end], "weight": weight})
        position = word.end
    if position < len(text):
        parts.append({"text": text[position:], "weight": None})
    return parts


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the spaces at its ends, which some tokenizers count to the token behind them."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _is_inside(text: str, start: int, before: int) -> bool:
    """True if the token at `start` continues the run of letters that ended at `before`."""
    return start == before and all(
        character.isalnum() and east_asian_width(character) not in "WF"
        for character in text[start - 1 : start + 1]
    )
