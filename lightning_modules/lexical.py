"""The lexical baseline as a model: nothing is learnt, and the whole evaluation is the same as for the others."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from conf.job import JobConfig
from juzhen.core.batch import Batch, Encoded
from juzhen.core.examples import TEXT_COLUMNS, Examples
from juzhen.data.comparisons import Comparisons
from juzhen.data.transfer import TransferTask
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.packing import pack
from juzhen.metrics.lexical import lexical_vectors, similarities
from juzhen.metrics.ranking import COSINE_TEMPERATURE
from juzhen.metrics.transfer import Features, combined
from lightning_modules.base import SentenceModule
from lightning_modules.scoring import NOTHING


class LexicalPlan:
    """Nothing passes through a network: scores come from the texts alone."""

    temperature = COSINE_TEMPERATURE

    def __init__(self, sets: Sequence[Examples], tasks: Sequence[TransferTask] = ()) -> None:
        self.sets = [one for one in sets if len(TEXT_COLUMNS[one.kind]) > 1]
        self.tasks = list(tasks)
        self.examples = NOTHING

    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        """Counted over the rows of each set, see `juzhen.metrics.lexical.lexical_scores`."""
        scored = []
        for one in self.sets:
            counted = [text for column in one.columns for text in one.texts(column)]
            vectors = lexical_vectors(one.sentences, counted=counted)
            scored.append(Comparisons.of(one).scored(partial(similarities, vectors)))
        return scored

    def features(self, outputs: np.ndarray) -> list[dict[str, Features]]:
        """Counted over the rows that a classifier learns from, or over all where it is judged in folds."""
        return [self._features(task) for task in self.tasks]

    @staticmethod
    def _features(task: TransferTask) -> dict[str, Features]:
        texts = {split: [one.texts(column) for column in one.columns] for split, one in task.splits.items()}
        of_train = {split: columns for split, columns in texts.items() if split == "train"}
        counted = [text for columns in (of_train or texts).values() for column in columns for text in column]
        return {
            split: combined([lexical_vectors(column, counted=counted) for column in columns], task.kind)
            for split, columns in texts.items()
        }


class Lexical(SentenceModule):
    """Cosine of TF-IDF vectors over character 1-2-grams, fitted on the sentences of each split."""

    trains = False

    def __init__(self, *, encoder: None, **shared: object) -> None:
        super().__init__(**shared)
        self.encoder = encoder
        self.collate = SentenceCollator(
            tokenize=lambda texts: [[0]] * len(texts),
            pack=pack,
        )

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> None:
        """No weights."""

    def encode(self, batch: Batch) -> Encoded:
        raise TypeError("the lexical baseline has nothing to encode")

    def output(self, batch: Batch) -> torch.Tensor:
        return torch.zeros(len(batch), device=self.device)

    def plan(self, sets: Sequence[Examples], tasks: Sequence[TransferTask] = ()) -> LexicalPlan:
        return LexicalPlan(sets, tasks)
