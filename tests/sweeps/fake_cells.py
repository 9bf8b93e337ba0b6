"""A stand-in for train.py that runs in a moment, and a program that plans cells of it.

The stand-in takes ten steps, remembers each, and goes on where it stopped; the number that it ends with depends on its
words alone. It refuses to work in a folder where another is at work, as train.py does.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FAKE = """
import fcntl, json, os, pathlib, sys, time
run_dir, kind = pathlib.Path(sys.argv[1]), sys.argv[2]
seconds = float(os.environ.get("STEP_SECONDS", "0.01"))
run_dir.mkdir(parents=True, exist_ok=True)
lock = (run_dir / ".lock").open("a+")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit("error: another process is running this very job")
with (run_dir / "starts").open("a") as file:
    file.write(json.dumps({name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")}) + "\\n")
if kind == "refused":
    print("error: no such set", file=sys.stderr)
    sys.exit(2)
if kind == "fails" or (kind == "flaky" and (run_dir / "starts").read_text().count("\\n") == 1):
    sys.exit("some words\\nerror: no luck")
steps = run_dir / "steps"
while True:
    done = steps.read_text().split() if steps.exists() else []
    if len(done) == 10:
        break
    time.sleep(seconds)
    part = run_dir / "steps.part"
    part.write_text(" ".join([*done, str(len(done))]))
    with (run_dir / "taken").open("a") as file:  # before it counts: a kill in between repeats the step
        file.write(f"{len(done)} ")
    os.replace(part, steps)
part = run_dir / "result.part"
part.write_text(json.dumps({"sum": sum(map(int, done)), "kind": kind}))
os.replace(part, run_dir / "result.json")
"""


SLURM = {
    "cluster": "slurm",
    "jobs": None,
    "partition": None,
    "account": None,
    "qos": None,
    "constraint": None,
    "time_minutes": 30,
    "cpus": 1,
    "gpus": None,
    "memory_gb": None,
    "requeues": 3,
    "signal_seconds": 30,
    "setup": [],
    "options": {},
}
PATIENCE = 500


def plan(
    folder: Path,
    kinds: list[str],
    *,
    jobs: int = 2,
    attempts: int = 2,
    report=lambda line: None,
    runner="here",
    **resources: object,
):
    """A planner over one cell per kind, and the cells.

    runner  where they run: here · slurm · local (submitit's stand-in) · host:port of Ray · a runner of one's own
    """
    sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []
    from sweeps.ledger import Ledger, SweepCell
    from sweeps.planner import Planner
    from sweeps.runners import LocalRunner, RayRunner, SlurmRunner

    folder.mkdir(parents=True, exist_ok=True)
    program = folder.parent / "train.py"
    if not program.exists():
        program.write_text(FAKE)
    folders = [str(folder / f"{i}-{kind}") for i, kind in enumerate(kinds)]
    cells = [SweepCell(name, (name, kind)) for name, kind in zip(folders, kinds, strict=True)]
    words, ledger = [sys.executable, str(program)], Ledger(folder)
    if runner == "here":
        runner = LocalRunner(words, jobs=jobs, threads=1, gpus=None, devices=0)
    elif runner in ("slurm", "local"):
        runner = SlurmRunner(words, ledger, len(cells), **SLURM | {"cluster": runner} | resources)
    elif isinstance(runner, str):
        runner = RayRunner(
            words, ledger, 0, **{"address": runner, "jobs": None, "cpus": 1, "gpus": None} | resources
        )
    return Planner(cells, ledger, runner, attempts=attempts, report=report), cells


def wait_for(fact: Callable[[], object], what: str) -> None:
    """Returns when `fact` holds; fails with `what` after `PATIENCE` seconds."""
    deadline = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def done(told: str) -> list[int]:
    """What a driver says at its end: cells finished, skipped and failed."""
    assert "DONE" in told, told
    return [int(word) for word in told.rpartition("DONE")[2].split()]


def results(folder: Path) -> dict[str, dict]:
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.rglob("result.json"))}


def start(
    program: object, *words: object, cwd: Path | None = None, **environment: object
) -> subprocess.Popen:
    """The program as a process; what it says is read from one pipe."""
    return subprocess.Popen(
        [sys.executable, *map(str, (program, *words))],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {name: str(value) for name, value in environment.items()},
    )


def start_sweep(folder: Path, *kinds: str, runner="here", seconds=0.05, gpus=0) -> subprocess.Popen:
    """This program as a process; each step of a cell takes that many seconds."""
    return start(__file__, runner, gpus, folder, *kinds, STEP_SECONDS=seconds)


if __name__ == "__main__":
    runner, gpus, folder, *kinds = sys.argv[1:]
    planner, _ = plan(
        Path(folder),
        kinds,
        attempts=2 if runner == "here" else 3,
        report=lambda line: print(line, flush=True),
        runner=runner,
        gpus=int(gpus),
    )
    summary = planner.run()
    print("DONE", len(summary.finished), len(summary.skipped), len(summary.failed))
