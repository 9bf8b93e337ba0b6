"""From a command line to a checked job and its folder. Nothing here loads torch, and Hydra only what asks for it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launch.cli import run_cli
    from launch.job import check_config, typed_config
    from launch.preflight import check_command_line

__all__ = ["check_command_line", "check_config", "run_cli", "typed_config"]

HOMES = {
    "check_command_line": "preflight",
    "check_config": "job",
    "run_cli": "cli",
    "typed_config": "job",
}
"""Name → the module of this package that defines it."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
