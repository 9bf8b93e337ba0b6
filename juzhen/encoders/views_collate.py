"""A sentence and a changed form of it, as the pair that a sentence encoder learns from when there are no pairs."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from juzhen.core.batch import Batch, Tokens
from juzhen.core.examples import Examples, Kind
from juzhen.encoders.sentence_changes import SentenceChanges
from juzhen.encoders.text_collate import TextCollator
from juzhen.encoders.token_table import CachedTokenizer, TokenTable

ANCHOR, POSITIVE = range(2)


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
        self._changed = (ANCHOR, POSITIVE) if changes_anchor else (POSITIVE,)
        self._seed = seed

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """The Batch of the given rows, which is the `index`-th of the stage."""
        numbers = examples.columns["text"][rows].astype(np.int64)
        count = len(numbers)
        tokens = self.token_lists(examples)[numbers]
        sides = {
            side: TokenTable.of(
                self._changes(examples, numbers, tokens, self._generators(index, numbers, side))
            )
            for side in self._changed
        }
        return Batch(
            task=examples.name,
            kind=Kind.POSITIVE_PAIR,
            tokens=self._pack(TokenTable.joined([sides.get(ANCHOR, tokens), sides[POSITIVE]])),
            # Two views are two texts, even where nothing was changed: each has a number of its own.
            sentence_ids=torch.from_numpy(np.concatenate([2 * numbers, 2 * numbers + 1])),
            columns={"anchor": torch.arange(count), "positive": torch.arange(count, 2 * count)},
            targets=None,
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
        )

    def _generators(self, index: int, numbers: np.ndarray, side: int) -> list[np.random.Generator]:
        return [np.random.default_rng([self._seed, index, number, side]) for number in numbers.tolist()]
