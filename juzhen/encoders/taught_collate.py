"""Batches of a student: the sentences of a row, and the vector that its teacher gives."""

from dataclasses import replace

import numpy as np
import torch

from juzhen.core.batch import Batch, Sharing
from juzhen.core.examples import Examples
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.kept_vectors import Targets


class TaughtCollator(SentenceCollator):
    """In training, adds what the teacher gives for the first sentence of each row; `targets` must be there by then."""

    targets: Targets

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """The Batch of the given rows, which is the `index`-th of the stage."""
        batch = self._batch(examples, rows, self._sharing.get(examples.name, Sharing.BATCH), index=index)
        read = next(iter(examples.columns.values()))[rows]
        return replace(batch, teacher=torch.from_numpy(self.targets(examples.name, read)))
