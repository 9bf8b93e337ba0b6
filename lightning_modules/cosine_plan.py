"""What a bi-encoder must encode so that several sets can be scored."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from juzhen.core.examples import TEXT_COLUMNS, Examples
from juzhen.data.transfer import TransferTask
from juzhen.data.union import SentenceUnion
from juzhen.encoders.pair_score import BilinearScore, sides
from juzhen.metrics.ranking import COSINE_TEMPERATURE
from juzhen.metrics.transfer import Features, combined
from lightning_modules.scoring import NOTHING


class CosinePlan:
    """Encodes every distinct sentence of several sets once; a score is the cosine of two embeddings.

    sets       those in which texts are compared; of single texts with a class a task knows
    head       what makes the score instead, with the weights that it has when it is asked; None: the cosine
    sentences  all distinct sentences
    pending    numbers of those whose embeddings are not known yet; only they are in `examples`
    """

    temperature = COSINE_TEMPERATURE

    def __init__(
        self,
        sets: Sequence[Examples],
        tasks: Sequence[TransferTask] = (),
        *,
        head: BilinearScore | None = None,
    ) -> None:
        self.sets = [one for one in sets if len(TEXT_COLUMNS[one.kind]) > 1]
        self.tasks = list(tasks)
        self._head = head
        self._union = SentenceUnion([*self.sets, *(one for task in tasks for one in task.splits.values())])
        self.examples = self._union.examples
        self.sentences = self.examples.sentences
        self.pending = np.arange(len(self.sentences))
        self._known: np.ndarray | None = None

    def recall(self, pending: np.ndarray, embeddings: Float[np.ndarray, "sentences dim"]) -> None:
        """Takes the embeddings of all sentences but the `pending` ones as known; those need not be encoded."""
        self.pending = pending
        self._known = embeddings
        # A table of its own, so that sentences that are known are not even tokenised.
        sentences = [self.sentences[number] for number in pending]
        self.examples = replace(
            self._union.examples,
            sentences=sentences,
            columns={"text": np.arange(len(sentences), dtype=np.int32)},
        )
        if not sentences:
            self.examples = NOTHING

    def scores(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[np.ndarray]:
        left, right = sides(self._all(outputs), self._head)

        def products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return np.einsum("rd,rd->r", left[first], right[second])

        return [self._union.comparisons(position).scored(products) for position in range(len(self.sets))]

    def features(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[dict[str, Features]]:
        outputs, place = self._all(outputs), len(self.sets)
        found = []
        for task in self.tasks:
            of_splits = {}
            for split in task.splits:
                texts = [outputs[rows] for rows in self._union.rows(place).values()]
                of_splits[split] = combined(texts, task.kind)
                place += 1
            found.append(of_splits)
        return found

    def _all(self, outputs: Float[np.ndarray, "pending dim"]) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings of all sentences: those that were known, too."""
        if self._known is None:
            return outputs
        embeddings = self._known.copy()
        embeddings[self.pending] = outputs[: len(self.pending)]
        return embeddings
