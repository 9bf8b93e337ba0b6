"""The job of a finished run, read back from its result. Needs no torch."""

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from conf.job import JobConfig
from launch.job import explained

WHOLE = ("model", "loss", "dataset", "evaluate", "backbone")
"""Groups that are taken as they are stored: two choices of one of them have different keys."""

PLACES = ("cache_dir", "output_dir", "run_dir", "trial")
"""Where something is written: of today, since a result may come from anybody."""


NO_CHOICES = ("earlier",)
"""What a stage's result tells of the stages before it; no job has such a key."""


def stored_job(config: Mapping[str, Any], defaults: DictConfig, *, own_hardware: bool) -> DictConfig:
    """The typed job of a stored configuration.

    defaults      a typed job of today: it has the keys that came to the schema after the run
    own_hardware  the hardware of the run, else that of `defaults`

    Raises UserError for a key or a type that the schema does not have any more.
    """
    today = {key: value for key, value in OmegaConf.to_container(defaults).items() if key not in WHOLE}
    left_out = (*PLACES, *NO_CHOICES, *(() if own_hardware else ("hardware",)))
    stored = {key: value for key, value in config.items() if key not in left_out}
    with explained():
        return OmegaConf.merge(OmegaConf.structured(JobConfig), today, stored)
