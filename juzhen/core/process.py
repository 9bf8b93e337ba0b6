"""Settings of this process for libraries: caches, network, and garbage collector.

A server that does not answer is detected in two or three seconds. The libraries themselves retry for half a
minute.

Loaded modules are 400,000 objects that stay. The collector would scan all of them seven to nine times during a start, a
tenth of its time. Later each scan would pause a server or a training step for 0.3 s (measured in docs/log/serving.md).
"""

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
"""Environment variable of a library → its folder below our cache. Downloads of the hub stay in HF_HOME."""


def default_cache() -> str:
    """Return the `cache_dir` of a command without such an option, as conf/train.yaml has it.

    Returns:
        Value of JUZHEN_CACHE, else `.cache`.
    """
    return os.environ.get("JUZHEN_CACHE", ".cache")


def caches_below(folder: str | Path | None) -> None:
    """Set the cache folders of libraries. Call it before they are imported. Variables that are set already stay.

    Args:
        folder: Folder of all caches. For None, or if it cannot be written to (a read-only container), a temporary
            folder that is removed when the program ends.
    """
    unset = {name: folder_name for name, folder_name in FOLDERS.items() if name not in os.environ}
    if not unset:
        return
    wanted = Path(folder or "").expanduser().absolute()
    there = next(place for place in (wanted, *wanted.parents) if place.exists())
    if folder is None or not os.access(there, os.W_OK | os.X_OK):
        scratch = tempfile.TemporaryDirectory(prefix="juzhen-", ignore_cleanup_errors=True)
        atexit.register(scratch.cleanup)
        folder = scratch.name
    for name, subfolder in unset.items():
        os.environ[name] = str(Path(folder).expanduser().resolve() / subfolder)


PROBE_SECONDS = 2.0
WANDB_SECONDS = 3.0


def without_hub() -> None:
    """Stop requests to the hub for an encoder that is a folder. transformers reads this when it is imported."""
    os.environ["HF_HUB_OFFLINE"] = "1"


def answers(url: str, *, seconds: float = PROBE_SECONDS) -> bool:
    """True if the server, or the proxy in front of it, accepts a connection in time.

    The time limit includes the name look-up, which no system call limits.

    Args:
        url: Address with its scheme. Without a port, 443 for https and 80 for others.
        seconds: Time limit.

    Returns:
        False for a refused connection, an unknown name and a wrong address.
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
    """Return the reason why the Hugging Face hub cannot be reached, or None.

    Returns:
        Reason as part of a sentence, or None.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE is set"
    return _hub_problem(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))


@cache
def _hub_problem(endpoint: str) -> str | None:
    return None if answers(endpoint) else f"the hub does not answer within {PROBE_SECONDS:.0f} s"


def wandb_problem() -> str | None:
    """Return the reason why Weights & Biases cannot be used, with the remedy, or None.

    Returns:
        Reason as part of a sentence, or None. Without a key nothing is sent.
    """
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
    """Collect garbage rarely. For a program that starts by loading modules."""
    gc.set_threshold(*RARELY)


def freeze_modules() -> None:
    """Exempt loaded modules from garbage collection. Models load later, because those of a stage must be freed."""
    gc.freeze()
    gc.set_threshold(*USUAL)


def freeze_objects() -> None:
    """Exempt all loaded objects of a server, its models too, after a garbage collection."""
    gc.unfreeze()
    gc.collect()
    freeze_modules()
