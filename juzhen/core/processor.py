"""Which processor this is, how much of it may be used, and whether it can multiply in bfloat16 (Linux)."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")
BF16_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Instruction sets with products of bfloat16: of x86 the first two, of ARM the last."""


def num_cores() -> int:
    """Cores that this process may run on, or fewer where a CPU quota allows fewer; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def cpu_quota() -> float | None:
    """CPUs that control groups (version 1 or 2) allow, such as 1.5, as containers limit them; None: no limit."""
    return min(_quotas(), default=None)


def _quotas() -> Iterator[float]:
    """The limit of each group that this process is in, and of the groups around it."""
    for group, is_v2 in control_groups("cpu"):
        with suppress(OSError, ValueError):
            yield from _limit(group, is_v2=is_v2)


def control_groups(controller: str) -> Iterator[tuple[Path, bool]]:
    """Folders of each control group that this process is in, and of those around it; whether they are of version 2."""
    with suppress(OSError, ValueError):
        for line in CGROUP.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            is_v2 = not controllers
            if not is_v2 and controller not in controllers.split(","):
                continue
            roots = (CGROUPS, CGROUPS / "unified") if is_v2 else (CGROUPS / controllers, CGROUPS / controller)
            parts = [part for part in path.split("/") if part not in ("", "..")]
            for root in roots:
                for depth in range(
                    len(parts) + 1
                ):  # in a container its own group is the root, whatever `path` says
                    yield root.joinpath(*parts[:depth]), is_v2


def _limit(group: Path, *, is_v2: bool) -> Iterator[float]:
    if is_v2:
        quota, period = (group / "cpu.max").read_text().split()
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    if quota not in ("max", "-1") and int(period) > 0:
        yield int(quota) / int(period)


def processor_name() -> str | None:
    """The model as its maker calls it; None where the system does not say."""
    return next(iter(_values("model name")), None)


def lacks_bf16() -> bool:
    """True when the processor is known to have no products of bfloat16; False also where nothing is known."""
    lists = _values("flags") or _values("Features")
    return bool(lists) and BF16_INSTRUCTIONS.isdisjoint(lists[0].split())


def slow_bf16_warning(choice: str, instead: str) -> str:
    """For who has chosen bf16 (`choice`, as typed) on a processor that lacks it."""
    return (
        f"{choice}: this processor has no instructions for bfloat16 ({', '.join(sorted(BF16_INSTRUCTIONS))}). "
        f"Its products are slower than those of float32, 10 to 150 times without AVX-512; type {instead}"
    )


def _values(key: str) -> list[str]:
    """What stands behind `key`, once per core."""
    try:
        rows = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    pairs = (line.partition(":") for line in rows)
    return [value.strip() for name, _, value in pairs if name.strip() == key]
