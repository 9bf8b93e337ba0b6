"""Memory of this process, and what it may still take, in MiB."""

import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from juzhen.core.processor import control_groups


def resident_mib() -> float:
    """What it has now; the peak where the system does not tell (macOS)."""
    return _status("VmRSS") or peak_mib()


def peak_mib() -> float:
    """The most it has had, from `forget_peak` on.

    On Linux from VmHWM: ru_maxrss also counts what the parent had when it started this process.
    """
    per_mib = 2**20 if sys.platform == "darwin" else 2**10
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib


def free_mib() -> float | None:
    """What this process may take besides what it has: of the system, or of its control group where that allows less.

    None where the system does not tell (macOS).
    """
    limits = [*_free_of_groups(), *_free_of_system()]
    return min(limits) / 2**20 if limits else None


def _free_of_system() -> Iterator[float]:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield float(line.split()[1]) * 2**10


def _free_of_groups() -> Iterator[float]:
    """Files in the cache count as free."""
    for group, is_v2 in control_groups("memory"):
        names = (
            ("memory.max", "memory.current") if is_v2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        with suppress(OSError, ValueError):
            limit, used = ((group / name).read_text().strip() for name in names)
            if limit != "max" and int(limit) < 2**60:
                stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                cached = int(stat.get("inactive_file", stat.get("total_inactive_file", 0)))
                yield float(int(limit) - int(used) + cached)


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
