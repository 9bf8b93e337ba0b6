"""`train.py -m` from end to end: a ledger, a failing cell, an exit status; killed and taken up again when slow."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fake_cells import ROOT
from fake_cells import start as start_program
from hydra.types import RunMode
from jobs import SMALL

from juzhen.cli.main import main as sweeps_main
from juzhen.core.result import Result
from juzhen.report.matrix import build_matrix
from launch.check import check_command_line
from launch.hydra_internals import opened
from launch.job import register_resolvers
from launch.overrides import Groups
from launch.sweep_cells import read_cell
from sweeps.ledger import Event, Ledger

STEPS = ("training.duration=6 steps", "training.checkpoint_every=1 steps", "debug_rows=24")
ROWS = (
    "+hydra.sweeper.rows.sts='dataset=[demo_sts]'",
    "+hydra.sweeper.rows.qmc='dataset=[demo_nli,demo_qmc]'",
    "+hydra.sweeper.rows.order='dataset=[demo_nli,demo_order]'",
)


def start(output_dir: Path, *words: str) -> subprocess.Popen:
    typed = {"dataset", "logger.progress", *(word.partition("=")[0] for word in words)}
    small = [word for word in SMALL if word.partition("=")[0] not in typed]
    return start_program("train.py", "-m", *small, f"output_dir={output_dir}", *words, cwd=ROOT)


@pytest.mark.slow
def test_one_cell_fails_and_the_other_is_there(tmp_path, capsys):
    rows = ("+hydra.sweeper.rows.lexical='model=lexical'", "+hydra.sweeper.rows.lost='init_from=/nowhere'")
    small = ("dataset=[]", "benchmark=demo", "debug_rows=24", "logger=csv", "evaluation.bootstrap_samples=0")
    words = (*rows, *small, "hydra.launcher.attempts=1", "hydra.launcher.jobs=2", f"output_dir={tmp_path}")
    sweep = start_program("train.py", "-m", *words, cwd=ROOT)
    told, _ = sweep.communicate(timeout=200)
    assert sweep.returncode == 1, told
    assert "1 run finished, 0 were finished before, 1 failed" in told
    assert "error: /nowhere: no such folder" in told
    (result,) = tmp_path.glob("*/result.json")
    assert Result.read(result).config["model"]["_target_"] == "lightning_modules.lexical.Lexical"
    events = [event["event"] for event in Ledger(tmp_path).events()]
    assert sorted(events) == sorted(
        [Event.SWEEP, *2 * [Event.PLANNED], *2 * [Event.STARTED], Event.FINISHED, Event.FAILED]
    )
    assert sweeps_main(["status", str(tmp_path)]) == 0
    assert "2 runs: 1 finished, 1 failed" in capsys.readouterr().out


@pytest.mark.slow
def test_precisions_are_two_cells_and_two_rows(tmp_path, tiny_backbone):
    small = (
        "backbone=random_small",
        f"backbone.path={tiny_backbone}",
        "training.duration=2 steps",
        "benchmark=none",
    )
    words = (*small, "dataset=[demo_sts]", "debug_rows=24", "hardware=cpu,cpu_bf16", "resume=auto")
    for _ in range(2):  # the second time both are there
        sweep = start(tmp_path, *words)
        told, _ = sweep.communicate(timeout=200)
        assert sweep.returncode == 0, told
    assert "0 runs finished, 2 were finished before, 0 failed" in told
    results = [Result.read(path) for path in sorted(tmp_path.glob("*/result.json"))]
    assert {one.config["hardware"]["precision"] for one in results} == {"32-true", "bf16-mixed"}
    assert {row.label for row in build_matrix(results, metric="spearman").rows} == {
        "demo_sts",
        "demo_sts, bf16",
    }


def scores(folder: Path) -> dict[str, dict]:
    found = {}
    for path in sorted(folder.rglob("result.json")):
        read = json.loads(path.read_text())
        found[str(path.relative_to(folder))] = {key: one["value"] for key, one in read["scores"].items()}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments_and_taken_up_it_has_the_same_results(tmp_path, tiny_backbone, seed):
    words = (
        *STEPS,
        *ROWS,
        "backbone=random_small",
        f"backbone.path={tiny_backbone}",
        "schedule=serial",
        "loss=by_kind",
        "hydra.launcher.jobs=2",
    )
    whole = start(tmp_path / "whole", *words)
    told, _ = whole.communicate(timeout=400)
    assert whole.returncode == 0, told
    draw = random.Random(seed)
    for number in range(4):
        sweep = start(tmp_path / "cut", *words)
        time.sleep(draw.uniform(8, 30))
        if number % 2:  # its cells are not asked to save either
            for event in Ledger(tmp_path / "cut").events():
                if event["event"] == Event.STARTED:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(event["process"], signal.SIGKILL)
        sweep.kill()
        sweep.wait()
    last = start(tmp_path / "cut", *words)
    told, _ = last.communicate(timeout=400)
    assert last.returncode == 0, told
    assert scores(tmp_path / "cut") == scores(tmp_path / "whole")
    assert len(scores(tmp_path / "whole")) == 5  # one stage, and twice two


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["loss=by_kind"], []),
        (["loss=by_kind", "sweep=transfer_matrix"], ["loss=by_kind", "sweep=transfer_matrix"]),
    ],
)
def test_a_cell_is_given_what_it_reads(words, given):
    typed = ["dataset=[]", "benchmark=demo", "training.batch_size=8", *words]
    with opened(ROOT / "conf", None) as hydra:
        register_resolvers()
        sweep = hydra.config_loader.load_configuration("train", [], RunMode.MULTIRUN)
        cell = read_cell(hydra.config_loader, sweep, typed, Groups(hydra.config_loader))
    assert cell.words == ("dataset=[]", "benchmark=demo", *given)
    assert check_command_line(cell.words, conf_dir=ROOT / "conf").job.run_dir == cell.job.run_dir
