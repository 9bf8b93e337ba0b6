"""Sentences of labelled rows, some of them changed while they are learnt from; labels stay."""

from collections.abc import Collection

import numpy as np

from juzhen.core.examples import Examples
from juzhen.encoders.sentence_changes import SentenceChanges
from juzhen.encoders.token_table import TokenTable

DRAWS = 2
"""Last number of the seed, so that nothing is drawn here that `juzhen.encoders.views_collate` draws."""


class Augmentation:
    """Changes each sentence of a training batch with a probability.

    What is drawn depends on the seed, the number of the batch and the number of the sentence alone: a continued run
    draws the same, and so does each of several processes. A sentence that a batch has twice is changed alike. A
    changed sentence keeps its number, so that losses still know it for the same text.

    sets  names of the sets whose sentences are changed; None: all
    """

    def __init__(
        self, changes: SentenceChanges, *, probability: float, sets: Collection[str] | None, seed: int
    ) -> None:
        self._changes = changes
        self._probability = probability
        self._sets = sets
        self._seed = seed

    def __call__(
        self, examples: Examples, numbers: np.ndarray, tokens: TokenTable, *, index: int
    ) -> TokenTable:
        """The tokens of the sentences with these numbers, as the `index`-th batch of the stage shows them."""
        if self._sets is not None and examples.name not in self._sets:
            return tokens
        generators = [
            np.random.default_rng([self._seed, index, number, DRAWS]) for number in numbers.tolist()
        ]
        places = [place for place, one in enumerate(generators) if one.random() < self._probability]
        drawn = [generators[place] for place in places]
        token_lists = list(tokens)
        for place, ids in zip(
            places, self._changes(examples, numbers[places], tokens[places], drawn), strict=True
        ):
            token_lists[place] = ids
        return TokenTable.of(token_lists)
