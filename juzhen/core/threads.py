"""CPU threads of this process, within the CPU quota of its control group."""

import os
import sys
from functools import cache

import torch

from juzhen.core.processor import cpu_quota, num_cores


def limit_threads(threads: int | None = None) -> None:
    """Sets torch's threads to `threads`; None: as torch chooses, or fewer where a CPU quota allows fewer.

    More threads than the quota are slower than as many: the system stops all of them until the next period. Says so
    in one line on stderr, once in a process, and leaves alone what OMP_NUM_THREADS says.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    else:
        _limit_once()


@cache
def _limit_once() -> None:
    quota = cpu_quota()
    if quota is None or os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads() <= num_cores():
        return
    print(
        f"threads: {num_cores()} in the place of {torch.get_num_threads()}: the CPU quota of this process's control "
        f"group is {quota:g}; hardware.threads or OMP_NUM_THREADS choose another number",
        file=sys.stderr,
    )
    torch.set_num_threads(num_cores())
