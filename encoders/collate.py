"""From rows of text to the tensors of a step, every distinct sentence once."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from schema.batch import Batch, Tokens
from schema.examples import Examples


class SentenceCollator:
    """Makes a Batch of the chosen rows; texts are turned into token numbers once per sentence table.

    tokenize  texts → one list of token numbers each (special tokens included, cut to the maximal length)
    pack      lists of token numbers → Tokens
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], list[list[int]]],
        pack: Callable[[Sequence[Sequence[int]]], Tokens],
    ) -> None:
        self._tokenize = tokenize
        self._pack = pack
        self._tables: dict[int, tuple[list[str], list[list[int]]]] = {}

    def token_lists(self, examples: Examples) -> list[list[int]]:
        """Token numbers of every sentence of the table; computed at the first call."""
        key = id(examples.sentences)
        if key not in self._tables:
            # The table itself is kept beside its tokens, so that its id cannot be taken by another list.
            self._tables[key] = (examples.sentences, self._tokenize(examples.sentences))
        return self._tables[key][1]

    def lengths(self, examples: Examples) -> np.ndarray:
        """Tokens per sentence of the table, int64 (sentences,)."""
        return np.fromiter((len(tokens) for tokens in self.token_lists(examples)), dtype=np.int64)

    def __call__(self, examples: Examples, rows: np.ndarray) -> Batch:
        """The Batch of the given rows."""
        token_lists = self.token_lists(examples)
        numbers = np.stack([values[rows] for values in examples.columns.values()])
        distinct, positions = np.unique(numbers, return_inverse=True)
        positions = torch.from_numpy(positions.reshape(numbers.shape))
        targets = examples.targets
        return Batch(
            task=examples.name,
            kind=examples.kind,
            tokens=self._pack([token_lists[number] for number in distinct]),
            sentence_ids=torch.from_numpy(distinct.astype(np.int64)),
            columns=dict(zip(examples.columns, positions, strict=True)),
            targets=None if targets is None else torch.from_numpy(targets[rows]),
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
        )
