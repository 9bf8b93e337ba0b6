"""From rows of text to the tensors of a step, every distinct sentence once unless a loss needs more."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from juzhen.core.batch import Batch, Sharing, Tokens
from juzhen.core.examples import NLI_GRADES, Examples, Kind, Side
from juzhen.data.running_text import TextTable
from juzhen.encoders.augmentation import Augmentation, SentenceChanges
from juzhen.encoders.sentence_encoder import PromptEncoder
from juzhen.encoders.tokens import CachedTokenizer, ReadSentences, TokenTable

ALL = slice(None)


class SideTable:
    """Token table of sentences per side, tokenized on demand.

    A sentence read by a side has the index side × number of sentences + its number.

    Args:
        sentences: All sentences.
        tokenizer: Reads them, by their sides.

    Attributes:
        tokens: Tokens of each index, empty until requested.
    """

    def __init__(self, sentences: Sequence[str], tokenizer: CachedTokenizer) -> None:
        self.sentences = sentences
        self._tokenizer = tokenizer
        starts, ends = np.zeros((2, len(Side) * len(sentences)), dtype=np.int64)
        self._known = np.zeros(len(starts), dtype=bool)
        self._used = 0
        self.tokens = TokenTable(np.empty(0, dtype=np.int32), starts, ends)

    def places(
        self, numbers: Int[np.ndarray, "*texts"], sides: Int[np.ndarray, "*texts"]
    ) -> Int[np.ndarray, "*texts"]:
        """Return the index of each text and side in the token table. Two sides with the same prompt share an index.

        Args:
            numbers: Numbers of texts.
            sides: Values of `Side`, the same shape.

        Returns:
            Indices, the shape of `numbers`. New texts are tokenized.
        """
        codes = self._tokenizer.encoder.sides[sides].astype(np.int64)
        slots = codes * len(self.sentences) + numbers
        self._learn(np.unique(slots[~self._known[slots]]))
        return slots

    def unpooled(self, slots: Int[np.ndarray, "sentences"]) -> Int[np.ndarray, "sentences"]:
        """Return how many first tokens of each text pooling leaves out.

        Args:
            slots: Output of `places`.

        Returns:
            Number of tokens, such as those of the prompt under `include_prompt=false`. 0 if pooling reads
            all.
        """
        of_sides = np.array([self._tokenizer.encoder.reading(side).unpooled for side in Side])
        return of_sides[slots // len(self.sentences)]

    def _learn(self, slots: Int[np.ndarray, "places"]) -> None:
        for side in Side if len(slots) else ():
            chosen = slots[slots // len(self.sentences) == side]
            if not len(chosen):
                continue
            tokenize = self._tokenizer.reading(side)
            fresh = tokenize([self.sentences[slot] for slot in (chosen % len(self.sentences)).tolist()])
            ends = self._used + np.cumsum(fresh.lengths)
            self._reserve(int(ends[-1]))
            self.tokens.ids[self._used : ends[-1]] = fresh.flat()
            self.tokens.ends[chosen], self.tokens.starts[chosen] = ends, ends - fresh.lengths
            self._used = int(ends[-1])
            self._known[chosen] = True

    def _reserve(self, size: int) -> None:
        """Make room for `size` tokens, twice as much as before, so that all copies take as long as the last."""
        if size > len(self.tokens.ids):
            ids = np.empty(max(size, 2 * self._used), dtype=np.int32)
            ids[: self._used] = self.tokens.ids[: self._used]
            self.tokens.ids = ids


class SentenceCollator:
    """Builds a Batch of rows. A sentence table is tokenized once.

    Args:
        tokenize: Texts → token ids, with special tokens, truncated to the maximal length.
        pack: Token ids of sentences → Tokens.
        sharing: Dataset key → which equal sentences of a training batch are encoded once. Missing keys share all.
            Evaluation encodes every distinct sentence once.
        augmentation: Changes of the sentences of a training batch.
        sides: `tokenize`, if queries and documents are read differently (`Examples.read_as`). A sentence that is both
            then occurs twice in a batch, with the same number.
        on_demand: Tokenize a sentence when a batch first has it. Needs `sides`.
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], Sequence[Sequence[int] | np.ndarray]],
        pack: Callable[[TokenTable], Tokens],
        *,
        sharing: Mapping[str, Sharing] = MappingProxyType({}),
        augmentation: Augmentation | None = None,
        sides: CachedTokenizer | None = None,
        on_demand: bool = False,
    ) -> None:
        self._tokenize = tokenize
        self._pack = pack
        self._on_demand = on_demand
        self._sides = sides if sides is not None and (on_demand or sides.encoder.sides.any()) else None
        self._augmentation = augmentation
        self._sharing = dict(sharing)
        # Found by identity and not by id(): an id means nothing in a worker process that was not forked.
        self._tables: list[tuple[Sequence[str], TokenTable]] = []
        self._side_tables: list[SideTable] = []

    def token_lists(self, examples: Examples) -> TokenTable:
        """Return the token table of all sentences, computed at the first call.

        If queries and documents are read differently, this is the table of a `SideTable`, filled for these rows.

        Args:
            examples: Rows. Sets with the same table of sentences share the result.

        Returns:
            Token ids of each sentence, truncated at `max_length`.
        """
        if (apart := self._apart(examples)) is not None:
            numbers = np.stack(list(examples.columns.values()))
            apart.places(numbers, examples.read_as(ALL))
            if examples.documents is not None and not self._on_demand:  # negatives that are mined later
                sides_of_texts = np.full(len(examples.documents), examples.reads[-1])
                apart.places(examples.documents, sides_of_texts)
            return apart.tokens
        for sentences, table in self._tables:
            if sentences is examples.sentences:
                return table
        table = TokenTable.of(self._tokenize(examples.sentences))
        self._tables.append((examples.sentences, table))
        return table

    def token_counts(self, examples: Examples) -> np.ndarray:
        """Count the tokens of each sentence, with the longest prompt.

        Args:
            examples: Rows.

        Returns:
            int64 (sentences,).
        """
        lengths = self.token_lists(examples).lengths
        return lengths.reshape(-1, max(len(examples.sentences), 1)).max(axis=0, initial=0)

    def read_sentences(self, examples: Examples) -> ReadSentences:
        """Read every sentence of the table by the tokenizers of all sides in these rows.

        Args:
            examples: Rows.

        Returns:
            For each sentence whether it has an unknown token, and a code of its token numbers.
        """
        size, table = len(examples.sentences), self.token_lists(examples)
        read = ReadSentences.none(size)
        for start in range(0, len(table), max(size, 1)):
            read.put(np.arange(size), self._reader(Side(start // size)), table[start : start + size])
        return read

    def _reader(self, side: Side) -> Any:
        if self._sides is not None:
            return self._sides.reading(side).encoder
        if isinstance(self._tokenize, CachedTokenizer):
            return self._tokenize.encoder
        return getattr(self._tokenize, "__self__")  # noqa: B009  # `encoder.tokenize` itself

    def lengths(self, examples: Examples) -> np.ndarray:
        """Count the tokens of each sentence that the encoder sees.

        Args:
            examples: Rows.

        Returns:
            int64 (sentences,).
        """
        return self.token_counts(examples)

    def row_lengths(self, examples: Examples) -> np.ndarray:
        """Count the tokens of the longest text of each row.

        Args:
            examples: Rows.

        Returns:
            int64 (rows,).
        """
        lengths = self.lengths(examples)
        return np.maximum.reduce([lengths[values] for values in examples.columns.values()])

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """Make a batch for training. Its random draws depend on the index.

        Args:
            examples: Rows.
            rows: Row numbers, int (batch,).
            index: Position of the batch in the stage, from 0.

        Returns:
            Tensors on the CPU: tokens of the distinct sentences, and their places in the rows.
        """
        if examples.kind is Kind.SENTENCE:
            # A loss of sentences compares each with itself, so it comes twice.
            text = examples.columns["text"]
            examples = replace(examples, columns={"text": text, "text_again": text})
        return self._batch(examples, rows, self._sharing.get(examples.name, Sharing.BATCH), index=index)

    def __call__(self, examples: Examples, rows: np.ndarray) -> Batch:
        """The Batch of the given rows, to be evaluated."""
        return self._batch(examples, rows, Sharing.BATCH)

    def shown(self, examples: Examples, numbers: np.ndarray, *, index: int | None) -> TokenTable:
        """Return the tokens of sentences as a training batch shows them.

        Args:
            examples: Rows.
            numbers: Numbers of sentences, or indices of a `SideTable` if queries and documents are read differently.
            index: Position of the batch, which decides about augmentation. None: the original tokens.

        Returns:
            Token ids of each sentence, in the order of `numbers`.
        """
        apart = self._apart(examples)
        tokens = (self.token_lists(examples) if apart is None else apart.tokens)[numbers]
        if index is None or self._augmentation is None:
            return tokens
        sides, numbers = np.divmod(numbers, len(examples.sentences))
        return self._augmentation(examples, numbers, tokens, index=index, sides=sides)

    def _batch(
        self, examples: Examples, rows: np.ndarray, sharing: Sharing, *, index: int | None = None
    ) -> Batch:
        numbers = np.stack([values[rows] for values in examples.columns.values()])
        apart = self._apart(examples)
        if apart is not None:
            numbers = apart.places(numbers, examples.read_as(rows))
        chosen, places = _appearances(numbers, sharing)
        positions = torch.from_numpy(places)
        tokens = self._pack(self.shown(examples, chosen, index=index))
        if apart is not None:
            tokens, chosen = _leave_out(tokens, apart.unpooled(chosen)), chosen % len(examples.sentences)
        return Batch(
            task=examples.name,
            kind=examples.kind,
            tokens=tokens,
            sentence_ids=torch.from_numpy(chosen),
            columns=dict(zip(examples.columns, positions, strict=True)),
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
            tensors=given_tensors(examples, rows),
        )

    def _apart(self, examples: Examples) -> SideTable | None:
        """Side table of a set whose texts are tokenized on demand or read by side. None if all are read alike."""
        if self._sides is None or not (self._on_demand or self._sides.encoder.sides[examples.reads].any()):
            return None
        for table in self._side_tables:
            if table.sentences is examples.sentences:
                return table
        self._side_tables.append(SideTable(examples.sentences, self._sides))
        return self._side_tables[-1]


def _leave_out(tokens: Tokens, unpooled: Int[np.ndarray, "sentences"]) -> Tokens:
    """Set how many tokens pooling leaves out of each sentence. `unpooled` is in packed order."""
    if (unpooled == unpooled[0]).all():
        tokens.unpooled = int(unpooled[0])
    else:
        tokens.unpooled = torch.empty_like(tokens.lengths)
        tokens.unpooled[tokens.inverse_permutation] = torch.from_numpy(unpooled)
    return tokens


def given_tensors(examples: Examples, rows: np.ndarray) -> dict[str, torch.Tensor]:
    """Return labels and scores of rows as tensors, by the names of `juzhen.core.batch`.

    Args:
        examples: Rows.
        rows: Row numbers, int (batch,).

    Returns:
        Name → tensor (batch, …). Absent values have no name.
    """
    arrays = {
        "teacher_scores": examples.teacher_scores,
        "missing": examples.missing,
        "classes": examples.targets,
        "targets": examples.targets,
    }
    chosen = {name: values[rows] for name, values in arrays.items() if values is not None}
    if examples.kind is Kind.NLI_PAIR and chosen:  # the class of entailment is 0, and closest
        chosen["targets"] = np.asarray(NLI_GRADES, dtype=np.float32)[chosen["classes"].astype(np.int64)]
    return {name: torch.from_numpy(values) for name, values in chosen.items()}


def _appearances(numbers: np.ndarray, sharing: Sharing) -> tuple[np.ndarray, np.ndarray]:
    """Sentences to encode, int64, and the index among them of each entry of `numbers` (columns, rows).

    >>> numbers = np.array([[4, 9, 4], [9, 9, 7]])
    >>> [_appearances(numbers, sharing)[0].tolist() for sharing in Sharing]
    [[4, 7, 9], [4, 9, 7, 9], [4, 9, 4, 9, 9, 7]]
    """
    numbers = numbers.astype(np.int64)
    if sharing is Sharing.NONE:
        return numbers.ravel(), np.arange(numbers.size).reshape(numbers.shape)
    if sharing is Sharing.BATCH:
        chosen, positions = np.unique(numbers, return_inverse=True)
        return chosen, positions.reshape(numbers.shape)
    # Another column, another range of numbers: then only equal sentences of one column are equal.
    span = numbers.max() + 1
    apart = numbers + span * np.arange(len(numbers))[:, None]
    chosen, positions = np.unique(apart, return_inverse=True)
    return chosen % span, positions.reshape(numbers.shape)


def with_sides(examples: Examples) -> Examples:
    """Mark first texts as queries and others as documents, unless the rows have sides.

    Args:
        examples: Rows of two texts or more.

    Returns:
        The rows themselves, or a copy with the same texts.
    """
    return examples if examples.sides is not None else replace(examples, symmetric=False)


class AsymmetricCollator(SentenceCollator):
    """A `SentenceCollator` of rows `with_sides`."""

    def token_lists(self, examples: Examples) -> TokenTable:
        return super().token_lists(with_sides(examples))

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        return super().training_batch(with_sides(examples), rows, index=index)

    def __call__(self, examples: Examples, rows: np.ndarray) -> Batch:
        return super().__call__(with_sides(examples), rows)

    def shown(self, examples: Examples, numbers: np.ndarray, *, index: int | None) -> TokenTable:
        return super().shown(with_sides(examples), numbers, index=index)


PAIR = ("anchor", "positive")


class _TokensOnDemand:
    """The tokens of a TextTable, made for the texts that are asked for."""

    def __init__(self, texts: TextTable, collator: "TextCollator") -> None:
        self._texts = texts
        self._collator = collator

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, chosen: Sequence[int] | np.ndarray) -> TokenTable:
        return TokenTable.of(self._collator.tokenize([self._texts[number] for number in chosen]))


class TextCollator(SentenceCollator):
    """A SentenceCollator that keeps no tokens of running text.

    The built-in tokenizer makes 1.4 million tokens per second on one core, a hundred times the training speed of a
    small encoder there. A corpus is read once or twice, so a cache would gain nothing.
    """

    def tokenize(self, texts: Sequence[str]) -> TokenTable:
        """Tokenize texts without keeping their tokens.

        Args:
            texts: Texts of a batch.

        Returns:
            Token ids of each text, in their order.
        """
        return TokenTable.of(self._tokenize(texts))

    # Of running text there are no lengths, and `lengths` does not ask for them.
    def token_lists(  # type: ignore[override]
        self, examples: Examples
    ) -> TokenTable | _TokensOnDemand:
        if isinstance(examples.sentences, TextTable):
            return _TokensOnDemand(examples.sentences, self)
        return super().token_lists(examples)

    def lengths(self, examples: Examples) -> np.ndarray:
        """Count tokens as for sentences. Of running text it is the number of bytes, which gives a similar order.

        Args:
            examples: Rows.

        Returns:
            int64 (sentences,).
        """
        if isinstance(examples.sentences, TextTable):
            return examples.sentences.sizes
        return super().lengths(examples)

    def _forms(
        self, examples: Examples, rows: np.ndarray, tokens: Tokens, columns: Sequence[str] = PAIR
    ) -> Batch:
        """Batch in which each row has several forms of its text, one for each of `columns`.

        `tokens` holds the first form of all rows, then the second, and so on. Two forms are two texts with
        separate numbers, even if they are equal.
        """
        numbers = examples.columns["text"][rows].astype(np.int64)
        ids = [len(columns) * numbers + form for form in range(len(columns))]
        rows_of_forms = torch.arange(len(columns) * len(rows)).split(len(rows))
        return Batch(
            task=examples.name,
            kind=Kind.TRIPLET if "negative" in columns else Kind.POSITIVE_PAIR,
            tokens=tokens,
            sentence_ids=torch.from_numpy(np.concatenate(ids)),
            columns=dict(zip(columns, rows_of_forms, strict=True)),
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
        )


class ViewCollator(TextCollator):
    """Makes a positive pair of each sentence in training: the sentence and a changed view.

    The draw depends only on the seed, the batch number and the sentence number. Evaluation batches have no views.

    Args:
        tokenize: Texts → token ids, possibly cached.
        pack: As in `SentenceCollator`.
        changes: Changes of a sentence.
        changes_anchor: The anchor is changed as well, by separate draws.
        seed: Seed of the draws.
        sides: As in `SentenceCollator`.
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], Sequence[Sequence[int] | np.ndarray]],
        pack: Callable[[TokenTable], Tokens],
        *,
        changes: SentenceChanges,
        changes_anchor: bool,
        seed: int,
        sides: CachedTokenizer | None = None,
    ) -> None:
        super().__init__(tokenize, pack, sides=sides)
        self._changes = changes
        self._changed = (changes_anchor, True)
        self._seed = seed

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """Build a batch of sentences with their views.

        Args:
            examples: Rows with the column `text`.
            rows: Row numbers.
            index: Number of the batch in the stage. It decides the draws.

        Returns:
            Each sentence once a view, in the order of the views.
        """
        numbers = examples.columns["text"][rows].astype(np.int64)
        tokens = self.token_lists(examples)[numbers]
        forms = []
        for side, is_changed in enumerate(self._changed):
            draws = [np.random.default_rng([self._seed, index, number, side]) for number in numbers.tolist()]
            form = TokenTable.of(self._changes(examples, numbers, tokens, draws)) if is_changed else tokens
            forms.append(form)
        return self._forms(examples, rows, self._pack(TokenTable.joined(forms)))


class TemplateCollator(TextCollator):
    """In training, a row is a sentence in each of its templates: a triplet, or a pair without a negative template.

    Evaluation reads the anchor's.

    Args:
        tokenize: Texts → token ids, possibly cached.
        encoder: Its templates are read.
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], Sequence[Sequence[int] | np.ndarray]],
        encoder: PromptEncoder,
    ) -> None:
        super().__init__(tokenize, encoder.collate)
        self._encoder = encoder

    def lengths(self, examples: Examples) -> np.ndarray:
        return super().lengths(examples) + self._encoder.template_tokens[0].size

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """Build a batch of sentences in each of their templates.

        Args:
            examples: Rows with the column `text`.
            rows: Row numbers.
            index: Not used, since nothing is drawn.

        Returns:
            Each sentence once a template, in the order of the templates.
        """
        views = self._encoder.templates.views
        numbers = examples.columns["text"][rows].astype(np.int64)
        table = self.token_lists(examples)[np.tile(numbers, len(views))]
        tokens = self._encoder.collate(table, np.repeat(np.arange(len(views)), len(rows)))
        return self._forms(examples, rows, tokens, views)
