"""What a tokenizer does not know of texts, from token numbers that exist: no text is tokenised for it."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool, Int, UInt64

from juzhen.core.errors import UserError
from juzhen.core.text_warnings import SAMPLED, Unknown, current, equal_pairs, number_in, unknown_characters
from juzhen.encoders.token_table import TokenTable

PORTION = 4_096
"""Texts whose tokens are looked at together."""

_NUMBERS: WeakKeyDictionary[Any, int | None] = WeakKeyDictionary()


def unknown_number(tokenizer: Any) -> int | None:
    """Token number of what a tokenizer does not know; None: it has none.

    Byte-level tokenizers may have one, which no character gets.
    """
    if tokenizer not in _NUMBERS:
        number = tokenizer.unk_token_id
        if number is None and tokenizer.is_fast:  # one that was read from tokenizer.json alone says it there
            number = number_in(json.loads(tokenizer.backend_tokenizer.to_str())["model"])
        _NUMBERS[tokenizer] = number
    return _NUMBERS[tokenizer]


def token_codes(table: TokenTable) -> UInt64[np.ndarray, "texts"]:
    """A number for the tokens of each text: of equal ones the same, of others another one.

    64 bits: among a million texts two codes are equal by chance once in 37 million times. 0 for a text without tokens.
    """
    lengths = table.lengths
    ids, starts = table.flat().astype(np.uint64), np.cumsum(lengths) - lengths
    places = (np.arange(len(ids)) - np.repeat(starts, lengths)).astype(np.uint64)
    mixed = (ids << np.uint64(32)) + places + np.uint64(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finaliser of SplitMix64
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return _sums(mixed, starts, lengths)


def _sums(
    values: np.ndarray, starts: Int[np.ndarray, "texts"], lengths: Int[np.ndarray, "texts"]
) -> np.ndarray:
    sums = np.zeros(len(starts), dtype=values.dtype)
    filled = np.flatnonzero(lengths)
    if len(filled):
        sums[filled] = np.add.reduceat(values, starts[filled])
    return sums


def unknown_texts(reader: Any, table: TokenTable) -> Bool[np.ndarray, "texts"]:
    """Which texts hold a piece that the tokenizer does not know.

    Args:
        reader: What has tokenised them: an encoder, or one side of a pair. What it puts around texts does not count.
        table: Their token numbers.
    """
    number = unknown_number(reader.tokenizer)
    is_unknown = np.zeros(len(table), dtype=bool)
    if number is None or not len(table):
        return is_unknown
    flat, lengths = table.flat(), table.lengths
    places = np.flatnonzero(flat == number)
    if not len(places):
        return is_unknown
    counts = np.bincount(np.searchsorted(np.cumsum(lengths), places, side="right"), minlength=len(table))
    around = 0
    with suppress(UserError):  # nothing stands around a text
        around = int((reader.tokenize([""])[0] == number).sum())
    return counts > around


def note_unknown(reader: Any, texts: Sequence[str], table: TokenTable, *, is_whole: bool = False) -> None:
    """Count for the call at work, if anyone asks, which texts hold unknown pieces, and which of them are one.

    Args:
        reader: As of `unknown_texts`.
        texts: As they were given.
        table: Their token numbers.
        is_whole: None of them is truncated.
    """
    if (seen := current()) is not None:
        tokenizer = reader.tokenizer
        codes = read_codes(reader, table, is_whole=is_whole)
        seen.read(tokenizer, texts, unknown_texts(reader, table), codes, partial(characters, tokenizer))


def read_codes(reader: Any, table: TokenTable, *, is_whole: bool = False) -> UInt64[np.ndarray, "texts"]:
    """As of `token_codes`; 0 for texts that may be truncated, whose beginnings are equal for another reason."""
    codes = token_codes(table)
    if not is_whole and not getattr(reader, "expanded_to", 0):
        codes[table.lengths >= reader.max_length] = 0
    return codes


@dataclass
class ReadSentences:
    """What a tokenizer makes of sentences.

    is_unknown  whether each holds a piece that is not known
    codes       as of `read_codes`; 0: nobody has read it
    """

    is_unknown: Bool[np.ndarray, "sentences"]
    codes: UInt64[np.ndarray, "sentences"]

    @classmethod
    def none(cls, count: int) -> "ReadSentences":
        """Sentences that nobody has read."""
        return cls(np.zeros(count, dtype=bool), np.zeros(count, dtype=np.uint64))

    def put(
        self, numbers: Int[np.ndarray, "some"], reader: Any, table: TokenTable, *, is_whole: bool = False
    ) -> None:
        """Add what a reader has made of the sentences with these numbers; of no tokens it has not read them."""
        is_read = table.lengths > 0
        numbers, table = numbers[is_read], table[np.flatnonzero(is_read)]
        self.is_unknown[numbers] |= unknown_texts(reader, table)
        self.codes[numbers] = read_codes(reader, table, is_whole=is_whole)

    def counted(self, sentences: Sequence[str], numbers: Int[np.ndarray, "some"], tokenizer: Any) -> Unknown:
        """What is not known of the sentences with these numbers."""
        texts = [sentences[number] for number in numbers.tolist()]
        unknown = np.flatnonzero(self.is_unknown[numbers])
        found = characters(tokenizer, [texts[row] for row in unknown[:SAMPLED].tolist()])
        return Unknown(len(texts), len(unknown), equal_pairs(texts, self.codes[numbers]), tuple(found))


def characters(tokenizer: Any, texts: Sequence[str]) -> Counter[str]:
    """What a tokenizer does not know of texts, by its number, most of it first. See `unknown_characters`."""

    def encode(some: Sequence[str]) -> Iterator[tuple[Sequence[int], Any]]:
        for start in range(0, len(some), PORTION):
            encoding = tokenizer(
                list(some[start : start + PORTION]),
                add_special_tokens=False,
                truncation=False,
                return_offsets_mapping=tokenizer.is_fast,
                verbose=False,
            )
            ids = encoding["input_ids"]
            yield from zip(ids, encoding.get("offset_mapping", [None] * len(ids)), strict=True)

    return unknown_characters(texts, unknown_number(tokenizer), encode)
