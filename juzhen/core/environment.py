"""What a result was computed with: commit, versions, machine."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from juzhen.core.processor import lacks_bf16, processor_name

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
ROOT = Path(__file__).resolve().parents[1]


def describe_environment() -> dict[str, Any]:
    """Commit, versions and machine as plain values; no host name, user name or path."""
    return {
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": processor_name(),
        "lacks_bf16": lacks_bf16(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """Output of a git command in the project's folder; None outside a checkout."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
