"""What a bi-encoder must encode so that several sets can be scored."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from datamodules.union import SentenceUnion
from encoders.pair_score import BilinearScore, sides
from lightning_modules.scoring import NOTHING
from schema.examples import Examples


class CosinePlan:
    """Encodes every distinct sentence of several sets once; a row's score is the cosine of its two embeddings.

    head       what makes the score instead, with the weights that it has when it is asked; None: the cosine
    sentences  all distinct sentences
    pending    numbers of those whose embeddings are not known yet; only they are in `examples`
    """

    def __init__(self, sets: Sequence[Examples], head: BilinearScore | None = None) -> None:
        self.sets = list(sets)
        self._head = head
        self._union = SentenceUnion(sets)
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
        if self._known is not None:
            embeddings = self._known.copy()
            embeddings[self.pending] = outputs[: len(self.pending)]
            outputs = embeddings
        left, right = sides(outputs, self._head)
        scored = []
        for position in range(len(self.sets)):
            first, second, *_ = self._union.rows(position).values()
            scored.append(np.einsum("rd,rd->r", left[first], right[second]))
        return scored
