"""A stage: one fit, followed by one test."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """One fit on one or several datasets, followed by one test. `launch.stages` plans them.

    index     0-based position in the curriculum
    name      of the stage, for folders and logs
    datasets  keys of the datasets that are mixed in this stage; empty: nothing is trained
    history   what was trained on up to and including this stage, oldest first: keys of datasets, or "a+b" for a
              mixture that is one stage of several
    """

    index: int
    name: str
    datasets: tuple[str, ...]
    history: tuple[str, ...]


def only_stage(datasets: Sequence[str]) -> Stage:
    """The one stage of a mixture of `datasets`; nothing is trained without any."""
    return Stage(0, "+".join(datasets) or "untrained", tuple(datasets), tuple(datasets))
