"""Batches of a student: the sentences of a row, and the vectors that its teacher gives."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int

from juzhen.core.batch import Batch, Sharing
from juzhen.core.examples import Examples
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.kept_vectors import Targets

ALL = slice(None)


class TaughtCollator(SentenceCollator):
    """In training, adds what the teacher gives for the first sentence of each row; `targets` must be there by then."""

    targets: Targets

    def read(self, examples: Examples, rows: np.ndarray | slice = ALL) -> Int[np.ndarray, "rows *texts"]:
        """Numbers of the sentences of these rows whose vectors are asked of the teacher."""
        return next(iter(examples.columns.values()))[rows]

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """The Batch of the given rows, which is the `index`-th of the stage."""
        batch = self._batch(examples, rows, self._sharing.get(examples.name, Sharing.BATCH), index=index)
        return replace(batch, teacher=self._taught(examples, rows))

    def _taught(self, examples: Examples, rows: np.ndarray) -> torch.Tensor:
        numbers = self.read(examples, rows)
        vectors = self.targets(examples.name, numbers.ravel())
        return torch.from_numpy(vectors.reshape(*numbers.shape, -1))


class GuidedCollator(TaughtCollator):
    """In training, adds what the teacher gives for every text of each row."""

    def read(self, examples: Examples, rows: np.ndarray | slice = ALL) -> Int[np.ndarray, "rows texts"]:
        return np.stack([values[rows] for values in examples.columns.values()], axis=1)

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        batch = SentenceCollator.training_batch(self, examples, rows, index=index)
        return replace(batch, guide=self._taught(examples, rows))
