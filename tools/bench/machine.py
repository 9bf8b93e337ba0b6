"""What the numbers were measured on: cores, versions, memory, and the matrix throughput that is really there."""

import os
import platform
import time
from importlib.metadata import version
from typing import Any

import torch

from juzhen.core.environment import describe_environment
from juzhen.core.processor import lacks_bf16, processor_name

SHAPES = {"cpu": (3000, 1024), "cuda": (16384, 8192)}
"""Rows and width of the products that tell what a device can do."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def describe_machine() -> dict[str, Any]:
    """Commit, cores, threads, versions and the load before measuring; no host name and no path."""
    environment = describe_environment()
    # Maker and instruction sets decide the speed of matrix products.
    instructions = torch.backends.cpu.get_cpu_capability() + ("" if lacks_bf16() else ", bf16")
    theirs = {"sentence-transformers": version("sentence-transformers")}
    return {
        key: environment[key] for key in ("git_commit", "git_dirty", "platform", "python", "cpu_cores")
    } | {
        "processor": f"{processor_name() or platform.processor() or 'unknown'}, {instructions}",
        "threads": torch.get_num_threads(),
        "packages": environment["packages"] | theirs,
        "load_before": round(os.getloadavg()[0], 2),
    }


def matrix_gflops(precision: str, *, seconds: float, device: str) -> float:
    """GFLOP/s of plain matrix products on this device, now: the ceiling for a model in that precision."""
    how = {"dtype": DTYPES[precision], "device": device}
    rows, width = SHAPES[device]
    left, right = torch.randn(rows, width, **how), torch.randn(width, width, **how)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    left @ right
    wait()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        left @ right
        wait()
        count += 1
    return 2 * rows * width**2 * count / (time.perf_counter() - start) / 1e9
