"""Run as a program: a small job that sends itself a signal after a given optimizer step.

python tests/interrupted_job.py <output_dir> <backbone> <step> <signal> [override …]
"""

import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import pytorch_lightning as pl
from jobs import run_job

import callbacks.trainer as assembly
from launch import run_cli


class Interrupt(pl.Callback):
    """Signals this very process when `step` optimizer steps are done."""

    def __init__(self, step, name):
        self.step, self.name = step, name

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == self.step:
            os.kill(os.getpid(), getattr(signal, self.name))


@run_cli
def main():
    output_dir, backbone, step, name, *overrides = sys.argv[1:]
    # A shell that starts the tests in the background has them ignore it, and they hand that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    build = assembly.build_callbacks
    assembly.build_callbacks = lambda *given: [Interrupt(int(step), name), *build(*given)]
    run_job(Path(output_dir), Path(backbone), *overrides)


if __name__ == "__main__":
    main()
