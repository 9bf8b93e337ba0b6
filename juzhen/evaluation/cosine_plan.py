"""What a bi-encoder must encode so that several sets can be scored."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.examples import Side, sides_of
from juzhen.data.comparisons import SentenceUnion
from juzhen.data.transfer import TransferTask
from juzhen.encoders.pair_score import BilinearScore, sides
from juzhen.evaluation.plan import NOTHING, EvaluationPlan, Matcher, Sets
from juzhen.metrics.ranking import COSINE_TEMPERATURE
from juzhen.metrics.transfer import Features, combined

ALIKE = np.zeros(len(Side), dtype=np.int8)
"""Sides of an encoder that reads queries and documents as every sentence."""


class CosinePlan(EvaluationPlan):
    """Encodes every distinct sentence of several sets once; a score is the cosine of two embeddings.

    head       what makes the score instead, with the weights that it has when it is asked; None: the cosine
    sides      those of the encoder (`PooledEncoder.sides`): where queries and documents of a ranking have prompts of
               their own, a sentence is encoded once for each prompt that it is read behind
    sentences  all distinct sentences, in the order of `read`
    read       Side by which each of them is read
    pending    numbers of those whose embeddings are not known yet; only they are in `examples`
    """

    temperature = COSINE_TEMPERATURE

    def __init__(
        self,
        sets: Sets,
        tasks: Sequence[TransferTask] = (),
        *,
        head: BilinearScore | None = None,
        sides: Int[np.ndarray, "sides"] = ALIKE,
    ) -> None:
        super().__init__(sets, tasks)
        self._head = head
        of_tasks = [one for task in tasks for one in task.splits.values()]
        self._union = SentenceUnion([*self.sets, *of_tasks, *(one.texts for one in self.rankings)])
        self.examples = self._union.examples
        self._asking = [sides[list(sides_of(one.symmetric))].tolist() for one in self.rankings]
        self._places = np.arange(len(self.examples))[None]
        self.read = np.zeros(len(self.examples), dtype=np.int8)
        if any(map(any, self._asking)):
            self._read_apart(len(of_tasks))
        self.sentences = self.examples.sentences
        self.pending = np.arange(len(self.sentences))
        self._known: np.ndarray | None = None

    def _read_apart(self, num_of_tasks: int) -> None:
        """Makes a row of `examples` for each sentence and each Side by which it is read, and says where each is."""
        first = len(self.sets) + num_of_tasks
        used = np.zeros((len(Side), len(self.examples)), dtype=bool)
        for place in range(first):
            used[Side.EVERY, np.concatenate(list(self._union.rows(place).values()))] = True
        for place, (one, (query, document)) in enumerate(
            zip(self.rankings, self._asking, strict=True), first
        ):
            texts = self._union.rows(place)["text"]
            used[query, texts[: len(one.queries)]] = used[document, texts[len(one.queries) :]] = True
        read, numbers = np.nonzero(used)
        self._places = np.where(used, used.ravel().cumsum().reshape(used.shape) - 1, -1)
        self.read = read.astype(np.int8)
        self.examples = replace(
            self.examples,
            sentences=[self.examples.sentences[number] for number in numbers.tolist()],
            columns={"text": np.arange(len(numbers), dtype=np.int32)},
            sides=self.read,
        )

    def recall(self, pending: np.ndarray, embeddings: Float[np.ndarray, "sentences dim"]) -> None:
        """Takes the embeddings of all sentences but the `pending` ones as known; those need not be encoded."""
        self.pending = pending
        self._known = embeddings
        # A table of its own, so that sentences that are known are not even tokenised.
        sentences = [self.sentences[number] for number in pending]
        columns = {"text": np.arange(len(sentences), dtype=np.int32)}
        sides = self.read[pending] if self.read.any() else None
        pending_rows = replace(self._union.examples, sentences=sentences, columns=columns, sides=sides)
        self.examples = pending_rows if sentences else NOTHING

    def scores(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[np.ndarray]:
        left, right = sides(self._all(outputs), self._head)

        def products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return np.einsum("rd,rd->r", left[first], right[second])

        return [
            self._union.comparisons(position).renumbered(self._places[Side.EVERY]).scored(products)
            for position in range(len(self.sets))
        ]

    def matchers(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[Matcher]:
        left, right = sides(self._all(outputs), self._head)
        places = range(len(self._union.sets) - len(self.rankings), len(self._union.sets))
        numbers = [self._union.rows(place)["text"] for place in places]
        return [
            _matcher(
                left[self._places[query][texts[: len(one.queries)]]],
                right[self._places[document][texts[len(one.queries) :]]],
            )
            for one, texts, (query, document) in zip(self.rankings, numbers, self._asking, strict=True)
        ]

    def features(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[dict[str, Features]]:
        outputs, place = self._all(outputs), len(self.sets)
        found: list[dict[str, Features]] = []
        for task in self.tasks:
            found.append({})
            for split in task.splits:
                texts = [outputs[self._places[Side.EVERY][rows]] for rows in self._union.rows(place).values()]
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
