"""Sentences of labelled rows, some of them changed while they are learnt from; labels stay."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

import numpy as np

from juzhen.core.examples import Examples, Side
from juzhen.encoders.sentence_changes import SentenceChanges
from juzhen.encoders.token_table import TokenTable

DRAWS = 2
"""Last number of the seed, so that nothing is drawn here that `juzhen.encoders.views_collate` draws."""


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
        every = [place for place, one in enumerate(generators) if one.random() < self._probability]
        token_lists = list(tokens)
        for side in np.unique(sides).tolist():
            places = [place for place in every if sides[place] == side]
            drawn = [generators[place] for place in places]
            changed = self._changes[side](examples, numbers[places], tokens[places], drawn)
            for place, ids in zip(places, changed, strict=True):
                token_lists[place] = ids
        return TokenTable.of(token_lists)
