"""Many evaluation sets as one table of distinct sentences, so that each sentence is encoded once."""

from collections.abc import Sequence

import numpy as np

from juzhen.core.examples import Examples, Kind
from juzhen.data.comparisons import Comparisons


class SentenceUnion:
    """The union of the sentences of several sets.

    examples  the distinct sentences as Examples of kind `sentence`, one row each
    """

    def __init__(self, sets: Sequence[Examples]) -> None:
        table: dict[str, int] = {}
        self._numbers = [
            np.fromiter(
                (table.setdefault(sentence, len(table)) for sentence in one.sentences),
                dtype=np.int64,
                count=len(one.sentences),
            )
            for one in sets
        ]
        self.sets = list(sets)
        self.examples = Examples(
            "union",
            "evaluation",
            Kind.SENTENCE,
            list(table),
            {"text": np.arange(len(table), dtype=np.int32)},
            None,
        )

    def rows(self, position: int) -> dict[str, np.ndarray]:
        """Text columns of the set at `position` as row numbers of the union."""
        return {
            column: self._numbers[position][values] for column, values in self.sets[position].columns.items()
        }

    def comparisons(self, position: int) -> Comparisons:
        """What is compared in the set at `position`, by numbers of the union."""
        return Comparisons.of(self.sets[position]).renumbered(self._numbers[position])
