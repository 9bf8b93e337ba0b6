"""What the numbers were measured on: cores, versions and the matrix throughput that is really there."""

import os
import time
from typing import Any

import torch

from schema.environment import describe_environment

ROWS, WIDTH, SECONDS = 3000, 1024, 0.5


def describe_machine() -> dict[str, Any]:
    """Cores, threads and versions; no host name and no path."""
    environment = describe_environment()
    return {
        "cpu_cores": environment["cpu_cores"],
        "threads": torch.get_num_threads(),
        "packages": environment["packages"],
        "load_before": os.getloadavg()[0],
    }


def peak_gflops() -> dict[str, float]:
    """Matrix products per precision that this machine reaches, in GFLOP/s."""
    peaks = {}
    for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16}.items():
        left, right = torch.randn(ROWS, WIDTH, dtype=dtype), torch.randn(WIDTH, WIDTH, dtype=dtype)
        left @ right
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < SECONDS:
            left @ right
            count += 1
        peaks[name] = round(2 * ROWS * WIDTH**2 * count / (time.perf_counter() - start) / 1e9, 1)
    return peaks
