"""What hardware=auto means on this machine, in one line, and where it cannot mean anything. Needs no torch."""

from collections.abc import Mapping

from juzhen.core.accelerator import found_hardware
from launch.explain import ConfigError

ELSEWHERE = ("ray", "slurm")
"""Launchers whose runs are on other machines than the sweep."""


def hardware_note(choices: Mapping[str, str]) -> str | None:
    """What hardware=auto is here; None where it is not among the choices of a composition.

    Raises ConfigError where the runs will be on machines that cannot be looked at.
    """
    if choices.get("hardware") != "auto":
        return None
    launcher = choices.get("hydra/launcher")
    if launcher in ELSEWHERE:
        raise ConfigError(
            f"hardware=auto looks at this machine, and hydra/launcher={launcher} runs on others; name what they have, "
            "as in hardware=cuda",
            "hardware",
        )
    name, reason = found_hardware()
    return f"hardware=auto is hardware={name} here: {reason}"
