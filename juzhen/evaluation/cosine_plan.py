"""What a bi-encoder must encode so that several sets can be scored."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from juzhen.data.comparisons import SentenceUnion
from juzhen.data.transfer import TransferTask
from juzhen.encoders.pooling import BilinearScore, sides
from juzhen.evaluation.plan import NOTHING, EvaluationPlan, Matcher, Sets
from juzhen.metrics.ranking import COSINE_TEMPERATURE
from juzhen.metrics.transfer import Features, combined


class CosinePlan(EvaluationPlan):
    """Encodes every distinct sentence of several sets once; a score is the cosine of two embeddings.

    head       what makes the score instead, with the weights that it has when it is asked; None: the cosine
    sentences  all distinct sentences
    pending    numbers of those whose embeddings are not known yet; only they are in `examples`
    """

    temperature = COSINE_TEMPERATURE

    def __init__(
        self, sets: Sets, tasks: Sequence[TransferTask] = (), *, head: BilinearScore | None = None
    ) -> None:
        super().__init__(sets, tasks)
        self._head = head
        of_tasks = [one for task in tasks for one in task.splits.values()]
        self._union = SentenceUnion([*self.sets, *of_tasks, *(one.texts for one in self.rankings)])
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
        columns = {"text": np.arange(len(sentences), dtype=np.int32)}
        pending_rows = replace(self._union.examples, sentences=sentences, columns=columns)
        self.examples = pending_rows if sentences else NOTHING

    def scores(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[np.ndarray]:
        left, right = sides(self._all(outputs), self._head)

        def products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return np.einsum("rd,rd->r", left[first], right[second])

        return [self._union.comparisons(position).scored(products) for position in range(len(self.sets))]

    def matchers(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[Matcher]:
        left, right = sides(self._all(outputs), self._head)
        places = range(len(self._union.sets) - len(self.rankings), len(self._union.sets))
        numbers = [self._union.rows(place)["text"] for place in places]
        return [
            _matcher(left[texts[: len(one.queries)]], right[texts[len(one.queries) :]])
            for one, texts in zip(self.rankings, numbers, strict=True)
        ]

    def features(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[dict[str, Features]]:
        outputs, place = self._all(outputs), len(self.sets)
        found: list[dict[str, Features]] = []
        for task in self.tasks:
            found.append({})
            for split in task.splits:
                texts = [outputs[rows] for rows in self._union.rows(place).values()]
                found[-1][split] = combined(texts, task.kind)
                place += 1
        return found

    def _all(self, outputs: Float[np.ndarray, "pending dim"]) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings of all sentences: those that were known, too."""
        if self._known is None:
            return outputs
        embeddings = self._known.copy()
        embeddings[self.pending] = outputs[: len(self.pending)]
        return embeddings


def _matcher(
    queries: Float[np.ndarray, "queries dim"], documents: Float[np.ndarray, "documents dim"]
) -> Matcher:
    return lambda some, others: queries[some] @ (documents if others is None else documents[others]).T
