"""From rows of text to the tensors of a step, every distinct sentence once unless a loss needs more."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float

from juzhen.core.batch import Batch, Sharing, Tokens
from juzhen.core.examples import Examples, Kind
from juzhen.encoders.augmentation import Augmentation
from juzhen.encoders.token_table import TokenTable


class SentenceCollator:
    """Makes a Batch of the chosen rows; texts are turned into token numbers once per sentence table.

    tokenize  texts → their token numbers (special tokens included, cut to the maximal length)
    pack      token numbers of some sentences → Tokens
    sharing   dataset key → which equal sentences of a training batch are encoded once (all, where it is not
              told); evaluation encodes every distinct sentence once
    augmentation  what changes some of the sentences of a training batch; None: nothing does
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], Sequence[Sequence[int] | np.ndarray]],
        pack: Callable[[TokenTable], Tokens],
        *,
        sharing: Mapping[str, Sharing] = MappingProxyType({}),
        augmentation: Augmentation | None = None,
    ) -> None:
        self._tokenize = tokenize
        self._pack = pack
        self._augmentation = augmentation
        self._sharing = dict(sharing)
        # Found by identity and not by id(): an id means nothing in a worker process that was not forked.
        self._tables: list[tuple[Sequence[str], TokenTable]] = []

    def token_lists(self, examples: Examples) -> TokenTable:
        """Token numbers of every sentence of the table; computed at the first call."""
        for sentences, table in self._tables:
            if sentences is examples.sentences:
                return table
        table = TokenTable.of(self._tokenize(examples.sentences))
        self._tables.append((examples.sentences, table))
        return table

    def lengths(self, examples: Examples) -> np.ndarray:
        """Tokens per sentence of the table, int64 (sentences,)."""
        return self.token_lists(examples).lengths

    def row_lengths(self, examples: Examples) -> np.ndarray:
        """Tokens of the longest text of each row, int64 (rows,)."""
        lengths = self.lengths(examples)
        return np.maximum.reduce([lengths[values] for values in examples.columns.values()])

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """The Batch of the given rows, which is the `index`-th of the stage; what is drawn for it depends on that."""
        if examples.kind is Kind.SENTENCE:
            # A loss of sentences compares each with itself, so it comes twice.
            text = examples.columns["text"]
            examples = replace(examples, columns={"text": text, "text_again": text})
        return self._batch(examples, rows, self._sharing.get(examples.name, Sharing.BATCH), index=index)

    def __call__(self, examples: Examples, rows: np.ndarray) -> Batch:
        """The Batch of the given rows, to be evaluated."""
        return self._batch(examples, rows, Sharing.BATCH)

    def shown(self, examples: Examples, numbers: np.ndarray, *, index: int | None) -> TokenTable:
        """Tokens of the sentences with these numbers, as batch `index` of a training shows them; None: as they are."""
        tokens = self.token_lists(examples)[numbers]
        if index is None or self._augmentation is None:
            return tokens
        return self._augmentation(examples, numbers, tokens, index=index)

    def _batch(
        self, examples: Examples, rows: np.ndarray, sharing: Sharing, *, index: int | None = None
    ) -> Batch:
        numbers = np.stack([values[rows] for values in examples.columns.values()])
        chosen, places = _appearances(numbers, sharing)
        positions = torch.from_numpy(places)
        targets = examples.targets
        return Batch(
            task=examples.name,
            kind=examples.kind,
            tokens=self._pack(self.shown(examples, chosen, index=index)),
            sentence_ids=torch.from_numpy(chosen),
            columns=dict(zip(examples.columns, positions, strict=True)),
            targets=None if targets is None else torch.from_numpy(targets[rows]),
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
            teacher_scores=teacher_scores(examples, rows),
        )


def teacher_scores(examples: Examples, rows: np.ndarray) -> Float[torch.Tensor, "batch documents"] | None:
    """What a teacher scores the documents of these rows, where the set says."""
    return None if examples.teacher_scores is None else torch.from_numpy(examples.teacher_scores[rows])


def _appearances(numbers: np.ndarray, sharing: Sharing) -> tuple[np.ndarray, np.ndarray]:
    """Which sentences to encode, int64, and where among them each sentence of `numbers` (columns, rows) stands.

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
