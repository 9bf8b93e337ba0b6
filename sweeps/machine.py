"""What of this machine each of several cells may use: threads, and GPUs in turn."""

import os
from collections.abc import Mapping, Sequence

from juzhen.core.accelerator import cuda_devices
from juzhen.core.processor import num_cores

CORES_PER_CELL = 4
"""Where nothing is said, so many cores are taken to be worth a cell of its own."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


class Machine:
    """Shares out threads and GPUs.

    jobs     cells at a time; None: one per share of GPUs where cells ask for them, else one for every 4 cores
    threads  CPU threads of each; None: what OMP_NUM_THREADS says, else the cores divided by `jobs`
    gpus     numbers as in CUDA_VISIBLE_DEVICES; None: all that can be seen
    devices  GPUs that each cell asks for; 0: none
    """

    def __init__(
        self, *, jobs: int | None, threads: int | None, gpus: Sequence[int | str] | None, devices: int
    ) -> None:
        self.devices = devices
        self.gpus = [str(gpu) for gpu in (visible_gpus() if gpus is None else gpus)] if devices else []
        cores = num_cores()
        if jobs is None:
            jobs = len(self.gpus) // devices if self.gpus else cores // CORES_PER_CELL
        self.jobs = max(1, jobs)
        given = os.environ.get("OMP_NUM_THREADS", "")
        share = max(1, cores // self.jobs)
        self.threads = threads or (min(int(given), share) if given.isdigit() else share)

    def environment(self, slot: int) -> Mapping[str, str]:
        """What the process in that slot, counted from 0, is told."""
        told = thread_variables(self.threads)
        if self.gpus:
            first = slot * self.devices
            mine = [self.gpus[(first + number) % len(self.gpus)] for number in range(self.devices)]
            told["CUDA_VISIBLE_DEVICES"] = ",".join(dict.fromkeys(mine))
        return told


def thread_variables(threads: int) -> dict[str, str]:
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def visible_gpus() -> list[str]:
    """GPUs that a process here would see, by the names that CUDA_VISIBLE_DEVICES has for them."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    if told is not None:
        return [gpu for gpu in told.split(",") if gpu.strip()]
    return [str(number) for number in range(cuda_devices())]
