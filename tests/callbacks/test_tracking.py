import json
import os
import subprocess
import sys
import time

import pytest
import wandb
from jobs import run_job

from callbacks.reporting import FLUSH_SECONDS, finish_wandb, wandb_mode
from juzhen.core import machine
from juzhen.core.result import Result
from launch import curriculum

pytestmark = pytest.mark.usefixtures("keyless")


def test_without_a_key_nobody_is_asked(monkeypatch):
    monkeypatch.setattr(machine, "answers", lambda url, **more: pytest.fail("asked without a key"))
    assert wandb_mode("auto") == "offline"
    assert wandb_mode("off") == "off"
    assert wandb_mode("offline") == "offline"


def test_a_key_without_network_is_offline_within_seconds(monkeypatch, closed_port):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", closed_port)
    start = time.perf_counter()
    assert wandb_mode("auto") == "offline"
    assert time.perf_counter() - start < 8


@pytest.mark.parametrize("mode", ["auto", "online"])
def test_a_key_and_an_answer_are_online(monkeypatch, open_port, tmp_path, mode):
    monkeypatch.setenv("WANDB_BASE_URL", open_port)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login user password secret")
    assert wandb_mode(mode) == "online"
    (tmp_path / "netrc").write_text("machine example.org login user password secret")
    assert wandb_mode("auto") == "offline"


@pytest.mark.slow
def test_a_job_with_a_key_and_no_network_does_not_wait(
    monkeypatch, closed_port, tmp_path, tiny_backbone, capfd
):
    places = []
    monkeypatch.setattr(
        curriculum,
        "finish_wandb",
        lambda: places.append((wandb.run.group, wandb.run.settings.run_job_type)) or finish_wandb(),
    )
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", closed_port)
    start = time.perf_counter()
    run = run_job(tmp_path, tiny_backbone, "training.duration=1 steps", "logger.wandb=auto")
    assert time.perf_counter() - start < 45
    assert [one.name.partition("-")[0] for one in (run / "wandb").iterdir() if one.is_dir()].count(
        "offline"
    ) == 1
    printed = capfd.readouterr()
    assert "anonymous" not in printed.err
    (offline,) = (run / "wandb").glob("offline-run-*")
    assert f"wandb sync {offline}" in printed.out
    result = Result.read(run)
    assert places == [(result.name.removesuffix(f"-s{result.seed}"), "train")]
    assert result.config["logger"]["group"] is None


def inspect(run):
    """What W&B's own reader finds in the offline run of a run folder."""
    (folder,) = (
        one for one in (run / "wandb").iterdir() if one.name.startswith("offline-run-") and one.is_dir()
    )
    reader = os.path.join(os.path.dirname(sys.executable), "wandb")
    command = [reader, "leet", "inspect", "--summary", "--json", str(folder)]
    read = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(read.stdout)


@pytest.mark.slow
def test_two_jobs_of_one_process_are_two_runs(tmp_path, tiny_backbone, monkeypatch):
    groups = []
    monkeypatch.setattr(curriculum, "finish_wandb", lambda: groups.append(wandb.run.group) or finish_wandb())
    words = ("training.duration=2 steps", "logger.wandb=offline", "logger.group=trial", "logger.tags=[mine]")
    runs = [run_job(tmp_path, tiny_backbone, *words, f"seed={seed}") for seed in (1, 2)]
    for run in runs:
        result = Result.read(run)
        found = inspect(run)
        assert found["run_id"] == f"{result.key}-0"
        assert (found["name"], found["project"], found["state"]) == (result.name, "juzhen", "finished")
        assert found["tags"] == ["mine", "demo_sts"]
        assert found["config"]["seed"] == result.seed
        assert found["config"]["optimizer"]["betas"] == [0.9, 0.999]
        scores = {key: score.value for key, score in result.scores.items()}
        assert {key: found["summary"][key] for key in scores} == pytest.approx(scores, abs=1e-6)
    assert groups == ["trial", "trial"]
    assert wandb.run is None
    assert Result.read(runs[0]).key != Result.read(runs[1]).key


@pytest.mark.slow
def test_steps_are_in_the_file_of_wandb_while_the_run_goes_on(tmp_path, tiny_backbone, monkeypatch):
    before_the_end = []

    def look_first():
        (run,) = (path for path in tmp_path.iterdir() if (path / "wandb").is_dir())
        for _ in range(
            5
        ):  # far below the 15 seconds that W&B itself takes; a busy machine is slower than the number says
            time.sleep(2 * FLUSH_SECONDS)
            before_the_end[:] = [inspect(run)]
            if (before_the_end[0]["step"] or 0) >= 2:
                break
        finish_wandb()

    monkeypatch.setattr(curriculum, "finish_wandb", look_first)
    words = ("training.duration=3 steps", "logger.wandb=offline", "logger.every_steps=1")
    run_job(tmp_path, tiny_backbone, *words)
    assert before_the_end[0]["state"] == "running"
    assert before_the_end[0]["step"] >= 2


@pytest.mark.slow
def test_a_resumed_run_keeps_the_numbers_of_its_first_session(tmp_path, tiny_backbone):
    words = ("training.duration=2 steps", "logger.every_steps=1")
    run = run_job(tmp_path, tiny_backbone, *words)
    before = (run / "metrics" / "0" / "metrics.csv").read_text()
    assert "train/loss" in before
    (run / "result.json").unlink()  # as if killed just before the end
    run_job(tmp_path, tiny_backbone, *words, "resume=auto")
    assert (run / "metrics" / "0" / "metrics.csv").read_text() == before
    assert (run / "metrics" / "1" / "metrics.csv").exists()
