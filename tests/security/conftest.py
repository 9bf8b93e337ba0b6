"""One composed job for many questions: composing takes half a second."""

from collections.abc import Callable
from copy import deepcopy

import pytest
from jobs import compose_job
from omegaconf import DictConfig, OmegaConf, open_dict


@pytest.fixture(scope="session")
def _composed() -> DictConfig:
    return compose_job("dataset=[demo_sts]")


@pytest.fixture
def job_with(_composed) -> Callable[..., DictConfig]:
    """Gives the job with other values: `a__b` for the key a.b."""

    def change(**settings: object) -> DictConfig:
        job = deepcopy(_composed)
        with open_dict(job):
            for key, value in settings.items():
                OmegaConf.update(job, key.replace("__", "."), value)
        return job

    return change
