"""From a command line to a checked job and its folder. Nothing here loads torch, and Hydra only what asks for it."""

from juzhen.core.lazy import lazily

__getattr__ = lazily(__name__, {"check_command_line": "check", "read_job": "job"})
