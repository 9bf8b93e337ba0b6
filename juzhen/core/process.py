"""Settings of this process for libraries: their caches, the network, and the garbage collector."""

import atexit
import gc
import os
import socket
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlparse

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


PROBE_SECONDS = 2.0
WANDB_SECONDS = 3.0


def without_hub() -> None:
    """Where an encoder is a folder, the hub is never asked. transformers reads this when it is imported."""
    os.environ["HF_HUB_OFFLINE"] = "1"


def answers(url: str, *, seconds: float = PROBE_SECONDS) -> bool:
    """True when the server, or the proxy on the way to it, takes a connection in time.

    The time holds for the look-up of the name, too, which no system call limits.
    """
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    target = urlparse(proxy or url)

    answered: list[bool] = []

    def connect() -> None:
        with suppress(OSError, ValueError, OverflowError):
            port = target.port or (443 if target.scheme == "https" else 80)
            socket.create_connection((target.hostname, port), timeout=seconds).close()
            answered.append(True)

    asking = threading.Thread(target=connect, daemon=True)
    asking.start()
    asking.join(seconds)
    return bool(answered)


def hub_problem() -> str | None:
    """Why the Hugging Face hub is not to be had; None when it is."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE is set"
    return _hub_problem(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))


@cache
def _hub_problem(endpoint: str) -> str | None:
    return None if answers(endpoint) else f"the hub does not answer within {PROBE_SECONDS:.0f} s"


def wandb_problem() -> str | None:
    """Why Weights & Biases is not to be had, and what to do about it; None when it is."""
    url = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    if not (os.environ.get("WANDB_API_KEY") or _in_netrc(urlparse(url).hostname or "")):
        return "no key (set WANDB_API_KEY, which https://wandb.ai/authorize shows, or run `wandb login`)"
    if not answers(url, seconds=WANDB_SECONDS):
        return f"no answer from the server within {WANDB_SECONDS:.0f} s"
    return None


def _in_netrc(host: str) -> bool:
    path = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    try:
        return bool(host) and host.encode() in path.read_bytes()
    except OSError:
        return False


USUAL = gc.get_threshold()
RARELY = (50_000, 20, 20)


def collect_rarely() -> None:
    """For a program that loads modules first."""
    gc.set_threshold(*RARELY)


def freeze_modules() -> None:
    """Once modules are loaded, which no look touches from then on. Models are loaded later: a stage's must go."""
    gc.freeze()
    gc.set_threshold(*USUAL)


def freeze_objects() -> None:
    """The same with what a server has loaded, its models too; what it no longer needs goes."""
    gc.unfreeze()
    gc.collect()
    freeze_modules()
