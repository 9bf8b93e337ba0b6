"""From a command line to a checked job and its folder. Nothing here loads torch."""

from launch.cli import run_cli
from launch.job import check_config, typed_config
from launch.preflight import check_command_line

__all__ = ["check_command_line", "check_config", "run_cli", "typed_config"]
