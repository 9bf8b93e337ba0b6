"""Batches of text alone, tokenised when a step needs it; in training a row may hold several forms of one text."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from juzhen.core.batch import Batch, Tokens
from juzhen.core.examples import Examples, Kind
from juzhen.data.running_text import TextTable
from juzhen.encoders.augmentation import SentenceChanges
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.sentence_encoder import PromptEncoder
from juzhen.encoders.token_table import CachedTokenizer, TokenTable

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

    Measured: the built-in tokenizer makes 1.4 million tokens per second on one core, a hundred times what a small
    encoder learns from there. A corpus is seen once or twice, and so nothing is gained by keeping its tokens.
    """

    def tokenize(self, texts: Sequence[str]) -> TokenTable:
        return TokenTable.of(self._tokenize(texts))

    # Of running text there are no lengths, and `lengths` does not ask for them.
    def token_lists(  # type: ignore[override]
        self, examples: Examples
    ) -> TokenTable | _TokensOnDemand:
        if isinstance(examples.sentences, TextTable):
            return _TokensOnDemand(examples.sentences, self)
        return super().token_lists(examples)

    def lengths(self, examples: Examples) -> np.ndarray:
        """As for sentences; of running text the number of bytes, which puts windows in about the same order."""
        if isinstance(examples.sentences, TextTable):
            return examples.sentences.sizes
        return super().lengths(examples)

    def _forms(
        self, examples: Examples, rows: np.ndarray, tokens: Tokens, columns: Sequence[str] = PAIR
    ) -> Batch:
        """The Batch in which each row has several forms of its text, one for each of `columns`.

        tokens  those of the first form of all rows, then those of the second, and so on

        Two forms are two texts, even where nothing was changed: each has a number of its own.
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
    """In training, makes a positive pair of each sentence: the sentence, and what the views make of it.

    What is drawn depends on the seed, the number of the batch and the number of the sentence alone. When nothing is
    learnt, batches are those of every other encoder.

    tokenize        texts → their token numbers; may keep them
    changes_anchor  the anchor is changed as well, by draws of its own
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
        """The Batch of the given rows, which is the `index`-th of the stage."""
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
        """The Batch of the given rows, which is the `index`-th of the stage."""
        views = self._encoder.templates.views
        numbers = examples.columns["text"][rows].astype(np.int64)
        table = self.token_lists(examples)[np.tile(numbers, len(views))]
        tokens = self._encoder.collate(table, np.repeat(np.arange(len(views)), len(rows)))
        return self._forms(examples, rows, tokens, views)
