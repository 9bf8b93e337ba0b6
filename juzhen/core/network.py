"""Whether a server can be reached, found out in two seconds: clients of others try again for half a minute."""

import os
import socket
import threading
from functools import cache
from urllib.parse import urlparse

PROBE_SECONDS = 2.0


def answers(url: str, *, seconds: float = PROBE_SECONDS) -> bool:
    """True when the server, or the proxy on the way to it, takes a connection in time.

    The time holds for the look-up of the name, too, which no system call limits.
    """
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    target = urlparse(proxy or url)
    found: list[bool] = []

    def ask() -> None:
        try:
            port = target.port or (443 if target.scheme == "https" else 80)
            with socket.create_connection((target.hostname, port), timeout=seconds):
                found.append(True)
        except (OSError, ValueError):
            found.append(False)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return found == [True]


def hub_problem() -> str | None:
    """Why the Hugging Face hub is not to be had; None when it is."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE is set"
    if not _hub_answers(os.environ.get("HF_ENDPOINT", "https://huggingface.co")):
        return f"the hub does not answer within {PROBE_SECONDS:.0f} s"
    return None


@cache
def _hub_answers(endpoint: str) -> bool:
    return answers(endpoint)
