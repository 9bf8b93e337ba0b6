"""Where libraries keep what they can make again: below our own cache, and not in the home of whoever runs a job."""

import atexit
import os
import shutil
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

    None: a folder that is gone when the program ends
    """
    wanted = {name: own for name, own in FOLDERS.items() if name not in os.environ}
    if folder is None and wanted:
        folder = tempfile.mkdtemp(prefix="juzhen-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, own in wanted.items():
        os.environ[name] = str(Path(folder).expanduser().resolve() / own)
