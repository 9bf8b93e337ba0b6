"""Training rows that hold an evaluation row, and a set without them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.data.leaks.pairs import PairIndex, pair_columns
from juzhen.data.leaks.text import SentenceSearch


class LeakFilter:
    """What may not be trained on when `evaluation` is to be scored.

    A training row of pairs leaks when one of its pairs is in an evaluation row, in either order, exactly or nearly
    (see `pairs`); a text when it holds a sentence of an evaluation row (see `text`).
    """

    def __init__(self, evaluation: Sequence[Examples]) -> None:
        self.evaluation = evaluation

    @cached_property
    def _pairs(self) -> PairIndex:
        return PairIndex(self.evaluation)

    @cached_property
    def _sentences(self) -> SentenceSearch:
        return SentenceSearch(sentence for one in self.evaluation for sentence in used_sentences(one))

    def leaky_rows_of(self, train: Examples) -> np.ndarray:
        """Positions of the training rows to leave out, int64, sorted. The same rows lead to the same positions."""
        if not self.evaluation or not len(train):
            return np.empty(0, dtype=np.int64)
        if pair_columns(train):
            return np.unique(np.concatenate([hits.train_rows for hits in self._pairs.search(train)]))
        return np.unique(self._sentences.search(train.texts("text"))[0])

    def without_leaks(self, train: Examples) -> Examples:
        """The set without its leaky rows, which are counted in `num_leaky`. Raises UserError when none is left."""
        leaky = self.leaky_rows_of(train)
        if len(train) and len(leaky) == len(train):
            raise UserError(
                f"{train.name}: all {len(train)} training rows are also in sets that this job evaluates "
                f"on, and filter_leaks=true leaves them out; evaluate on other sets, or choose filter_leaks=false"
            )
        kept = train.select(np.setdiff1d(np.arange(len(train)), leaky)) if len(leaky) else train
        return replace(kept, num_leaky=len(leaky))


def used_sentences(examples: Examples) -> list[str]:
    """The sentences that rows use; a cut set keeps the table of the whole."""
    places = np.unique(np.concatenate(list(examples.columns.values())))
    return [examples.sentences[place] for place in places]
