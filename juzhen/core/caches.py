"""Where libraries keep what they can make again: below our own cache, and not in the home of whoever runs a job."""

import atexit
import os
import tempfile
from pathlib import Path

from juzhen.core.errors import UserError

FOLDERS = {
    "MPLCONFIGDIR": "matplotlib",
    "WANDB_CACHE_DIR": "wandb",
    "WANDB_DATA_DIR": "wandb",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
}
"""Variable that a library reads → its folder below the cache. What is fetched from the hub stays in HF_HOME."""


def default_cache() -> str:
    """`cache_dir` of a command that has no such option, as conf/train.yaml has it."""
    return os.environ.get("JUZHEN_CACHE", ".cache")


def require_cache(folder: str | Path | None) -> None:
    """Raises UserError where a file stands in the way of a cache."""
    path = Path(folder or ".").expanduser()
    existing = next((parent for parent in (path, *path.parents) if parent.exists()), path)
    if not existing.is_dir():
        raise UserError(
            f"cache_dir={folder}: {existing} is a file, not a folder; choose another folder, or null for none"
        )


def caches_below(folder: str | Path | None) -> None:
    """Tells libraries where to keep their caches; call it before they are imported. What is set already stays.

    None: a folder that is gone when the program ends

    Raises UserError where a file stands in the way.
    """
    require_cache(folder)
    unset = {name: folder_name for name, folder_name in FOLDERS.items() if name not in os.environ}
    if not unset:
        return
    if folder is None:
        scratch = tempfile.TemporaryDirectory(prefix="juzhen-", ignore_cleanup_errors=True)
        atexit.register(scratch.cleanup)
        folder = scratch.name
    for name, subfolder in unset.items():
        os.environ[name] = str(Path(folder).expanduser().resolve() / subfolder)
