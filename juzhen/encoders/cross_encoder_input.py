"""Two sentences as one input: token numbers of single sentences joined by arithmetic, not tokenised as pairs again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from transformers import PreTrainedTokenizerBase

from juzhen.core.batch import Batch, Tokens
from juzhen.core.errors import UserError
from juzhen.core.examples import DrawnDocuments, Examples, Kind, Side
from juzhen.encoders.augmentation import Augmentation
from juzhen.encoders.collate import SentenceCollator, given_tensors
from juzhen.encoders.packing import pack
from juzhen.encoders.special_tokens import special_around
from juzhen.encoders.token_table import CachedTokenizer, TokenTable, runs

PAIR, SWAPPED = "pair", "swapped"
"""Columns of a joint batch: the sentences as they stand in the row, and in the other order."""


@dataclass(frozen=True)
class PairTemplate:
    """How a tokenizer joins two sentences: `before a between b after`, BERT's [CLS] a [SEP] b [SEP].

    parts     the special tokens: before the first sentence, between the two, after the second
    types     segment of the special tokens of each part
    segments  segment of the tokens of the first and of the second sentence
    margins   special tokens before and after a sentence that stands alone
    keeps_end  sentences are cut at the front, as the tokenizer does it
    """

    parts: tuple[np.ndarray, ...]
    types: tuple[np.ndarray, ...]
    segments: tuple[int, int]
    margins: tuple[int, int]
    keeps_end: bool

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, *, apart: bool = True) -> "PairTemplate":
        """Reads the format off a pair of one-letter sentences.

        Raises UserError for a tokenizer of other units than sentences, and where nothing tells the two `apart`.
        """
        options = {"return_special_tokens_mask": True, "return_token_type_ids": True}
        joined = tokenizer("a", "b", **options)
        letters = np.flatnonzero(np.asarray(joined["special_tokens_mask"]) == 0)
        ids, types = np.asarray(joined["input_ids"]), np.asarray(joined["token_type_ids"])
        first, second = letters[0], letters[-1]
        if len(letters) != 2 or second - first < 1 + apart:
            raise UserError(
                f"{tokenizer.name_or_path or 'this encoder'}: its tokenizer puts no special token between two "
                "sentences, which a cross-encoder needs; choose an encoder such as BERT or RoBERTa"
            )
        cuts = (slice(0, first), slice(first + 1, second), slice(second + 1, None))
        return cls(
            parts=tuple(ids[cut].astype(np.int32) for cut in cuts),
            types=tuple(types[cut].astype(np.int32) for cut in cuts),
            segments=(int(types[first]), int(types[second])),
            margins=special_around(tokenizer),
            keeps_end=tokenizer.truncation_side == "left",
        )

    @property
    def marks(self) -> bool:
        """Whether any token of a pair has another segment than 0."""
        return any(self.segments) or any(part.any() for part in self.types)

    @property
    def num_special(self) -> int:
        return sum(len(part) for part in self.parts)

    def lengths(
        self, first: np.ndarray, second: np.ndarray, *, max_length: int
    ) -> tuple[Int[np.ndarray, "rows"], Int[np.ndarray, "rows"]]:
        """Tokens that are left of each sentence, when the longer one is cut first.

        first, second  tokens of the sentences as they stand alone, special tokens included

        As the tokenizers library does it: a sentence of less than half the room stays whole, else both get half of
        it, and the longer one the odd token (the second, where they are equally long). Which one was longer is not
        known where both filled `max_length` alone, since they were cut then: the odd token may be the other's.
        """
        room = max_length - self.num_special
        first, second = first - sum(self.margins), second - sum(self.margins)
        shorter, longer = np.minimum(first, second), np.maximum(first, second)
        cut = np.minimum(longer, np.maximum(shorter, room - shorter))
        halved = shorter + cut > room
        shorter, longer = np.where(halved, room // 2, shorter), np.where(halved, room - room // 2, cut)
        is_first = first > second
        return np.where(is_first, longer, shorter), np.where(is_first, shorter, longer)

    def join(
        self, first: TokenTable, second: TokenTable, *, max_length: int
    ) -> tuple[TokenTable, TokenTable]:
        """Token numbers of each pair, and the segments of the same tokens, from sentences as they stand alone."""
        counts = self.lengths(first.lengths, second.lengths, max_length=max_length)
        before, between, _ = (len(part) for part in self.parts)
        ends = np.cumsum(counts[0] + counts[1] + self.num_special)
        starts = ends - counts[0] - counts[1] - self.num_special
        ids = np.empty(ends[-1] if len(ends) else 0, dtype=np.int32)
        types = np.empty_like(ids)
        middles = starts + before + counts[0]
        lasts = middles + between + counts[1]
        for part, part_types, targets_of_part in zip(
            self.parts, self.types, (starts, middles, lasts), strict=True
        ):
            for offset, (token, segment) in enumerate(zip(part, part_types, strict=True)):
                ids[targets_of_part + offset], types[targets_of_part + offset] = token, segment
        targets = (starts + before, middles + between)
        for table, lengths, target, segment in zip(
            (first, second), counts, targets, self.segments, strict=True
        ):
            origins = table.starts + self.margins[0]
            if self.keeps_end:
                origins = table.ends - self.margins[1] - lengths
            targets_of_part = runs(target, lengths)
            ids[targets_of_part], types[targets_of_part] = table.ids[runs(origins, lengths)], segment
        return TokenTable(ids, starts, ends), TokenTable(types, starts, ends)


class CrossEncoderCollator(SentenceCollator):
    """Makes a Batch whose `tokens` are joint inputs, one per row, or two where both orders are asked for.

    join    tables of first and second sentences → Tokens of the pairs
    room    lengths of first and second sentences as they stand alone → tokens of the pairs
    both    whether training, and evaluation, sees each pair in both orders
    augmentation  as of SentenceCollator
    drawn   dataset key → documents of other rows that each row is shown in training, after its own
    seed    of these draws

    In the Batch, `columns` says which joint input belongs to a row (PAIR and, for both orders, SWAPPED), and
    `sentence_ids` numbers rows: equal pairs are encoded as often as they appear. Of triplets, in training, every row
    has a joint input for each of its documents: those of the positives, then those of each column of negatives, then
    those of each column of drawn documents.
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], TokenTable],
        *,
        join: Callable[[TokenTable, TokenTable], Tokens],
        room: Callable[[np.ndarray, np.ndarray], np.ndarray],
        both_in_training: bool,
        both_in_evaluation: bool,
        augmentation: Augmentation | None = None,
        drawn: Mapping[str, int] = MappingProxyType({}),
        seed: int = 0,
    ) -> None:
        super().__init__(tokenize, pack, augmentation=augmentation)
        self._drawn = dict(drawn)
        self._seed = seed
        self._documents: dict[str, DrawnDocuments] = {}
        self._join = join
        self._room = room
        self._both_in_training = both_in_training
        self._both_in_evaluation = both_in_evaluation

    def row_lengths(self, examples: Examples) -> np.ndarray:
        """Tokens of the joint input of each row, int64 (rows,)."""
        lengths = self.lengths(examples)
        first, *later = examples.columns.values()
        documents = later if examples.kind is Kind.TRIPLET else later[:1]
        return np.maximum.reduce([self._room(lengths[first], lengths[column]) for column in documents])

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        return self._joint(examples, rows, both=self._both_in_training, index=index)

    def __call__(self, examples: Examples, rows: np.ndarray) -> Batch:
        return self._joint(examples, rows, both=self._both_in_evaluation)

    def _sides_of(
        self, examples: Examples, first: np.ndarray, second: np.ndarray, *, index: int | None
    ) -> tuple[TokenTable, TokenTable]:
        return self.shown(examples, first, index=index), self.shown(examples, second, index=index)

    def _documents_of(self, examples: Examples) -> DrawnDocuments:
        if examples.name not in self._documents:
            anchors, positives, *_ = examples.columns.values()
            self._documents[examples.name] = DrawnDocuments(anchors, positives)
        return self._documents[examples.name]

    def _joint(self, examples: Examples, rows: np.ndarray, *, both: bool, index: int | None = None) -> Batch:
        first, *later = (values[rows].astype(np.int64) for values in examples.columns.values())
        documents = later if examples.kind is Kind.TRIPLET and index is not None else later[:1]
        if index is not None and (count := self._drawn.get(examples.name)):
            drawn = self._documents_of(examples).draw(rows, count, seed=(self._seed, index))
            documents = [*documents, *drawn.T]
        first, second = np.tile(first, len(documents)), np.concatenate(documents)
        numbers = torch.from_numpy(np.asarray(rows, dtype=np.int64))
        ids, places = numbers.repeat(len(documents)), torch.arange(len(first))
        if examples.missing is not None and len(documents) > 1:
            # A document that the row lacks is not read: its place is that of the row's positive, which comes first.
            missing = examples.missing[rows].T.ravel()
            has = np.pad(~missing, (0, len(first) - len(missing)), constant_values=True)
            places = torch.from_numpy(np.where(has, np.cumsum(has) - 1, np.arange(len(first)) % len(rows)))
            first, second, ids = first[has], second[has], ids[torch.from_numpy(has)]
        inputs = [places, places + len(first)]
        if both:
            first, second = np.concatenate([first, second]), np.concatenate([second, first])
            ids = ids.repeat(2)
        return Batch(
            task=examples.name,
            kind=examples.kind,
            tokens=self._join(*self._sides_of(examples, first, second, index=index)),
            sentence_ids=ids,
            columns=dict(zip((PAIR, SWAPPED), inputs[: 1 + both], strict=False)),
            rows=numbers,
            tensors=given_tensors(examples, rows),
        )


class AskedPairCollator(CrossEncoderCollator):
    """The same of an encoder that reads the first text of a row as a query, the others as documents.

    tokenize  asked for the tokens of each side
    """

    def __init__(self, tokenize: CachedTokenizer, **options: Any) -> None:
        super().__init__(tokenize, **options)
        self._sides = tokenize

    def token_lists(self, examples: Examples) -> TokenTable:
        return super().token_lists(_asked(examples))

    def row_lengths(self, examples: Examples) -> np.ndarray:
        first, *later = (values.astype(np.int64) for values in examples.columns.values())
        documents = later if examples.kind is Kind.TRIPLET else later[:1]
        lengths = [
            self._room(*(side.lengths for side in self._sides_of(examples, first, column, index=None)))
            for column in documents
        ]
        return np.maximum.reduce(lengths)

    def _sides_of(
        self, examples: Examples, first: np.ndarray, second: np.ndarray, *, index: int | None
    ) -> tuple[TokenTable, TokenTable]:
        table = self._apart(_asked(examples))
        assert table is not None  # sides are read apart
        positions = [
            table.places(numbers, np.full(len(numbers), side))
            for numbers, side in ((first, Side.QUERY), (second, Side.DOCUMENT))
        ]
        return table.tokens[positions[0]], table.tokens[positions[1]]


def _asked(examples: Examples) -> Examples:
    return replace(examples, symmetric=False, sides=None)


def pack_joint(ids: TokenTable, segments: TokenTable | None, *, max_group_tokens: int | None) -> Tokens:
    """Joint inputs, packed from the shortest to the longest, each token with its segment (None: all are 0)."""
    tokens = pack(ids, max_group_tokens=max_group_tokens)
    if segments is None:
        return tokens
    order = np.empty(len(ids), dtype=np.int64)
    order[tokens.inverse_permutation.numpy()] = np.arange(len(ids))
    return replace(tokens, segments=torch.from_numpy(segments[order].flat().astype(np.int64)))
