"""CPU threads of this process, within the CPU quota of its control group."""

import os
import sys
from functools import cache
from typing import Any

import torch

from juzhen.core.processor import cpu_quota, num_cores

_forked = False


def limit_threads(threads: int | None = None) -> None:
    """Sets torch's threads to `threads`; None: as torch chooses, or fewer where a CPU quota allows fewer.

    More threads than the quota are slower than as many: the system stops all of them until the next period. Says so
    in one line on stderr, once in a process, and leaves alone what OMP_NUM_THREADS says. A forked process keeps one.
    """
    if threads is not None and not _forked:
        torch.set_num_threads(threads)
    elif threads is None:
        _limit_once()


@cache
def _limit_once() -> None:
    quota = cpu_quota()
    if quota is None or os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads() <= num_cores():
        return
    print(
        f"threads: {num_cores()} in the place of {torch.get_num_threads()}: the CPU quota of this process's control "
        f"group is {quota:g}; OMP_NUM_THREADS sets another number",
        file=sys.stderr,
    )
    torch.set_num_threads(num_cores())


def _after_fork() -> None:
    """One thread from now on: OpenMP would wait for the parent's others, which do not live on in a forked process."""
    global _forked
    _forked = torch.get_num_threads() > 1 or _forked
    torch.set_num_threads(1)
    faiss: Any = sys.modules.get("faiss")
    if hasattr(faiss, "omp_set_num_threads"):
        faiss.omp_set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def tell_of_fork() -> None:
    """Says in one line on stderr, once, that a forked process has one thread."""
    if _forked:
        _tell_once()


@cache
def _tell_once() -> None:
    print(
        "threads: 1, since this process was forked, and threads do not live on in the copy; for more start it by "
        'multiprocessing.get_context("spawn")',
        file=sys.stderr,
    )
