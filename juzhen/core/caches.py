"""Where libraries keep what they can make again: below our own cache, and not in the home of whoever runs a job."""

import atexit
import os
import tempfile
from pathlib import Path

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


def caches_below(folder: str | Path | None) -> None:
    """Tells libraries where to keep their caches; call it before they are imported. What is set already stays.

    None, or where nothing can be written (a container whose files are read-only): a folder that is gone when the
    program ends.
    """
    unset = {name: folder_name for name, folder_name in FOLDERS.items() if name not in os.environ}
    if not unset:
        return
    if folder is None or not _can_be_made(Path(folder).expanduser().absolute()):
        scratch = tempfile.TemporaryDirectory(prefix="juzhen-", ignore_cleanup_errors=True)
        atexit.register(scratch.cleanup)
        folder = scratch.name
    for name, subfolder in unset.items():
        os.environ[name] = str(Path(folder).expanduser().resolve() / subfolder)


def _can_be_made(folder: Path) -> bool:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return os.access(there, os.W_OK | os.X_OK)
