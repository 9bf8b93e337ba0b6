"""resume=auto goes on with the job of its folder, or shows its result; another job is refused before rows are read."""

import json
from types import SimpleNamespace

import pytest
from jobs import compose_job, interrupt, run_job, weights

import train
from hydra_plugins.juzhen_sweeps.sweeper import _require_own_folders
from juzhen.core.errors import UserError
from juzhen.core.paths import DISTRIBUTION
from juzhen.core.result import PROGRESS_FILE, RESULT_FILE, Result
from launch import run_folder
from launch.job import deciding_settings, read_job
from launch.run_folder import (
    JOB_FILE,
    changed_code,
    differences,
    has_begun,
    remember_job,
    require_same_job,
)
from sweeps.ledger import SweepCell

CURRICULUM = ("schedule=serial", "dataset=[demo_nli,demo_sts]", "loss=by_kind")


def composed(folder, *words):
    return compose_job("benchmark=none", f"run_dir={folder}", "resume=auto", *words)


def begun(folder, *words):
    """A folder in which a run with these words has begun to learn."""
    folder.mkdir()
    remember_job(folder, deciding_settings(composed(folder, *words)))
    (folder / PROGRESS_FILE).touch()
    return folder


def refused(folder, *words):
    """What the program says to these words and the folder of another job."""
    message = refused_in(folder, *words)
    assert f"run_dir={folder}" in message
    return message


def refused_in(folder, *words):
    """What the program says to these words and a folder; nothing in the folder changes."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UserError) as caught:
        train.run_job(composed(folder, *words))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    message = str(caught.value)
    assert "another folder (run_dir=" in message
    return message


@pytest.mark.parametrize(
    ("then", "now", "named"),
    [
        (["loss=cosent"], ["loss=cosine", "optimizer.lr=1e-5"], ["loss=cosent (now cosine)", "(now 1e-05)"]),
        (
            [],
            ["model=crossencoder", "loss=bce", "dataset=[demo_qmc]"],
            ["model=biencoder (now crossencoder)"],
        ),
        (["dataset=[demo_sts]"], ["dataset=[demo_qmc]"], ["dataset=[demo_sts] (now [demo_qmc])"]),
        ([], ["training.duration=9 epochs"], ["training.duration=3 epochs (now 9 epochs)"]),
        ([], ["hardware.precision=bf16-mixed"], ["hardware.precision=32-true (now bf16-mixed)"]),
        ([], ["seed=1"], ["seed=42 (now 1)"]),
        ([], ["adapter=lora"], ["backbone.adapter.kind=null (now lora)"]),
        ([*CURRICULUM], [*CURRICULUM, "evaluation.limit=7"], ["evaluation.limit=null (now 7)"]),
        (
            ["schedule=serial", "dataset=[demo_sts,demo_order]"],
            ["schedule=serial", "dataset=[demo_order,demo_sts]"],
            ["dataset=[demo_sts, demo_order] (now [demo_order, demo_sts])"],
        ),
    ],
)
@pytest.mark.sampled(3)
def test_another_job_is_refused_and_what_differs_is_named(tmp_path, then, now, named):
    message = refused(begun(tmp_path / "run", *then), *now)
    assert [part for part in named if part not in message] == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["hardware.threads=2", "hardware=cpu", "logger=csv", "output_dir=elsewhere", "name=other"],
        ["training.checkpoint_every=1 steps", "cache_dir=null"],
    ],
)
def test_settings_that_decide_no_numbers_are_the_same_job(tmp_path, words):
    folder = begun(tmp_path / "run")
    config = composed(folder, *words)
    require_same_job(config, read_job(config))


def test_a_folder_in_which_nothing_was_learnt_takes_another_job(tmp_path):
    folder = begun(tmp_path / "run")
    (folder / PROGRESS_FILE).unlink()
    assert not has_begun(folder)
    config = composed(folder, "seed=1")
    require_same_job(config, read_job(config))
    (folder / PROGRESS_FILE).touch()
    config.resume = "never"  # what is there is kept aside
    require_same_job(config, read_job(config))


@pytest.mark.parametrize("content", ["", '{"key": "a', "{}", '{"key": "a"}', "[]", None])
def test_an_unfinished_run_without_its_record_is_not_resumed(tmp_path, content):
    folder = begun(tmp_path / "run")
    (folder / JOB_FILE).unlink() if content is None else (folder / JOB_FILE).write_text(content)
    message = refused_in(folder)
    assert JOB_FILE in message
    assert "resume=never" in message


def test_changed_code_of_a_loss_is_not_resumed(tmp_path, monkeypatch):
    config = composed(tmp_path / "run")
    target, own = config.loss._target_, tmp_path / "own.py"
    own.write_text('"""A loss."""\nSCALE = 2\n')
    monkeypatch.setattr("launch.run_folder.find_spec", lambda module: SimpleNamespace(origin=str(own)))
    folder = begun(tmp_path / "run")
    remember_job(folder, deciding_settings(config), read_job(config))
    own.write_text('"""My loss."""\n\nSCALE = 2  # twice\n')
    require_same_job(config, read_job(config))
    own.write_text('"""A loss."""\nSCALE = 3\n')
    message = refused_in(folder)
    assert target in message
    assert "resume=never" in message
    assert changed_code(folder, read_job(config)) == [target]
    record = json.loads((folder / JOB_FILE).read_text("utf-8"))
    record["code"][DISTRIBUTION] = "0.0.1"
    (folder / JOB_FILE).write_text(json.dumps(record), "utf-8")
    require_same_job(config, read_job(config))  # an upgrade of juzhen
    monkeypatch.setattr("launch.run_folder.declared_losses", lambda: {target})
    assert target in refused_in(folder)  # no upgrade of juzhen changes another package's loss


@pytest.mark.slow
def test_an_upgrade_between_kill_and_resume_does_not_stop_a_run(tmp_path, tiny_backbone, monkeypatch):
    words = ("resume=auto", "training.duration=4 steps")
    whole = run_job(tmp_path / "whole", tiny_backbone, *words)
    words = (*words, f"run_dir={tmp_path / 'run'}")
    with monkeypatch.context() as earlier:  # a release with another file of the loss
        earlier.setattr("launch.run_folder.package_version", lambda package: "0.0.1")
        earlier.setattr(OWN_LOSS, lambda module: "earlier")
        assert interrupt(tmp_path / "cut", tiny_backbone, 3, "SIGINT", *words) == 130
    record = tmp_path / "run" / JOB_FILE
    assert "earlier" in json.loads(record.read_text("utf-8"))["code"].values()
    assert weights(run_job(tmp_path / "cut", tiny_backbone, *words)) == weights(whole)
    assert "earlier" not in json.loads(record.read_text("utf-8"))["code"].values()


LONGER_LAST = (*CURRICULUM, "+schedule.stages.demo_sts.training.duration=8 steps")
OWN_LOSS = "launch.run_folder._digest_of_code"
"""What tells the code of a loss: another answer is another file."""


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "step"), [((), 3), (LONGER_LAST, 6)])
def test_a_loss_that_changes_within_a_run_stops_it_until_its_owner_has_decided(
    tmp_path, tiny_backbone, monkeypatch, capsys, stages, step
):
    """The loss of an unfinished run, and that of a stage before: refused, gone on, and shown with a warning."""
    words = (*stages, "resume=auto", "training.duration=4 steps")
    whole = run_job(tmp_path / "whole", tiny_backbone, *words)
    words = (*words, f"run_dir={tmp_path / 'run'}")
    assert interrupt(tmp_path / "cut", tiny_backbone, step, "SIGINT", *words) == 130
    record = tmp_path / "run" / JOB_FILE
    losses = [name for name in json.loads(record.read_text("utf-8"))["code"] if "." in name]
    losses.sort(key=lambda loss: not loss.endswith(".SoftmaxClassifier"))  # of the first stage
    real = run_folder._digest_of_code
    of_first_stage = losses[0].rpartition(".")[0]
    monkeypatch.setattr(OWN_LOSS, lambda module: "changed" if module == of_first_stage else real(module))
    before = weights_below(tmp_path / "run")
    with pytest.raises(UserError, match="code") as caught:
        run_job(tmp_path / "cut", tiny_backbone, *words)
    assert losses[0] in str(caught.value)
    assert 'remove "code" from job.json' in str(caught.value)
    assert weights_below(tmp_path / "run") == before
    described = json.loads(record.read_text("utf-8"))
    record.write_text(json.dumps({key: value for key, value in described.items() if key != "code"}), "utf-8")
    folder = run_job(tmp_path / "cut", tiny_backbone, *words)
    assert weights(folder) == weights(whole)
    assert json.loads(record.read_text("utf-8"))["code"][losses[0]] == "changed"
    monkeypatch.setattr(OWN_LOSS, real)
    capsys.readouterr()
    assert run_job(tmp_path / "cut", tiny_backbone, *words) == folder
    shown = capsys.readouterr()
    assert "already finished" in shown.out
    assert shown.err.startswith(f"warning: {losses[0]}")
    assert shown.err.endswith("the code has changed since\n")
    assert weights(folder) == weights(whole)


def weights_below(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*.safetensors"))}


def test_a_node_that_one_job_lacks_is_named_once():
    then, now = {"callbacks": {}}, {"callbacks": {"mining": {"name": "ance", "k": 1}}}
    assert list(differences(then, now)) == [("callbacks.mining", "null", "ance")]
    assert list(differences(then, then)) == []


def test_a_finished_run_is_shown_to_its_own_job_alone(tmp_path, tiny_backbone, capsys):
    words = ("resume=auto", "run_dir=" + str(tmp_path / "run"), "training.duration=2 steps")
    folder = run_job(tmp_path, tiny_backbone, *words)
    key = Result.read(folder).key
    assert json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))["key"] == key
    other = ("model=crossencoder", "loss=bce", "dataset=[demo_qmc]")
    for has_record in (True, False):  # earlier versions kept none
        if not has_record:
            (folder / JOB_FILE).unlink()
        assert "model=biencoder (now crossencoder)" in refused(folder, *other)
        with pytest.raises(UserError, match=f"init_from={folder}"):
            run_job(tmp_path, tiny_backbone, *words[:2], "training.duration=3 steps")
        run_job(tmp_path, tiny_backbone, *words, "hardware.threads=2")
        assert "already finished" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("stages", [(), (*CURRICULUM,)])
def test_an_interrupted_run_goes_on_with_its_own_job_alone(tmp_path, tiny_backbone, stages):
    words = (*stages, f"run_dir={tmp_path / 'run'}", "resume=auto")
    assert interrupt(tmp_path, tiny_backbone, 3, "SIGINT", *words) == 130
    with pytest.raises(UserError, match=r"evaluation.limit=null \(now 9\)"):
        run_job(tmp_path, tiny_backbone, *words, "evaluation.limit=9")
    folder = run_job(tmp_path, tiny_backbone, *words)
    run_job(tmp_path, tiny_backbone, *words[:-1], "seed=3")  # afresh
    assert (folder / "previous" / "1" / RESULT_FILE).exists()
    assert json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))["key"] == Result.read(folder).key
    assert Result.read(folder).seed == 3


def test_jobs_of_a_sweep_have_folders_of_their_own(tmp_path):
    jobs = [composed(tmp_path / "a" / "x", "seed=1"), composed(tmp_path / "b" / "x", "seed=2")]
    cells = [SweepCell(str(job.run_dir), ()) for job in jobs]
    _require_own_folders([cells[0], cells[0]], [jobs[0], jobs[0].copy()])
    with pytest.raises(UserError, match=r"run_dir=.*output_dir="):
        _require_own_folders(cells, jobs)
