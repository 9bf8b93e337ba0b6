"""Token tables: texts as token ids, batches of similar length, special tokens and unknown characters."""

import copy
import gc
import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, Protocol, Self, overload
from weakref import WeakKeyDictionary

import numpy as np
import tokenizers
import transformers
from jaxtyping import Bool, Int, UInt64
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerBase
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.tokenization_utils_tokenizers import TokenizersBackend
from transformers.utils import PaddingStrategy

from juzhen.core.array_cache import ArrayCache, Stored
from juzhen.core.atomic_write import write_json
from juzhen.core.batch import num_fitting
from juzhen.core.columns import check_texts
from juzhen.core.errors import UserError, require_number
from juzhen.core.examples import Side
from juzhen.core.progress import progress_bar
from juzhen.core.safe_open import read_json
from juzhen.core.text_warnings import SAMPLED, Unknown, current, equal_pairs, number_in, unknown_characters
from juzhen.encoders.folder_settings import read_settings

TOKENIZER_SETTINGS = "tokenizer_config.json"
NAMES_BEFORE_5 = {"TokenizersBackend": "PreTrainedTokenizerFast"}
"""Class of a tokenizer in transformers 5 → its name in 4, which both read."""


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: list[str], *, max_length: int) -> list[list[int]]:
    """Token ids of texts with special tokens, truncated.

    A tokenizer that leaves its work to the package tokenizers is asked there: what transformers makes of the answer,
    one text at a time in Python, takes half as long again.

    Args:
        tokenizer: Of the encoder.
        texts: Without prompts.
        max_length: Tokens of a text at most, special tokens included.

    Returns:
        One list of ids for each text.
    """
    kind = type(tokenizer)
    if (
        getattr(kind, "_encode_plus", None) is not TokenizersBackend._encode_plus
        or kind.__call__ is not PreTrainedTokenizerBase.__call__
    ):
        options = {"return_attention_mask": False, "return_token_type_ids": False, "padding": False}
        return tokenizer(texts, truncation=True, max_length=max_length, **options)["input_ids"]
    tokenizer.set_truncation_and_padding(
        padding_strategy=PaddingStrategy.DO_NOT_PAD,
        truncation_strategy=TruncationStrategy.LONGEST_FIRST,
        max_length=max_length,
        stride=0,
        pad_to_multiple_of=None,
        padding_side=None,
    )
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = tokenizer.split_special_tokens
    return [encoding.ids for encoding in backend.encode_batch_fast(texts)]


def special_around(tokenizer: PreTrainedTokenizerBase, *, prompt: str = "") -> tuple[int, int]:
    """Number of special tokens before and after a text.

    Args:
        tokenizer: The tokenizer.
        prompt: Prompt whose tokens count as special tokens before the text, except one that the text may join.

    Returns:
        Number before, and number after.
    """
    empty, full = (tokenizer(text)["input_ids"] for text in ("", "a"))
    before = _shared(empty, full)
    after = len(empty) - before
    if prompt:
        before = _shared(*(tokenizer(prompt + text)["input_ids"] for text in ("a", "今")))
    return before, after


def append_end_token(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Let the tokenizer append its end token, if its settings ask for it and its file does not.

    Transformers 5 ignores `add_eos_token` if there is a tokenizer.json. The embedding of the last token would silently
    differ from the author's.

    Args:
        tokenizer: Changed in place.
        folder: Its files.

    Raises:
        UserError: The settings name no end token.
    """
    path = folder / TOKENIZER_SETTINGS
    wants_end = path.is_file() and read_settings(path).get("add_eos_token") is True
    if not wants_end or not tokenizer.is_fast or special_around(tokenizer)[1]:
        return
    end = tokenizer.eos_token
    if end is None:
        raise UserError(
            f"{path}: add_eos_token is true, but eos_token is missing. Name one, or set add_eos_token to false"
        )
    before = tokenizer.convert_ids_to_tokens(tokenizer("")["input_ids"])
    first, second = (
        [*(f"{token}:{part}" for token in before), f"${text}:{part}", f"{end}:{part}"]
        for part, text in enumerate("AB")
    )
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=first,
        pair=[*first, *second],
        special_tokens=[(token, tokenizer.convert_tokens_to_ids(token)) for token in {*before, end}],
    )


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Tokens at the start that are the same."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return len(list(pairs))


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> bytes:
    """Compute the digest of a tokenizer, with special tokens and library versions, without its path.

    Args:
        tokenizer: Truncation and padding do not count.

    Returns:
        64 bytes.
    """
    state = [
        type(tokenizer).__name__,
        transformers.__version__,
        tokenizers.__version__,
        str(sorted((name, str(token)) for name, token in tokenizer.special_tokens_map.items())),
        str(tokenizer.truncation_side),
        str(getattr(tokenizer, "split_special_tokens", None)),
    ]
    digest = hashlib.blake2b("\0".join(state).encode())
    if tokenizer.is_fast:
        # Truncation and padding are left behind by the last call and set by the next.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
        digest.update(tokenizer.backend_tokenizer.to_str().encode())
        return digest.digest()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                digest.update(path.name.encode() + path.read_bytes())
    return digest.digest()


def write_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a tokenizer as transformers does, by names that programs with transformers 4 know as well.

    Args:
        tokenizer: Of the encoder.
        folder: Gets the files.
    """
    tokenizer.save_pretrained(folder)
    settings = read_json(folder / TOKENIZER_SETTINGS)
    if name := NAMES_BEFORE_5.get(settings.get("tokenizer_class")):
        settings["tokenizer_class"] = name
        write_json(folder / TOKENIZER_SETTINGS, settings, indent=2, in_own_folder=True)


BATCH_TOKENS = 16_384
"""Default tokens of a batch."""


def batches_by_length(
    lengths: Sequence[int] | np.ndarray, *, batch_tokens: int
) -> Iterator[Int[np.ndarray, "batch"]]:
    """Divide rows into batches of like length.

    The longest come first, so that a batch that exceeds the memory fails at once and not after an hour.

    Args:
        lengths: Number of tokens of each row.
        batch_tokens: Tokens of a batch at most, padding included. A longer row is a batch alone.

    Yields:
        Row numbers.

    Raises:
        UserError: `batch_tokens` is not a number above 0.
    """
    require_number("batch_tokens", batch_tokens, 1)
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    start = 0
    while start < len(order):
        size = num_fitting(int(lengths[order[start]]), batch_tokens)
        yield order[start : start + size]
        start += size


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keeps Python from looking for cycles, which took a third of the time of tokenising and found none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class TokenTable(Sequence[np.ndarray]):
    """Token ids of texts, concatenated. Read-only, and possibly memory-mapped.

    `table[3]` is one text, a view of `ids`. `table[1:4]` and `table[[5, 2]]` are tables over the same `ids`, so a
    selection copies no token.

    Attributes:
        ids: int32 (tokens,).
        starts: int64 (texts,), start of each text in `ids`.
        ends: int64 (texts,), its end.

    Example:
        >>> table = TokenTable.of([[2, 7, 3], [2, 3]])
        >>> table.lengths.tolist(), table[[1, 0]].tolist(), table[0].tolist()
        ([3, 2], [[2, 3], [2, 7, 3]], [2, 7, 3])
    """

    def __init__(self, ids: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self.ids = ids
        self.starts = starts
        self.ends = ends

    @classmethod
    def of(cls, token_lists: Sequence[Sequence[int] | np.ndarray]) -> "TokenTable":
        """Build a table from lists of token ids.

        Args:
            token_lists: One list for each text. A table is returned unchanged.

        Returns:
            The table. Ids are copied as int32.
        """
        if isinstance(token_lists, TokenTable):
            return token_lists
        offsets = np.zeros(len(token_lists) + 1, dtype=np.int64)
        np.cumsum([len(tokens) for tokens in token_lists], out=offsets[1:])
        if {*map(type, token_lists)} <= {list}:
            ids = np.fromiter(chain.from_iterable(token_lists), np.int32, int(offsets[-1]))
        else:
            ids = np.concatenate([np.asarray(tokens, dtype=np.int32) for tokens in token_lists])
        return cls(ids, offsets[:-1], offsets[1:])

    @classmethod
    def joined(cls, tables: "Sequence[TokenTable]") -> "TokenTable":
        """Concatenate tables and copy their tokens.

        Args:
            tables: Their texts follow one another.

        Returns:
            A new table with the texts of all.
        """
        lengths = np.concatenate([np.empty(0, dtype=np.int64), *(table.lengths for table in tables)])
        ids = np.concatenate([np.empty(0, dtype=np.int32), *(table.flat() for table in tables)])
        ends = np.cumsum(lengths)
        return cls(ids, ends - lengths, ends)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens per text, int64 (texts,)."""
        return self.ends - self.starts

    def flat(self) -> np.ndarray:
        """The tokens of all texts in the order of this table, int32.

        Returns:
            Ids of one text after another. It may be a view of `ids`.
        """
        if not len(self):
            return self.ids[:0]
        if (self.starts[1:] == self.ends[:-1]).all():
            return self.ids[self.starts[0] : self.ends[-1]]
        return self.ids[runs(self.starts, self.lengths)]

    def tolist(self) -> list[list[int]]:
        """Convert the table to lists.

        Returns:
            One list of token ids for each text.
        """
        return [tokens.tolist() for tokens in self]

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, chosen: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, chosen: "slice | Sequence[int] | np.ndarray") -> "TokenTable": ...

    def __getitem__(self, chosen: "int | slice | Sequence[int] | np.ndarray") -> "np.ndarray | TokenTable":
        starts, ends = self.starts[chosen], self.ends[chosen]
        if starts.ndim:
            return TokenTable(self.ids, starts, ends)
        return self.ids[starts:ends]

    def __iter__(self) -> Iterator[np.ndarray]:
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield self.ids[start:end]

    def __eq__(self, other: object) -> bool:
        """Equal texts in equal order. Their location does not matter."""
        if not isinstance(other, TokenTable):
            return NotImplemented
        return np.array_equal(self.lengths, other.lengths) and np.array_equal(self.flat(), other.flat())


def runs(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """List start, start + 1, … of each run, one run after another.

    Args:
        starts: First number of each run.
        lengths: Numbers in each run.

    Returns:
        The numbers of all runs.

    Example:
        >>> runs(np.array([5, 0]), np.array([2, 3])).tolist()
        [5, 6, 0, 1, 2]
    """
    # A place: that in the result, plus how far its run begins from where it begins in the result.
    indices = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    indices += np.arange(len(indices))
    return indices


MIN_TEXTS = 2_000
"""Fewer are tokenised each time, which takes up to 50 ms. A file is written in 2 to 20 ms, where the disk is quick."""

MAX_BYTES = 4 * 2**30

TEXTS_PER_CALL = 4096


def tokenized(
    texts: Sequence[str], read: Callable[[Sequence[str]], TokenTable], *, progress: bool | None
) -> TokenTable:
    """Read texts in portions: a tokenizer keeps far more than the numbers until its call is over.

    Args:
        texts: May be empty strings.
        read: Texts → token numbers.
        progress: Show a progress bar. None: on a terminal, after some seconds.

    Returns:
        Token ids of each text.
    """
    portions: list[TokenTable] = []
    with (
        _no_garbage_collection(),
        progress_bar("tokenising sentences", len(texts), shown=progress) as advance,
    ):
        for start in range(0, len(texts), TEXTS_PER_CALL):
            portion = texts[start : start + TEXTS_PER_CALL]
            check_texts(portion, start=start, may_be_empty=True)
            portions.append(read(portion))
            advance(len(portion))
    return TokenTable.joined(portions)


class MappedTable(TokenTable):
    """A token table in a file. Another process gets the path and maps the file itself.

    Args:
        stored: The file, and the shapes of its arrays.
    """

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored["ids"], stored["offsets"][:-1], stored["offsets"][1:])
        self.stored = stored

    def __reduce__(self) -> tuple[object, ...]:
        return MappedTable, (self.stored,)


class Tokenizing(Protocol):
    """Protocol of an encoder that tokenizes."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    prompt: str

    @property
    def sides(self) -> np.ndarray: ...

    @property
    def unpooled(self) -> int: ...

    def reading(self, side: Side) -> Self:
        """Return the reader of another side.

        Args:
            side: Side of the texts.

        Returns:
            A reader with the prompt of that side.
        """

    def tokenize(self, texts: Sequence[str], *, progress: bool | None = False) -> TokenTable:
        """Tokenize texts with their special tokens and the prompt.

        Args:
            texts: May be empty strings.
            progress: Show a progress bar. None: on a terminal, after some seconds.

        Returns:
            Token ids of each text.
        """


class CachedTokenizer:
    """`encoder.tokenize` with a disk cache for large inputs.

    Args:
        encoder: Tokenizes the texts.
        folder: Cache folder. None keeps nothing.
        progress: Progress bar on a terminal for many texts.
    """

    def __init__(self, encoder: Tokenizing, folder: str | Path | None, *, progress: bool) -> None:
        self.encoder = encoder
        self._cache = None
        if folder:
            self._cache = ArrayCache(Path(folder) / "tokens", holds="token tables", max_bytes=MAX_BYTES)
        self._progress = None if progress else False

    def reading(self, side: Side) -> "CachedTokenizer":
        """Return the tokenizer behind the prompt of another side, with the same cache.

        Args:
            side: Side of the texts.

        Returns:
            A copy for that side.
        """
        other = copy.copy(self)
        other.encoder = self.encoder.reading(side)
        return other

    def __call__(self, texts: Sequence[str]) -> TokenTable:
        if self._cache is None or len(texts) < MIN_TEXTS:
            return self._tokenize(texts)
        key = _key(self.encoder, texts)
        if (stored := self._cache.read(key)) is not None:
            return MappedTable(stored)
        table = self._tokenize(texts)
        offsets = np.concatenate([[0], np.cumsum(table.lengths)])
        stored = self._cache.write(key, {"ids": table.flat(), "offsets": offsets})
        return table if stored is None else MappedTable(stored)

    def _tokenize(self, texts: Sequence[str]) -> TokenTable:
        return self.encoder.tokenize(texts, progress=self._progress)


def _key(encoder: Tokenizing, texts: Sequence[str]) -> str:
    """Digest of everything that determines the token ids of `texts`."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{encoder.max_length} {len(texts)} {encoder.prompt}".encode())
    if filled_up := getattr(encoder, "expanded_to", 0):
        digest.update(f" filled up to {filled_up}".encode())
    digest.update(tokenizer_digest(encoder.tokenizer))
    for start in range(0, len(texts), TEXTS_PER_CALL):
        portion = texts[start : start + TEXTS_PER_CALL]
        # With their lengths, since no sign is known that no text has.
        digest.update(np.fromiter(map(len, portion), dtype=np.int64).data)
        digest.update("".join(portion).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


PORTION = 4_096
"""Texts whose tokens are looked at together."""

LOOKED_THROUGH = 100_000
"""Characters of a text among which unknown ones are looked for."""

_NUMBERS: WeakKeyDictionary[Any, int | None] = WeakKeyDictionary()


def unknown_number(tokenizer: Any) -> int | None:
    """Id of the unknown token of a tokenizer, or None.

    Byte-level tokenizers may have one that no character maps to.

    Args:
        tokenizer: A tokenizer of transformers.

    Returns:
        The id, or None.
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

    Args:
        table: Tokens of the texts.

    Returns:
        uint64 code of each text.
    """
    if len(table) > PORTION:  # a number takes 8 bytes several times
        portions = (table[start : start + PORTION] for start in range(0, len(table), PORTION))
        return np.concatenate([token_codes(portion) for portion in portions])
    lengths = table.lengths
    ids, starts = table.flat().astype(np.uint64), np.cumsum(lengths) - lengths
    places = (np.arange(len(ids)) - np.repeat(starts, lengths)).astype(np.uint64)
    mixed = (ids << np.uint64(32)) + places + np.uint64(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finaliser of SplitMix64
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    codes = np.zeros(len(table), dtype=np.uint64)
    if len(filled := np.flatnonzero(lengths)):
        codes[filled] = np.add.reduceat(mixed, starts[filled])
    return codes


def unknown_texts(reader: Any, table: TokenTable) -> Bool[np.ndarray, "texts"]:
    """Texts with an unknown token.

    Args:
        reader: Reader that tokenized them: an encoder, or one side of a pair. Its special tokens do not count.
        table: Their token ids.

    Returns:
        True for a text with more unknown tokens than an empty text has.
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
        codes = _read_codes(reader, table, is_whole=is_whole)
        seen.read(tokenizer, texts, unknown_texts(reader, table), codes, partial(characters, tokenizer))


def _read_codes(reader: Any, table: TokenTable, *, is_whole: bool = False) -> UInt64[np.ndarray, "texts"]:
    """`token_codes`, with 0 for texts that may be truncated, since equal beginnings would look like equal texts."""
    codes = token_codes(table)
    if not is_whole and not getattr(reader, "expanded_to", 0):
        codes[table.lengths >= reader.max_length] = 0
    return codes


@dataclass
class ReadSentences:
    """Sentences as read by a tokenizer.

    Attributes:
        is_unknown: The sentence has an unknown token.
        codes: As in `token_codes`. 0 for unread sentences, and for those that may be truncated.
    """

    is_unknown: Bool[np.ndarray, "sentences"]
    codes: UInt64[np.ndarray, "sentences"]

    @classmethod
    def none(cls, count: int) -> "ReadSentences":
        """Sentences that nobody has read.

        Args:
            count: Number of the sentences.

        Returns:
            No sentence is marked as unknown.
        """
        return cls(np.zeros(count, dtype=bool), np.zeros(count, dtype=np.uint64))

    def put(
        self, numbers: Int[np.ndarray, "some"], reader: Any, table: TokenTable, *, is_whole: bool = False
    ) -> None:
        """Add sentences that a reader has tokenized. Sentences without tokens stay unread.

        Args:
            numbers: Numbers of the sentences.
            reader: As of `unknown_texts`.
            table: Their tokens.
            is_whole: No sentence is truncated. Else long ones get the code 0.
        """
        is_read = table.lengths > 0
        numbers, table = numbers[is_read], table[np.flatnonzero(is_read)]
        self.is_unknown[numbers] |= unknown_texts(reader, table)
        self.codes[numbers] = _read_codes(reader, table, is_whole=is_whole)

    def counted(self, sentences: Sequence[str], numbers: Int[np.ndarray, "some"], tokenizer: Any) -> Unknown:
        """Unknown characters of some sentences.

        Args:
            sentences: All sentences.
            numbers: Numbers of those to count.
            tokenizer: Tokenizer that read them.

        Returns:
            Number of sentences, of those with unknown characters, and of equal pairs, with the characters of
            a sample.
        """
        texts = [sentences[number] for number in numbers.tolist()]
        unknown = np.flatnonzero(self.is_unknown[numbers])
        found = characters(tokenizer, [texts[row] for row in unknown[:SAMPLED].tolist()])
        return Unknown(len(texts), len(unknown), equal_pairs(texts, self.codes[numbers]), tuple(found))


def characters(tokenizer: Any, texts: Sequence[str]) -> Counter[str]:
    """Unknown characters of texts with their counts, most frequent first. See `unknown_characters`.

    Args:
        tokenizer: A tokenizer of transformers.
        texts: Texts without special tokens. Their first LOOKED_THROUGH characters are read.

    Returns:
        Character → count.
    """

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

    return unknown_characters([text[:LOOKED_THROUGH] for text in texts], unknown_number(tokenizer), encode)
