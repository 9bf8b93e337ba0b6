"""What a cross-encoder must see so that several sets can be scored."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from juzhen.core.examples import Examples, Kind
from juzhen.data.transfer import TransferTask
from juzhen.data.union import SentenceUnion
from lightning_modules.scoring import NOTHING


class JointPlan:
    """Scores every distinct pair of several sets once; (a, b) and (b, a) are two pairs.

    Of what the model gives for a pair, the first number is its score; others are its class logits.
    """

    temperature = 1.0

    def __init__(self, sets: Sequence[Examples]) -> None:
        self.sets = list(sets)
        self.tasks: list[TransferTask] = []
        union = SentenceUnion(sets)
        self._compared = [union.comparisons(place) for place in range(len(self.sets))]
        pairs = [np.stack([one.first, one.second], axis=1) for one in self._compared]
        distinct, rows = np.unique(np.concatenate(pairs), axis=0, return_inverse=True)
        self._rows = np.split(rows.ravel(), np.cumsum([len(one) for one in pairs])[:-1])
        first, second = distinct.astype(np.int32).T
        self.examples = replace(
            union.examples, kind=Kind.SCORED_PAIR, columns={"text_a": first, "text_b": second}
        )
        if not len(distinct):
            self.examples = NOTHING

    def scores(self, outputs: Float[np.ndarray, "pairs outputs"]) -> list[np.ndarray]:
        found = zip(self._compared, self._rows, strict=True)
        return [compared.shaped(outputs[rows, 0]) for compared, rows in found]

    def logits(self, outputs: Float[np.ndarray, "pairs outputs"]) -> list[Float[np.ndarray, "rows classes"]]:
        """Class logits per row of each set; without columns where the model has no classes."""
        return [outputs[rows, 1:] for rows in self._rows]
