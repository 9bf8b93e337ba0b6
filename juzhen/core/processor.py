"""Which processor this is, and whether it can multiply in bfloat16, as far as the system tells (Linux)."""

import os
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
BF16_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Instruction sets with products of bfloat16: of x86 the first two, of ARM the last."""


def num_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    pairs = (line.partition(":") for line in lines)
    return [value.strip() for name, _, value in pairs if name.strip() == key]
