"""Memory of this process, in MiB."""

import resource
import sys
from contextlib import suppress
from pathlib import Path


def resident_mib() -> float:
    """What it has now; the peak where the system does not tell (macOS)."""
    return _status("VmRSS") or peak_mib()


def peak_mib() -> float:
    """The most it has had, from `forget_peak` on.

    On Linux from VmHWM: ru_maxrss also counts what the parent had when it started this process.
    """
    per_mib = 2**20 if sys.platform == "darwin" else 2**10
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib


def forget_peak() -> None:
    """Lets `peak_mib` start again from what is resident now, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(key: str) -> float | None:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) / 2**10
    return None
