"""Versions and machine for --version and --info. Nothing slow is loaded."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from juzhen.core.paths import DISTRIBUTION
from juzhen.core.text import counted

INFO = ("--info", "-i")
OF_HYDRA = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""Parts of a configuration that Hydra shows with --info."""

SHOWN = ("torch", "pytorch-lightning", "transformers", "hydra-core")


def tell_about(arguments: Sequence[str], *, conf_dir: Path) -> bool:
    """Print the answer to --version, or to --info as the only word.

    Args:
        arguments: The command line.
        conf_dir: Folder of the configuration.

    Returns:
        False if Hydra must answer.
    """
    if "--version" in arguments:
        print(version_line())
        return True
    if [*arguments] not in ([flag] for flag in INFO):
        return False
    print("\n".join(info_lines(conf_dir)))
    return True


def version_line() -> str:
    """Return a line such as `juzhen 0.1.0 (torch 2.9.1, Python 3.12.3)`."""
    import platform

    return f"juzhen {_version(DISTRIBUTION)} (torch {_version('torch')}, Python {platform.python_version()})"


def info_lines(conf_dir: Path) -> Iterator[str]:
    """Yield version, libraries, machine, and the default folders of a job."""
    from juzhen.core.machine import describe_environment, found_hardware

    facts = describe_environment()
    commit = facts["git_commit"]
    changed = ", with changes" if facts["git_dirty"] else ""
    yield f"juzhen {_version(DISTRIBUTION)}" + (f", commit {commit[:10]}{changed}" if commit else "")
    yield f"libraries      {', '.join(f'{name} {_version(name)}' for name in SHOWN)}"
    yield f"python         {facts['python']}"
    yield f"machine        {facts['platform']}, {counted(facts['cpu_cores'], 'cores')}, {facts['processor']}"
    option, why = found_hardware()
    yield f"device         auto takes {option}: {why}"
    yield f"configuration  {conf_dir}"
    yield f"data_dir       {_folder('JUZHEN_DATA', 'data')}"
    yield f"cache_dir      {_folder('JUZHEN_CACHE', '.cache')}"
    yield f"more           --info {', '.join(OF_HYDRA)}"


def _folder(variable: str, default: str) -> str:
    folder = os.environ.get(variable)
    return f"{default} ({variable} is not set)" if folder is None else f"{folder} (from {variable})"


def _version(package: str) -> str:
    from juzhen.core.machine import package_version

    return package_version(package) or "not installed"
