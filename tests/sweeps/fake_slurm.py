"""A Slurm of one machine without limits: the five commands that submitit and the sweep call, as programs in a folder.

Jobs are folders below `FAKE_SLURM`. A file `hold` there keeps new starts waiting. Signals reach the processes of a
step, as in Slurm, and not the shell around them.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = ("sbatch", "sacct", "scancel", "scontrol", "srun")


def install(folder: Path) -> dict[str, str]:
    """Writes the commands; the environment in which they are found."""
    programs, jobs = folder / "bin", folder / "jobs"
    programs.mkdir(parents=True)
    jobs.mkdir()
    for name in COMMANDS:
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{__file__}" {name} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "FAKE_SLURM": str(jobs)}


def sbatch(jobs: Path, script: str) -> None:
    number = 1
    while True:
        try:
            (jobs / str(number)).mkdir()
            break
        except FileExistsError:
            number += 1
    job = jobs / str(number)
    shutil.copy(script, job / "script")
    (job / "queued").touch()
    subprocess.Popen(
        [sys.executable, "-S", __file__, "node", str(number)],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=(job / "out").open("wb"),
        stderr=subprocess.STDOUT,
    )
    print(f"Submitted batch job {number}")


def node(jobs: Path, number: str) -> None:
    """Runs a job, and again whenever it was put back into the queue; what Slurm's own processes do."""
    job = jobs / number
    told = {"SLURM_JOB_ID": number, "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    while True:
        while (jobs / "hold").exists() and not (job / "cancelled").exists():
            time.sleep(0.02)
        if not (job / "cancelled").exists():
            (job / "requeue").unlink(missing_ok=True)
            subprocess.run(["bash", str(job / "script")], env=os.environ | told, check=False)
        if not (job / "requeue").exists():
            break
    (job / "queued").unlink()


def srun(jobs: Path, *words: str) -> None:
    start = words.index(next(word for word in words if "python" in word))
    os.setpgid(0, 0)
    (jobs / os.environ["SLURM_JOB_ID"] / "step").write_text(str(os.getpid()))
    os.execv(words[start], words[start:])


def sacct(jobs: Path, *_: str) -> None:
    print("JobID|State|NodeList")
    for job in jobs.glob("[0-9]*"):
        print(f"{job.name}|{'RUNNING' if (job / 'queued').exists() else 'COMPLETED'}|here")


def scancel(jobs: Path, number: str, signal_name: str = "--signal=TERM") -> None:
    name = signal_name.removeprefix("--signal=")
    if name == "TERM":
        (jobs / number / "cancelled").touch()
    step = jobs / number / "step"
    if step.exists():
        os.killpg(int(step.read_text()), signal.Signals[f"SIG{name}"])


def scontrol(jobs: Path, verb: str, number: str) -> None:
    (jobs / number / verb).touch()


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    globals()[command](Path(os.environ["FAKE_SLURM"]), *arguments)
