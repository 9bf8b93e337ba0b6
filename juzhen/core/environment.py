"""What a result was computed with: commit, versions, machine."""

import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from juzhen.core.places import IS_CLONE, ROOT
from juzhen.core.processor import lacks_bf16, num_cores, processor_name

PACKAGES = (
    "torch",
    "pytorch-lightning",
    "transformers",
    "tokenizers",
    "datasets",
    "torchmetrics",
    "hydra-core",
    "numpy",
    "scipy",
    "scikit-learn",
    "wandb",
)


def describe_environment() -> dict[str, Any]:
    """Commit, versions and machine as plain values; no host name, user name or path."""
    return {
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu_cores": num_cores(),
        "processor": processor_name(),
        "lacks_bf16": lacks_bf16(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


@cache  # 2 to 8 ms each: all that is installed is looked through
def package_version(package: str) -> str | None:
    """Of what is installed; None where it is not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache  # what runs is what lay there when the program began
def _git(*arguments: str) -> str | None:
    """Output of a git command in the project's folder; None outside a checkout."""
    if not IS_CLONE:
        return None  # a package lies in a folder that may be part of somebody else's repository
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
