"""What --version and --info say: which juzhen, torch and machine this is. Nothing is loaded that takes time."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.places import DISTRIBUTION

INFO = ("--info", "-i")
SHOWN = ("torch", "pytorch-lightning", "transformers", "hydra-core")


def tell_about(arguments: Sequence[str], *, conf_dir: Path) -> bool:
    """Prints what --version, or --info as the only word, asks for; false where something else is asked.

    Raises UserError for --info among other words. What Hydra knows of a configuration is asked with a word of its own
    behind it, such as `--info defaults-tree`.
    """
    if "--version" in arguments:
        print(version_line())
        return True
    if not arguments or arguments[-1] not in INFO:
        return False
    if len(arguments) > 1:
        raise UserError(
            f"{arguments[-1]} stands alone and tells of juzhen and this machine; "
            f"a configuration is shown by --cfg job, and where its parts come from by --info defaults-tree"
        )
    print("\n".join(info_lines(conf_dir)))
    return True


def version_line() -> str:
    """`juzhen 0.1.0 (torch 2.9.1, Python 3.12.3)`"""
    import platform

    return f"juzhen {_version(DISTRIBUTION)} (torch {_version('torch')}, Python {platform.python_version()})"


def info_lines(conf_dir: Path) -> Iterator[str]:
    """Version, libraries, machine, and the folders that a job reads and writes where nothing else is said."""
    from juzhen.core.accelerator import found_hardware
    from juzhen.core.environment import describe_environment

    facts = describe_environment()
    commit = facts["git_commit"]
    changed = ", with changes" if facts["git_dirty"] else ""
    yield f"juzhen {_version(DISTRIBUTION)}" + (f", commit {commit[:10]}{changed}" if commit else "")
    yield f"libraries      {', '.join(f'{name} {_version(name)}' for name in SHOWN)}"
    yield f"python         {facts['python']}"
    yield f"machine        {facts['platform']}, {facts['cpu_cores']} cores, {facts['processor']}"
    option, why = found_hardware()
    yield f"device         auto takes {option}: {why}"
    yield f"configuration  {conf_dir}"
    yield f"data_dir       {_folder('JUZHEN_DATA', 'data')}"
    yield f"cache_dir      {_folder('JUZHEN_CACHE', '.cache')}"


def _folder(variable: str, default: str) -> str:
    folder = os.environ.get(variable)
    return f"{default} ({variable} is not set)" if folder is None else f"{folder} (from {variable})"


def _version(package: str) -> str:
    from juzhen.core.environment import package_version

    return package_version(package) or "not installed"
