"""Stages: how a list of datasets is read, as one mixture or as a curriculum."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """One fit on one or several datasets, followed by one test.

    index     0-based position in the curriculum
    datasets  keys of the datasets that are mixed in this stage; empty: nothing is trained
    history   keys of all datasets trained on up to and including this stage, oldest first
    """

    index: int
    datasets: tuple[str, ...]
    history: tuple[str, ...]

    @property
    def name(self) -> str:
        return "+".join(self.datasets) or "untrained"


def plan_stages(datasets: Sequence[str], schedule: str) -> list[Stage]:
    """The stages of a job, in order; always at least one.

    mix     all sets in one stage
    serial  one stage per set

    >>> [stage.name for stage in plan_stages(["nli", "sts"], "serial")]
    ['nli', 'sts']
    >>> [stage.name for stage in plan_stages(["nli", "sts"], "mix")]
    ['nli+sts']
    """
    if schedule == "serial" and datasets:
        return [Stage(i, (name,), tuple(datasets[: i + 1])) for i, name in enumerate(datasets)]
    return [Stage(0, tuple(datasets), tuple(datasets))]
