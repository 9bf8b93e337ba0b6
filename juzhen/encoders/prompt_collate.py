"""A sentence written several ways: in training one batch row is the same sentence in each of its templates."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from juzhen.core.batch import Batch
from juzhen.core.examples import Examples, Kind
from juzhen.encoders.prompt_encoder import PromptEncoder
from juzhen.encoders.text_collate import TextCollator
from juzhen.encoders.token_table import TokenTable


class PromptCollator(TextCollator):
    """Makes a triplet of a sentence (a pair, where there is no negative template); evaluation reads the anchor's."""

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], TokenTable | Sequence[Sequence[int]]],
        encoder: PromptEncoder,
    ) -> None:
        super().__init__(tokenize, encoder.collate)
        self._encoder = encoder
        self._views = encoder.prompts.views

    def lengths(self, examples: Examples) -> np.ndarray:
        return super().lengths(examples) + self._encoder.templates[0].size

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """The Batch of the given rows, which is the `index`-th of the stage."""
        numbers = examples.columns["text"][rows].astype(np.int64)
        count, num_views = len(numbers), len(self._views)
        table = self.token_lists(examples)[np.tile(numbers, num_views)]
        views = np.repeat(np.arange(num_views), count)
        # A sentence in two templates is two texts: what says that it means nothing is no copy of the sentence.
        ids = np.tile(numbers * num_views, num_views) + views
        places = torch.arange(count * num_views).split(count)
        return Batch(
            task=examples.name,
            kind=Kind.TRIPLET if "negative" in self._views else Kind.POSITIVE_PAIR,
            tokens=self._encoder.collate(table, views),
            sentence_ids=torch.from_numpy(ids),
            columns=dict(zip(self._views, places, strict=True)),
            targets=None,
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
        )
