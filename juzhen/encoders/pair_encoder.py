"""Encoders that read both texts of a pair in one input: joined, packed, batched by length."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.batch import Batch, Tokens
from juzhen.core.columns import as_column, as_pairs, as_text, as_text_list, require_finite, side_by_side
from juzhen.core.errors import UserError
from juzhen.core.examples import DrawnDocuments, Examples, Kind, Side
from juzhen.core.machine import warn_forked
from juzhen.core.progress import progress_bar
from juzhen.core.text_warnings import STRICT, reported
from juzhen.encoders.augmentation import Augmentation
from juzhen.encoders.backbone import evaluating
from juzhen.encoders.chunks import UNLIMITED, TruncationStats, uncut
from juzhen.encoders.collate import SentenceCollator, given_tensors
from juzhen.encoders.forward import pack
from juzhen.encoders.peer_options import GuardedAttributesMixin, takes_peer_options
from juzhen.encoders.projection import similarity
from juzhen.encoders.save import HubMixin
from juzhen.encoders.search import Hit, check_top_k
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.thresholds import ThresholdMixin
from juzhen.encoders.tokens import (
    BATCH_TOKENS,
    CachedTokenizer,
    TokenTable,
    batches_by_length,
    note_unknown,
    runs,
    special_around,
)

PAIR, SWAPPED = "pair", "swapped"
"""Columns of a joint batch: sentences in the order of the row, and swapped."""


@dataclass(frozen=True)
class PairTemplate:
    """Joint input of a tokenizer: `before a between b after`, for BERT [CLS] a [SEP] b [SEP].

    Attributes:
        parts: Special tokens before the first sentence, between the two, and after the second.
        types: Segment of the special tokens of each part.
        segments: Segment of the tokens of the first and of the second sentence.
        margins: Special tokens before and after a single sentence.
        keeps_end: Sentences are truncated at the front, as by the tokenizer.
    """

    parts: tuple[np.ndarray, ...]
    types: tuple[np.ndarray, ...]
    segments: tuple[int, int]
    margins: tuple[int, int]
    keeps_end: bool

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, *, apart: bool = True) -> "PairTemplate":
        """Derive the format from a pair of one-letter sentences.

        Args:
            tokenizer: Joins two sentences to one input.
            apart: Demand a special token between the two.

        Returns:
            Tokens around and between two sentences, with their segments.

        Raises:
            UserError: Nothing separates the two, the second sentence comes first, or a letter is not one token.
        """
        options = {"return_special_tokens_mask": True, "return_token_type_ids": True}
        joined = tokenizer("a", "b", **options)
        letters = np.flatnonzero(np.asarray(joined["special_tokens_mask"]) == 0)
        ids, types = np.asarray(joined["input_ids"]), np.asarray(joined["token_type_ids"])
        first, second = letters[0], letters[-1]
        if len(letters) != 2 or second - first < 1 + apart:
            raise UserError(
                f"{tokenizer.name_or_path or 'this encoder'}: its tokenizer puts no special token between two "
                "sentences, which a cross-encoder needs. Choose an encoder such as BERT or RoBERTa"
            )
        if tokenizer("a", add_special_tokens=False)["input_ids"][:1] != [ids[first]]:
            raise UserError(
                f"{tokenizer.name_or_path}: its tokenizer puts the second sentence first, which is not done here. Use "
                "another encoder"
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
        """True if any token of a pair has a segment other than 0."""
        return any(self.segments) or any(part.any() for part in self.types)

    @property
    def num_special(self) -> int:
        return sum(len(part) for part in self.parts)

    def lengths(
        self, first: np.ndarray, second: np.ndarray, *, max_length: int
    ) -> tuple[Int[np.ndarray, "rows"], Int[np.ndarray, "rows"]]:
        """Tokens that remain of each sentence when the longer one is truncated first.

        As in the tokenizers library: a sentence of less than half the room stays complete. Otherwise both get half
        of it, and the longer one the odd token (the second, if they are equally long). Sentences that were truncated
        alone (not by `PairEncoder.tables`) count as equally long.

        Args:
            first: Tokens of the first sentences alone, special tokens included.
            second: Tokens of the second sentences alone.
            max_length: Tokens of the joint input.

        Returns:
            Tokens of the first sentences, and of the second ones, without special tokens.
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
        """Build the inputs of pairs from single sentences.

        Args:
            first: Tokens of the first sentences, with the special tokens of a single sentence.
            second: Tokens of the second sentences.
            max_length: Tokens of a joint input. Longer pairs are truncated as by `lengths`.

        Returns:
            Token ids of each pair, and their segments.
        """
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
    """Builds a Batch whose `tokens` are joint inputs, one per row, or two for both orders.

    `columns` maps a row to its joint input (PAIR and, for both orders, SWAPPED). `sentence_ids` are row numbers,
    so equal pairs are encoded repeatedly. A triplet has a joint input for each of its documents in training: those
    of the positives, then of each column of negatives, then of each column of drawn documents.

    Args:
        tokenize: Texts → token ids, with the special tokens of a single text.
        join: Tables of first and second sentences → Tokens of the pairs.
        room: Lengths of first and second sentences alone → tokens of the pairs.
        both_in_training: Both orders of a pair in training.
        both_in_evaluation: Both orders of a pair in evaluation.
        augmentation: As in SentenceCollator.
        drawn: Dataset key → number of documents of other rows that are added to each row in training.
        seed: Seed of these draws.
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
        """Tokens of the joint input of each row.

        Args:
            examples: Pairs or triplets. The longest document of a triplet counts.

        Returns:
            int64 (rows,).
        """
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
    """A CrossEncoderCollator that reads the first text of a row as a query and the others as documents.

    Args:
        tokenize: Tokenizer of each side.
    """

    def __init__(self, tokenize: CachedTokenizer, **options: Any) -> None:
        super().__init__(tokenize, **options)
        self._sides = tokenize

    def token_lists(self, examples: Examples) -> TokenTable:
        return super().token_lists(_asked(examples))

    def row_lengths(self, examples: Examples) -> np.ndarray:
        """Tokens of the joint input of each row, each text read on its side.

        Args:
            examples: Pairs or triplets. The longest document of a triplet counts.

        Returns:
            int64 (rows,).
        """
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
    """Pack joint inputs from the shortest to the longest.

    Args:
        ids: Token ids of each pair.
        segments: Segment of each of these tokens. None: all are 0.
        max_group_tokens: As in `pack`.

    Returns:
        One sentence a pair. Its order is undone by `inverse_permutation`.
    """
    tokens = pack(ids, max_group_tokens=max_group_tokens)
    if segments is None:
        return tokens
    order = np.empty(len(ids), dtype=np.int64)
    order[tokens.inverse_permutation.numpy()] = np.arange(len(ids))
    return replace(tokens, segments=torch.from_numpy(segments[order].flat().astype(np.int64)))


class PairEncoder(ThresholdMixin, HubMixin, GuardedAttributesMixin):
    """Logits of pairs of texts: one (a similarity), or one per class.

    Attributes:
        inner: Backbone, tokenizer and pooling of the joint input.
        template: Joint input of two texts.
        segments: Tokens of the second text are marked.
        symmetric: `score` is the mean of both orders.
        grades: Closeness of the texts in each class, from 0 to 1. Empty without classes.
    """

    poolings: ClassVar[tuple[str, ...]]
    family: ClassVar[str]
    inner: SentenceEncoder
    template: Any
    segments: bool
    symmetric: bool
    grades: tuple[float, ...]

    @abstractmethod
    def forward(self, tokens: Tokens) -> Float[Tensor, "pairs outputs"]:
        """Logits of joint inputs, float32.

        Args:
            tokens: Joint inputs, as from `join`.

        Returns:
            Logits, (pairs, outputs).
        """

    @property
    @abstractmethod
    def outputs(self) -> int:
        """1, or the number of classes."""

    @property
    @abstractmethod
    def facts(self) -> list[str]:
        """Settings that change the scores, besides the weights of `inner`."""

    def require_order(self, name: str, kind: Kind | None, symmetric: bool | None) -> None:
        """Raise UserError for a set with ordered sides, if scores are the mean of both orders.

        Args:
            name: Name of the set, for the message.
            kind: Kind of its rows.
            symmetric: False: the sides of the set have an order.

        Raises:
            UserError: Such a set.
        """

    @property
    def backbone(self) -> PreTrainedModel:
        return self.inner.backbone

    @property
    def load_warnings(self) -> tuple[str, ...]:
        return self.inner.load_warnings

    @property
    def dim(self) -> int:
        return self.inner.dim

    def join(self, first: TokenTable, second: TokenTable) -> Tokens:
        """Packed joint inputs of sentences that were tokenised alone.

        Args:
            first: Tokens of the first texts.
            second: Tokens of the second texts.

        Returns:
            The joint inputs.
        """
        ids, segments = self.template.join(first, second, max_length=self.inner.max_length)
        budget = self.inner.micro_batch_tokens
        return pack_joint(ids, segments if self.segments else None, max_group_tokens=budget)

    def tables(
        self, first: Sequence[str], second: Sequence[str], *, progress: bool | None = False
    ) -> tuple[TokenTable, TokenTable]:
        """Token tables of first and of second texts for `join`, not truncated. Their numbers may differ.

        Args:
            first: First texts.
            second: Second texts.
            progress: Progress bar. None shows it on a terminal once the work has taken some seconds.

        Returns:
            The two tables.
        """
        texts = [self.inner.beginning(text) for text in (*first, *second)]
        table = uncut(self.inner, texts, progress=progress)
        return table[: len(first)], table[len(first) :]

    def note_unknown(
        self, first: Sequence[str], second: Sequence[str], sides: tuple[TokenTable, TokenTable]
    ) -> None:
        """Record texts with unknown tokens for the current call. `sides` comes from `tables`.

        Args:
            first: First texts.
            second: Second texts.
            sides: Output of `tables`.
        """
        for reader, texts, table in zip(self.readers, (first, second), sides, strict=True):
            ends = np.minimum(table.ends, table.starts + self.inner.max_length)
            note_unknown(reader, texts, TokenTable(table.ids, table.starts, ends))

    @property
    def readers(self) -> tuple[Any, Any]:
        """What tokenises first and second texts."""
        return self.inner, self.inner

    def room(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Tokens of the joint inputs of sentences of these lengths.

        Args:
            first: Tokens of each first text.
            second: Tokens of each second text.

        Returns:
            Tokens of each joint input.
        """
        counts = self.template.lengths(first, second, max_length=self.inner.max_length)
        return counts[0] + counts[1] + self.template.num_special

    def is_cut(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """True for joint inputs, by the lengths of their sentences, that are truncated.

        Args:
            first: Tokens of each first text.
            second: Tokens of each second text.

        Returns:
            bool array (pairs,).
        """
        counts = self.template.lengths(first, second, max_length=UNLIMITED)
        return counts[0] + counts[1] + self.template.num_special > self.inner.max_length

    @takes_peer_options
    def score(
        self,
        pairs: Iterable[tuple[str, str]] | tuple[str, str] | str | Iterable[str],
        second: str | Iterable[str] | None = None,
        /,
        *,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> Float[np.ndarray, "*pairs"]:
        """Score pairs by `similarity` of their logits, higher = closer.

        Long pairs are truncated as by sentence-transformers, the longer text first.

        Args:
            pairs: Pairs of texts, one pair, or the first texts. `score("a", "b")` and `score(firsts, seconds)` work
                too.
            second: Second texts, if `pairs` are first texts.
            batch_tokens: Tokens of a batch, padding included.
            show_progress: Progress bar. None shows it on a terminal once the work has taken some seconds.
            strict: Raise an error for a truncated pair. False prints one warning with their number.

        Returns:
            float32 array (pairs,), in order. A number for a single pair.

        Raises:
            UserError: An entry is not a pair of texts, or a text is empty.

        Example:
            >>> encoder = CrossEncoder.load("runs/NAME")  # doctest: +SKIP
            >>> encoder.score([("怎么退货", "如何退货"), ("怎么退货", "今天天气很好")])  # doctest: +SKIP
        """
        first, second, is_one = as_pairs(side_by_side(pairs, second))
        logits = self.logits(
            first, second, batch_tokens=batch_tokens, show_progress=show_progress, strict=strict
        )
        scores = similarity(torch.from_numpy(logits), self.grades).numpy()
        return scores[0] if is_one else scores

    def predict(self, pairs: Iterable[tuple[str, str]] | tuple[str, str], **options: Any) -> Any:
        """Return what `predict` of sentence-transformers returns, without its sigmoid over a single logit.

        Args:
            pairs: Pairs of texts, or one pair.
            **options: As of `score`.

        Returns:
            As of `score`. With several classes their logits, float32 (pairs, classes).

        Raises:
            UserError: As in `score`.

        Example:
            >>> from juzhen import CrossEncoder
            >>> encoder = CrossEncoder.load("runs/NAME")  # doctest: +SKIP
            >>> encoder.predict([("怎么退货", "如何退货"), ("怎么退货", "今天天气很好")])  # doctest: +SKIP
        """
        if self.outputs == 1:
            return self.score(pairs, **options)
        first, second, is_one = as_pairs(side_by_side(pairs, None))
        logits = self.logits(first, second, **options)
        return logits[0] if is_one else logits

    @takes_peer_options
    def rank(
        self,
        query: str,
        documents: Iterable[str],
        top_k: int | None = None,
        *,
        among: Iterable[int] | None = None,
        **options: Any,
    ) -> list[Hit]:
        """Sort documents by their `score` with a query, best first. For equal scores the lower number comes first.

        Args:
            query: The query.
            documents: All documents.
            top_k: Number of hits. None returns all.
            among: Numbers of the candidates, such as those found by `SentenceEncoder.search`. None takes all documents.
            options: As in `score`.

        Returns:
            Hits with score and document number.

        Raises:
            UserError: A candidate number does not exist, `top_k` is too large, or as in `score`.

        Example:
            >>> CrossEncoder.load("runs/NAME").rank("怎么退货", ["今天天气很好", "如何退货"], top_k=1)  # doctest: +SKIP
        """
        question, texts = as_text(query, "query"), as_text_list(documents, "documents")
        chosen = range(len(texts)) if among is None else as_column(among, "among")
        for number in chosen:
            is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
            if not is_whole or not 0 <= number < len(texts):
                raise UserError(f"among: {number} is not a document number. Expected 0 to {len(texts) - 1}")
        numbers = sorted({int(number) for number in chosen})
        check_top_k(len(numbers) if top_k is None else top_k, len(numbers))
        scores = self.score([(question, texts[number]) for number in numbers], **options)
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [Hit(numbers[rank], float(scores[rank])) for rank in order.tolist()]

    @torch.no_grad()
    @takes_peer_options
    def logits(
        self,
        first: Sequence[str],
        second: Sequence[str],
        *,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> Float[np.ndarray, "pairs outputs"]:
        """Logits of the pairs in order, without dropout. The mean of both orders if `symmetric`.

        Args:
            first: First texts.
            second: Second texts.
            batch_tokens: Tokens of a batch, padding included.
            show_progress: Progress bar. None shows it on a terminal once the work has taken some seconds.
            strict: Raise an error for a truncated text. False prints one warning.

        Returns:
            float32 array (pairs, outputs).

        Raises:
            UserError: A text is empty or not a string, or the two lists differ in length.
        """
        first, second = as_text_list(first, "first"), as_text_list(second, "second")
        if len(first) != len(second):
            raise UserError(
                f"{len(first)} first texts and {len(second)} second ones: expected as many of each"
            )
        warn_forked()
        sides = self.tables(first, second, progress=show_progress)
        orders = [sides, sides[::-1]] if self.symmetric else [sides]
        lengths = self.room(sides[0].lengths, sides[1].lengths)
        with reported(strict=strict, advice=STRICT) as seen:
            is_cut = self.is_cut(sides[0].lengths, sides[1].lengths)
            cut = [(first[row], second[row]) for row in np.flatnonzero(is_cut)]
            seen.count(cut, first, max_length=self.inner.max_length, unit="pairs")
            self.note_unknown(first, second, sides)
        logits = np.empty((len(first), self.outputs), dtype=np.float32)
        device = self.inner.device
        with evaluating(self), progress_bar("scoring pairs", len(first), shown=show_progress) as advance:
            for rows in batches_by_length(lengths, batch_tokens=batch_tokens):
                parts = [self(self.join(a[rows], b[rows]).to(device)) for a, b in orders]
                logits[rows] = torch.stack(parts).mean(dim=0).cpu().numpy()
                advance(len(rows))
        require_finite(logits, list(zip(first, second, strict=True)), key="pair")
        return logits


def truncated_pairs(
    encoder: PairEncoder, examples: Examples, lengths: np.ndarray | None = None
) -> TruncationStats:
    """Count truncated pairs. A sentence that was truncated alone fills the whole input, so the pair does not fit.

    Args:
        encoder: Its `max_length` is the limit.
        examples: Pairs. Of a triplet, the first two texts count.
        lengths: As in `truncated_sentences`.

    Returns:
        Number of pairs, number truncated, and `max_length`.
    """
    if lengths is None:
        lengths = encoder.inner.tokenize(examples.sentences).lengths
    first, second, *_ = (lengths[numbers] for numbers in examples.columns.values())
    return TruncationStats(
        len(first), int(encoder.is_cut(first, second).sum()), encoder.inner.max_length, unit="pairs"
    )


def truncated_query_pairs(encoder: PairEncoder, examples: Examples) -> TruncationStats:
    """Count truncated pairs of a query and each document of its row, where each text is read by its side.

    Args:
        encoder: Its `max_length` is the limit.
        examples: Pairs or triplets, the query first.

    Returns:
        Number of pairs of a query and a document, number truncated, and `max_length`.
    """
    first, *further = examples.columns.values()
    used, positions = np.unique(np.concatenate(further), return_inverse=True)
    queries, places_of_first = np.unique(first, return_inverse=True)
    texts = [[examples.sentences[number] for number in numbers.tolist()] for numbers in (queries, used)]
    sides = encoder.tables(*texts)
    asked = np.tile(sides[0].lengths[places_of_first], len(further))
    is_cut = encoder.is_cut(asked, sides[1].lengths[positions])
    return TruncationStats(len(asked), int(is_cut.sum()), encoder.inner.max_length, unit="pairs")
