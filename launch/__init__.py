"""From a command line to a checked job and its folder. Nothing here loads torch, and Hydra only what asks for it."""

from typing import TYPE_CHECKING

from juzhen.core.lazy import lazily

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

__getattr__ = lazily(__name__, HOMES)
