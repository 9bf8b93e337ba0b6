"""Every way to start the runs of a sweep runs the same two cells: ours, and those that Hydra and its plugins bring."""

import pytest
from forks import python

from juzhen.core.result import Result
from sweeps.ledger import Event, Ledger

pytestmark = pytest.mark.slow
LAUNCHERS = {
    "basic": None,
    "joblib": "hydra_plugins.hydra_joblib_launcher",
    "submitit_local": "hydra_plugins.hydra_submitit_launcher",
    "slurm": "submitit",
    "ray": "ray",
}
WORDS = {
    "joblib": ["hydra.launcher.n_jobs=2"],
    "slurm": ["hydra.launcher.cluster=local", "hydra.launcher.cpus=1"],
    "ray": ["hydra.launcher.address=null", "hydra.launcher.cpus=1"],
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_cells_by(launcher, tmp_path):
    if LAUNCHERS[launcher]:
        pytest.importorskip(LAUNCHERS[launcher])
    done = python(
        *("train.py", "-m", f"hydra/launcher={launcher}", *WORDS.get(launcher, [])),
        *("model=lexical", "dataset=[]", "suite=demo", "debug_rows=24", "seed=1,2", "logger=csv"),
        *("evaluation.bootstrap_samples=0", "hardware.threads=1", f"output_dir={tmp_path}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {Result.read(path).seed for path in tmp_path.glob("*/result.json")} == {1, 2}
    if launcher in ("slurm", "ray"):
        events = [event["event"] for event in Ledger(tmp_path).events()]
        assert [events.count(one) for one in (Event.SUBMITTED, Event.STARTED, Event.FINISHED)] == [2, 2, 2]
