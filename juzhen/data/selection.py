"""What chooses the weights that a stage keeps: the mean of a metric over some dev sets, or nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, Examples
from juzhen.core.measures import (MEASURES, first_measure)
from juzhen.core.examples import (RANKED)

OF_ANY_TEXT = "mlm_accuracy"
"""A metric that has no need of gold values or partners."""


@dataclass(frozen=True)
class Selection:
    """The dev sets whose mean `metric`, higher = better, chooses the weights; without sets the last ones are kept."""

    metric: str
    sets: list[Examples]

    @property
    def key(self) -> str:
        """What is logged under this key chooses a checkpoint."""
        return f"dev/selection/{self.metric}"

    @property
    def in_words(self) -> str:
        """What decides, as a person is told."""
        if not self.sets:
            return "the last step"
        mean = "mean " if len(self.sets) > 1 else ""
        return f"the best {mean}dev {self.metric} of {', '.join(one.name for one in self.sets)}"


def select(evaluation: Sequence[Examples], trained: Sequence[str], *, monitor: str, metric: str) -> Selection:
    """What chooses, by `training.monitor`.

    auto    the model's metric of the trained sets, else of all sets, that have it on dev. Where no set has it, what
            measures the trained sets, positive pairs, triplets or judgements, themselves: of several the first, and
            those that share it; else the same of all sets
    dev/<set>/<metric>  that one

    metric  the model's own

    Raises UserError where the set that is named has no dev split.
    """
    dev = [one for one in evaluation if one.split == "dev"]
    if monitor != "auto":
        _, name, metric = monitor.split("/")
        named = [one for one in dev if one.name == name]
        if not named:
            raise UserError(
                f"training.monitor={monitor}: no dev split of {name} is evaluated; there is "
                f"{', '.join(one.name for one in dev) or 'none'}. Type training.monitor=dev/<dataset>/spearman or auto."
            )
        return Selection(metric, named)
    own = [one for one in dev if metric == OF_ANY_TEXT or metric in MEASURES[one.kind]]
    if not own:
        # Classes are told apart at the end only: a classifier at every validation would cost more than the training.
        ranked = [one for one in dev if one.kind in (*RANKED, *JUDGED)]
        first = next((one for one in ranked if one.name in trained), next(iter(ranked), None))
        metric = metric if first is None else MEASURES[first.kind][0]
        own = [one for one in ranked if first_measure(one.kind) == metric]
    return Selection(metric, [one for one in own if one.name in trained] or own)
