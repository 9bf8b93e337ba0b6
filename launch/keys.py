"""The library names its parameters (`max_length=4: …`); here the suite puts the key that sets each of them."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from omegaconf import DictConfig, OmegaConf

from juzhen.core.errors import UserError

PARAMETER = re.compile(r"(?<![\w.\"'{-])[a-z][a-z_]*(?==)")
NOT_OF_THE_JOB = ("hydra", "dataset", "evaluate")
"""Groups whose keys are those of sets, or of Hydra: a parameter's name says nothing about which."""


@contextmanager
def naming_keys(job: DictConfig) -> Iterator[None]:
    """Around what a job asks of the library: a mistake that is raised inside speaks of the job's keys."""
    try:
        yield
    except UserError as error:
        plain: Any = OmegaConf.to_container(job, resolve=False)
        error.args = (
            with_keys(str(error), {key: value for key, value in plain.items() if key not in NOT_OF_THE_JOB}),
        )
        raise


def with_keys(message: str, job: Mapping[str, Any]) -> str:
    """The message with the dotted key for each parameter that stands in one group of the job and not above them.

    >>> with_keys("max_length=4: choose max_length=128", {"seed": 0, "backbone": {"max_length": 4}})
    'backbone.max_length=4: choose backbone.max_length=128'
    """
    groups = defaultdict(list)
    for group, values in job.items():
        for name in values if isinstance(values, Mapping) else ():
            groups[name].append(f"{group}.{name}")

    def key(match: re.Match[str]) -> str:
        name = match[0]
        return groups[name][0] if name not in job and len(groups[name]) == 1 else name

    return PARAMETER.sub(key, message)
