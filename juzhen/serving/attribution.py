"""Which words of two texts carry their score: each word is left out once, and the score computed again."""

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

import numpy as np

from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.serving.errors import RequestError

MOST_WORDS = 128
"""Of a text: with as many the encoder computes it as many times."""


@dataclass(frozen=True)
class Word:
    """A part of a text that is left out together.

    start, end  its characters in the text
    tokens      their numbers among the tokens of the text
    """

    start: int
    end: int
    tokens: tuple[int, ...]


def words_of(encoder: SentenceEncoder, text: str, *, param: str) -> tuple[np.ndarray, list[Word]]:
    """The tokens of a text behind the prompt of the encoder, and its words; special tokens belong to none.

    A word is a token; tokens of one run of letters, and tokens that share a character, are one word. Raises
    RequestError for too many words, and where the tokenizer does not tell characters of tokens.
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
        raise RequestError(
            400,
            f"{param}: {len(parts):,} words; at most {MOST_WORDS} can be weighed, send a shorter text",
            param=param,
        )
    return np.asarray(encoding["input_ids"], dtype=np.int32), parts


def without_each(ids: np.ndarray, words: Sequence[Word]) -> list[np.ndarray]:
    """The tokens, and the tokens without each word."""
    return [ids, *(np.delete(ids, word.tokens) for word in words)]


def weighed(text: str, words: Sequence[Word], weights: Sequence[float]) -> list[dict[str, object]]:
    """The text in parts, which together are the text again; what belongs to no word has no weight."""
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
    """Whether a token that begins at `start` goes on with the run of letters that ended at `before`."""
    if start != before:
        return False
    return all(
        character.isalnum() and east_asian_width(character) not in "WF"
        for character in text[start - 1 : start + 1]
    )
