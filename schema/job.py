"""The composed configuration as typed objects."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

from schema.config import JobConfig


def read_job(config: DictConfig) -> tuple[JobConfig, dict[str, Any]]:
    """The job as dataclasses, and the same in plain containers for loggers and results.

    Interpolations are resolved first: the run key must be computed from the configuration as it was composed.
    """
    settings = OmegaConf.to_container(config, resolve=True)
    job = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(JobConfig), OmegaConf.create(settings)))
    return job, settings
