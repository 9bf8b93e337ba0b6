"""Sentences that are changed while they are learnt from: how, and which of those of rows whose labels stay."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from juzhen.core.examples import Examples, Side
from juzhen.encoders.token_table import TokenTable
from juzhen.encoders.views import TokenViews
from juzhen.encoders.views_text import TextViews

DRAWS = 2
"""Last number of the seed, so that nothing is drawn here that a ViewCollator draws."""


class SentenceChanges:
    """The changes that a configuration asks for: first of texts, which are tokenised again, then of their tokens.

    tokenize  token numbers of texts that are seen once and not worth keeping
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], TokenTable | Sequence[Sequence[int]]],
        *,
        text_views: TextViews,
        token_views: TokenViews,
    ) -> None:
        self._tokenize = tokenize
        self._text_views = text_views
        self._token_views = token_views
        self._translated: set[str] = set()

    def __call__(
        self,
        examples: Examples,
        numbers: np.ndarray,
        tokens: TokenTable,
        generators: Sequence[np.random.Generator],
    ) -> list[np.ndarray]:
        """Tokens of the sentences with these numbers, changed; each draws from a generator of its own."""
        token_lists = list(tokens)
        if self._text_views:
            self._require_translations(examples)
            texts = [examples.sentences[number] for number in numbers]
            changed = [
                self._text_views(text, generator) for text, generator in zip(texts, generators, strict=True)
            ]
            rows = [row for row, text in enumerate(texts) if changed[row] != text]
            fresh = self._tokenize([changed[row] for row in rows]) if rows else []
            for row, ids in zip(rows, TokenTable.of(fresh), strict=True):
                token_lists[row] = ids
        return [
            self._token_views(ids, generator) for ids, generator in zip(token_lists, generators, strict=True)
        ]

    def _require_translations(self, examples: Examples) -> None:
        """Once per set: a file that translates none of it is a mistake and not a view."""
        if self._text_views.translations is not None and examples.name not in self._translated:
            self._text_views.translations.require(examples.name, examples.sentences)
            self._translated.add(examples.name)


class Augmentation:
    """Changes each sentence of a training batch with a probability.

    What is drawn depends on the seed, the number of the batch and the number of the sentence alone: a continued run
    draws the same, and so does each of several processes. A sentence that a batch has twice is changed alike. A
    changed sentence keeps its number, so that losses still know it for the same text.

    changes   of sentences behind the prompt that stands before every sentence
    sets      names of the sets whose sentences are changed; None: all
    of_sides  changes of queries and of documents, where these have prompts of their own
    """

    def __init__(
        self,
        changes: SentenceChanges,
        *,
        probability: float,
        sets: Collection[str] | None,
        seed: int,
        of_sides: Mapping[int, SentenceChanges] = MappingProxyType({}),
    ) -> None:
        self._changes = {Side.EVERY: changes, **of_sides}
        self._probability = probability
        self._sets = sets
        self._seed = seed

    def __call__(
        self, examples: Examples, numbers: np.ndarray, tokens: TokenTable, *, index: int, sides: np.ndarray
    ) -> TokenTable:
        """The tokens of the sentences with these numbers, as the `index`-th batch of the stage shows them.

        sides  the Side by which each is read
        """
        if self._sets is not None and examples.name not in self._sets:
            return tokens
        generators = [
            np.random.default_rng([self._seed, index, number, DRAWS]) for number in numbers.tolist()
        ]
        chosen = [row for row, generator in enumerate(generators) if generator.random() < self._probability]
        token_lists = list(tokens)
        for side in np.unique(sides).tolist():
            rows = [row for row in chosen if sides[row] == side]
            of_rows = [generators[row] for row in rows]
            changed = self._changes[side](examples, numbers[rows], tokens[rows], of_rows)
            for row, ids in zip(rows, changed, strict=True):
                token_lists[row] = ids
        return TokenTable.of(token_lists)
