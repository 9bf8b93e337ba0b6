"""Environment variables that a configuration may read.

Configurations are stored in results, logs and at W&B, and may come from anybody. So `${oc.env:…}` reads only
a short list of variables.
"""

import os

from omegaconf import OmegaConf

READABLE = ("JUZHEN_DATA", "JUZHEN_CACHE", "HOME", "TMPDIR", "SCRATCH")


def register_environment() -> None:
    """Makes `${oc.env:…}` give the variables of READABLE and refuse all others. May be called again."""

    def read(name: str, *default: str | None) -> str | None:
        if name not in READABLE:
            raise ValueError(
                f"a configuration may not read the environment variable {name}, since it is stored with each result. "
                f"It may read {', '.join(READABLE)}"
            )
        if name not in os.environ and not default:
            raise ValueError(f"the environment variable {name} is not set")
        return os.environ.get(name, *default)

    OmegaConf.register_new_resolver("oc.env", read, replace=True)
