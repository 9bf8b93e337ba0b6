"""A mining in a second process, while the first one goes on."""

import signal
from collections.abc import Mapping
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import torch

from juzhen.core.atomic_write import atomic_write, remove_file, remove_folder
from juzhen.core.file_guard import claim_dir
from juzhen.core.safe_open import require_file
from juzhen.encoders.bundle import save_encoder
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.mining.in_training import InForce, Request
from juzhen.mining.token_candidates import load_source

WEIGHTS, FOUND = "encoder", "found.npz"
OF_MINING = r"(encoder|found\.npz)"


class MiningBeside:
    """Mines with weights that lie in a folder, where its answer is put, so that another session can go on with it.

    folder  of its own; holds one mining at a time
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: BaseProcess | None = None

    def begin(self, requests: Mapping[str, Request], encoder: SentenceEncoder) -> None:
        """Keeps the weights as they are now, and starts."""
        claim_dir(self.folder)
        remove_file(self.folder / FOUND)
        save_encoder(encoder, self.folder / WEIGHTS, card={"name": "weights that negatives are mined with"})
        self.go_on(requests, device=str(encoder.device))

    def go_on(self, requests: Mapping[str, Request], *, device: str) -> None:
        """Starts with the weights that have been kept; does nothing where the answer is there already."""
        if (self.folder / FOUND).exists():
            return
        arguments = self.folder, dict(requests), device, torch.get_num_threads()
        self._process = get_context("spawn").Process(target=_work, args=arguments, daemon=True)
        self._process.start()

    def found(self) -> dict[str, InForce]:
        """The answer, which is waited for; its file is not there where the process ended without one."""
        if self._process is not None:
            self._process.join()
            if self._process.exitcode:
                raise RuntimeError(
                    f"the process that mines negatives ended with status {self._process.exitcode}"
                )
        mined: dict[str, dict[str, np.ndarray]] = {}
        with np.load(require_file(self.folder / FOUND)) as arrays:
            for key in arrays.files:
                name, _, column = key.rpartition("/")
                mined.setdefault(name, {})[column] = arrays[key]
        return {name: InForce(**columns) for name, columns in mined.items()}

    def clear(self) -> None:
        """Removes what it has kept."""
        remove_folder(self.folder, rf"{OF_MINING}/.*|{OF_MINING}")

    def stop(self) -> None:
        """Ends the process. What it has kept stays, for a session that goes on."""
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _work(folder: Path, requests: Mapping[str, Request], device: str, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is told to the first process, which ends this one
    torch.set_num_threads(threads)
    encoder = load_source(folder / WEIGHTS).train().to(device)
    mined = {
        f"{name}/{column}": values
        for name, request in requests.items()
        for column, values in vars(request.mined(encoder)).items()
    }
    with atomic_write(folder / FOUND, "wb", in_own_folder=True) as file:
        np.savez(file, **mined)
