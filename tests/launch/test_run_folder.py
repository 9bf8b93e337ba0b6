"""Run folders are locked and never overwritten; run keys change with what decides the numbers, and only then."""

import os
import subprocess
from pathlib import Path

from forks import python

from juzhen.core.file_guard import claim_dir
from juzhen.core.result import STAGES
from launch.job import run_key, run_name
from launch.run_folder import MARKER, RunFolder, offline_line

CONFIG = {
    "name": "x",
    "seed": 1,
    "schedule": {"name": "serial", "order": None},
    "dataset": {"nli": {"limit": None}, "sts": {"limit": None}},
    "model": {"_target_": "lightning_modules.biencoder.BiEncoder"},
    "loss": {"_target_": "juzhen.losses.pairwise_ranking.CoSENT", "name": "cosent", "temperature": 0.05},
    "hardware": {"devices": 1},
    "data_dir": "here",
}


def test_key_ignores_places_and_hardware_but_not_numbers_and_order():
    key = run_key(CONFIG)
    assert run_key({**CONFIG, "hardware": {"devices": 8}, "data_dir": "there", "resume": "auto"}) == key
    assert run_key({**CONFIG, "seed": 2}) != key
    precise = {name: {"devices": 1, "precision": name} for name in ("32-true", "bf16-mixed", "16-mixed")}
    assert len({run_key({**CONFIG, "hardware": one}) for one in precise.values()}) == 3
    assert run_key({**CONFIG, "hardware": {"devices": 2, "precision": "32-true"}}) == run_key(
        {**CONFIG, "hardware": precise["32-true"]}
    )
    assert run_key({**CONFIG, "model": CONFIG["model"] | {"variant": "by another name"}}) == key
    assert run_key({**CONFIG, "dataset": dict(reversed(CONFIG["dataset"].items()))}) != key


def test_name_says_what_was_trained():
    assert run_name(CONFIG) == "nli-sts-biencoder-cosent-s1"
    varied = {**CONFIG, "model": {"_target_": "lightning_modules.cot.CotEncoder", "variant": "cot_long"}}
    assert run_name(varied) == "nli-sts-cot_long-cosent-s1"
    assert run_name({**CONFIG, "dataset": {}, "schedule": {"name": "mix"}}).startswith("untrained-")


def test_a_worker_that_outlives_its_run_keeps_nobody_out(tmp_path):
    """As the workers of a DataLoader do for some seconds after SIGKILL."""
    (over, end), (begun, begin) = os.pipe(), os.pipe()
    with RunFolder(tmp_path / "run", resume="never"):
        worker = os.fork()
        if worker == 0:
            os.close(end)
            os.write(begin, b".")
            os.read(over, 1)  # until the test is over
            os._exit(0)
        os.read(begun, 1)
    try:
        with RunFolder(tmp_path / "run", resume="auto") as again:
            assert not again.finished
    finally:
        os.close(end)
        os.waitpid(worker, 0)
        for descriptor in (over, begun, begin):
            os.close(descriptor)


def test_a_second_process_is_refused(tmp_path):
    other = (
        "import sys; from launch.run_folder import RunFolder\n"
        "from juzhen.core.errors import UserError\n"
        "try:\n    RunFolder(sys.argv[1], resume='auto').__enter__()\n"
        "except UserError as error:\n    print(error); sys.exit(2)\n"
    )
    with RunFolder(tmp_path / "run", resume="never"):
        done = python("-c", other, tmp_path / "run")
    assert done.returncode == 2
    assert "another process" in done.stdout
    with RunFolder(tmp_path / "run", resume="never"):
        pass


def test_starting_afresh_keeps_what_was_there_and_says_where(tmp_path, capsys):
    folder = tmp_path / "run"
    for attempt, said in (("first", ""), ("second", f"is kept in {folder / 'previous' / '1'}\n")):
        with RunFolder(folder, resume="never"):
            (folder / "result.json").write_text(attempt)
        assert capsys.readouterr().err.endswith(said)
    with RunFolder(folder, resume="auto") as run:
        assert run.finished
        assert (folder / "previous" / "1" / "result.json").read_text() == "first"
        assert (folder / "result.json").read_text() == "second"


def test_earlier_stages_have_folders_of_their_own_and_the_last_one_that_of_the_run(tmp_path):
    run = RunFolder(tmp_path, resume="never")
    assert run.stage_folder(0, 2, "demo_nli") == tmp_path / STAGES / "0-demo_nli"
    assert run.stage_folder(1, 2, "demo_sts") == tmp_path
    assert (tmp_path / STAGES / "0-demo_nli").is_dir()


def test_what_a_finished_stage_would_go_on_from_goes_at_the_next_start(tmp_path):
    """A kill right behind the writing of a result leaves it; a stage without a result keeps it."""
    stages = ("stages/0-a", "stages/1-b", ".")
    for place in stages:
        claim_dir(tmp_path / place / "checkpoints")
        for name in ("resume.ckpt", "best.ckpt"):
            (tmp_path / place / "checkpoints" / name).write_text("{}")
    for place in ("stages/0-a", "."):
        (tmp_path / place / "result.json").write_text("{}")
    (tmp_path / MARKER).write_text("")
    with RunFolder(tmp_path, resume="auto"):
        pass
    left = {
        place: {one.name for one in (tmp_path / place / "checkpoints").glob("*.ckpt")} for place in stages
    }
    whole = {"resume.ckpt", "best.ckpt"}
    assert left == {"stages/0-a": {"best.ckpt"}, "stages/1-b": whole, ".": {"best.ckpt"}}


def offline_run(folder, name="offline-run-1-a-0", *, is_uploaded=False):
    where = folder / "wandb" / name
    where.mkdir(parents=True)
    (where / "run-a-0.wandb").touch()
    if is_uploaded:
        (where / "run-a-0.wandb.synced").touch()
    return where


def synced(line):
    """What a shell makes of the words behind `wandb sync` of a line."""
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {line.partition('wandb sync ')[2]}"], capture_output=True, text=True
    )
    return {Path(word) for word in words.stdout.splitlines()}


def test_the_command_that_uploads_names_the_folders_that_wandb_wrote_offline(tmp_path):
    run = tmp_path / "my run"
    assert offline_line([run]) is None
    first = offline_run(run)
    offline_run(run, "offline-run-0-a-0", is_uploaded=True)
    (run / "wandb" / "run-2-a-0").mkdir()
    offline_run(run / "previous" / "1")
    assert synced(offline_line([run])) == {first}
    assert str(first.parent) in offline_line([run])
    stage = offline_run(run / "stages" / "0-demo_sts")
    assert synced(offline_line([run])) == {first, stage}


def test_many_runs_are_uploaded_by_one_pattern(tmp_path):
    folders = [tmp_path / "my runs" / str(number) for number in range(40)]
    waiting = {offline_run(folder) for folder in folders} | {offline_run(folders[0] / "stages" / "0-a")}
    line = offline_line([*folders, tmp_path / "my runs" / "never began"])
    assert synced(line) == waiting
    assert line.count("wandb sync") == 1
    assert line.count(str(tmp_path)) == 4
    again = {offline_run(folders[1], f"offline-run-{number}-a-0") for number in range(2, 9)}
    assert synced(offline_line(folders[1:2])) == again | {folders[1] / "wandb" / "offline-run-1-a-0"}
