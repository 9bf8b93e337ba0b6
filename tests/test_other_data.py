"""The same command over other data: a run is shown again, or gone on with, only if it was made from the same."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from forks import python
from jobs import compose_job
from refusals import rows
from test_broken_inputs import GOOD, OWN, Desk, says

from hydra_plugins.juzhen_sweeps.sweeper import ProcessLauncher, SlurmLauncher, require_data_of
from juzhen.core.errors import UserError
from juzhen.core.result import RESULT_FILE
from launch.console import show_finished
from launch.job import read_job
from launch.run_folder import RECORD_FILE, described_data, remember_data

PART = (*OWN, "evaluation.limit=2")  # of dev, which then has a fingerprint of its own
CHANGED = GOOD.replace("5.0", "2.0")


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_backbone):
    """A desk with one finished run; its data and its record are put back before each test."""
    root = tmp_path_factory.mktemp("made")
    desk = Desk(root, tiny_backbone, None)
    folder = Path(desk.run(*PART))
    return desk, folder, compose_job(*desk.words(*PART, "resume=auto"))


@pytest.fixture
def desk(made, capsys):
    desk, folder, desk.config = made
    desk.capsys = capsys
    kept = (folder / RECORD_FILE).read_text(encoding="utf-8")
    yield desk
    shutil.rmtree(desk.data_dir)
    for split in ("train", "dev"):
        desk.write(f"{split}.tsv", GOOD.encode())
    (folder / RECORD_FILE).write_text(kept, encoding="utf-8")


def again(desk, **changes):
    """What the same command with resume=auto does before torch: true where the run is shown again."""
    return show_finished(replace(read_job(desk.config), **changes))


@pytest.mark.slow
def test_a_finished_run_is_shown_again_and_says_so(desk):
    assert again(desk)
    assert "already finished (2" in (told := desk.capsys.readouterr().out)
    assert "Spearman ×100" in told


def test_a_finished_run_whose_weights_are_gone_says_what_is_missing(desk):
    encoder = record(desk).parent / "encoder"
    away = encoder.rename(desk.root / "away")
    assert again(desk)
    away.rename(encoder)
    told = desk.capsys.readouterr().err
    assert str(encoder) in told
    assert "resume=never" in told
    assert again(desk)
    assert str(encoder) not in desk.capsys.readouterr().err


def test_files_that_were_not_touched_are_not_opened(desk, monkeypatch):
    for path in desk.data_dir.rglob("*.tsv"):
        path.touch()
    monkeypatch.setattr("juzhen.data.source.load_examples", lambda *a, **b: pytest.fail("read again"))
    with pytest.raises(pytest.fail.Exception, match="read again"):
        again(desk)
    monkeypatch.undo()
    assert again(desk)
    monkeypatch.setattr("juzhen.data.source.load_examples", lambda *a, **b: pytest.fail("read again"))
    assert again(desk)


def test_equal_rows_in_another_place_are_the_same_data(desk):
    shutil.copytree(desk.data_dir, desk.root / "copy", dirs_exist_ok=True)
    assert again(desk, data_dir=str(desk.root / "copy"))


def test_other_weights_in_the_folder_of_the_backbone_are_another_start(desk, tiny_backbone, tmp_path):
    copy = shutil.copytree(tiny_backbone, tmp_path / "encoder")
    job = read_job(desk.config)
    job = replace(job, backbone=replace(job.backbone, path=str(copy), initialize="pretrained"))
    (weights := copy / "model.safetensors").write_bytes(b"weights")
    path = record(desk)
    then = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(then | described_data(job, [])), encoding="utf-8")
    os.utime(weights)
    assert show_finished(job)
    weights.write_bytes(b"WEIGHTS")
    with pytest.raises(UserError, match=r"backbone\.path has changed.*run_dir=….*resume=never"):
        show_finished(job)
    shutil.rmtree(copy)
    assert show_finished(job)


BROKEN = ("", "[]", '{"train/demo_sts": 7}', "\0", "[" * 9999)


def record(desk):
    (folder,) = (path.parent for path in desk.root.rglob(RECORD_FILE))
    return folder / RECORD_FILE


def over_other_rows(f, split="train", kept=True):
    if kept is False:  # a run of a version that kept no record
        record(f.desk).unlink()
    if isinstance(kept, str):  # a broken record is none
        record(f.desk).write_text(kept, encoding="utf-8")
        assert again(f.desk)
    f.desk.write(f"{split}.tsv", CHANGED.encode())
    again(f.desk)


def of_the_same_size_and_time(f):
    path = f.desk.data_dir / "demo_sts" / "train.tsv"
    before = path.stat()
    path.write_bytes(CHANGED.encode())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    again(f.desk)


def without_dev(f):
    (f.desk.data_dir / "demo_sts" / "dev.tsv").unlink()
    again(f.desk)


def cell_over_other_rows(f):
    require_data_of(f.desk.config, ProcessLauncher)
    f.desk.write("train.tsv", CHANGED.encode())
    require_data_of(f.desk.config, SlurmLauncher)


def cell_without_data(f):
    shutil.rmtree(f.desk.data_dir / "demo_sts")
    require_data_of(f.desk.config, SlurmLauncher)  # its nodes may have what this machine lacks
    require_data_of(f.desk.config, ProcessLauncher)


def goes_on_with(f, content, now=None):
    """A begun run whose record has this content, or none, goes on over rows that have a fingerprint."""
    (f.tmp_path / "checkpoints").mkdir()
    (f.tmp_path / "checkpoints" / "resume.ckpt").touch()
    if content is not None:
        (f.tmp_path / RECORD_FILE).write_text(content, encoding="utf-8")
    remember_data(f.tmp_path, now or {"train/a": {"fingerprint": "1"}})


RECORDED = '{"train/a": {"fingerprint": "1"}}'
LARGER = {"train/a": {"fingerprint": "1"}, "dev/a": {"fingerprint": "2"}}


def with_another_file_of_the_backbone(f):
    then = {"backbone.path": {"fingerprint": "1", "others": "2", "files": []}}
    goes_on_with(f, json.dumps(then), {"backbone.path": then["backbone.path"] | {"others": "3"}})


def goes_on(f, progress, now):
    remember_data(f.tmp_path, {"train/a": {"fingerprint": "1"}})
    (f.tmp_path / progress).parent.mkdir(parents=True, exist_ok=True)
    (f.tmp_path / progress).touch()
    found = {} if now is None else {"train/a": {"fingerprint": now}}
    remember_data(f.tmp_path, found)
    return found


REFUSED = {
    "rows": [
        *(
            (
                lambda f, split=split, kept=kept: over_other_rows(f, split, kept),
                f"runs/.*{split}/demo_sts has changed.*(?=.*run_dir=…)(?=.*resume=never)",
            )
            for split in ("train", "dev")
            for kept in (True, False)
        ),
        *((lambda f, text=text: over_other_rows(f, kept=text), "has changed") for text in BROKEN),
        (of_the_same_size_and_time, "has changed"),
        (
            lambda f: again(f.desk, data_dir=str(f.desk.root / "nowhere")),
            "(?=.*nowhere: no such folder)(?=.*cannot be read again).*juzhen table .*runs/",
        ),
        (without_dev, "dev/demo_sts.*cannot be read again: .*not found"),
    ],
    "a cell": [(cell_over_other_rows, "move its folder away"), (cell_without_data, "cannot be read again")],
    "a run that was begun": [
        (lambda f: goes_on(f, "checkpoints/resume.ckpt", "2"), "train/a has changed"),
        (lambda f: goes_on(f, "stages/0-a/result.json", "2"), "train/a has changed"),
        (lambda f: goes_on(f, "stages/1-b/checkpoints/best.ckpt", None), "train/a is not there any more"),
        *(
            (lambda f, content=content: goes_on_with(f, content), f"{RECORD_FILE}.*resume=never")
            for content in ("", "{}", "[]", RECORDED[:-3], None)
        ),
        (lambda f: goes_on_with(f, RECORDED, LARGER), "dev/a was not there"),
        (with_another_file_of_the_backbone, "backbone.path has changed"),
    ],
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED))
def test_other_rows_are_refused(f, call, words):
    with pytest.raises(UserError, match=words):
        call(f)


@pytest.mark.parametrize(("progress", "now"), [("checkpoints/resume.ckpt", "1"), ("train.log", "2")])
def test_what_was_begun_goes_on_over_the_same_rows(f, tmp_path, progress, now):
    found = goes_on(f, progress, now)
    assert json.loads((tmp_path / RECORD_FILE).read_text(encoding="utf-8")) == found


@pytest.mark.slow
def test_a_sweep_over_other_data_starts_nothing(desk, made):
    words = desk.words(*OWN, "seed=1,2", "hydra.launcher.jobs=1")
    for change, status in ((GOOD, 0), (GOOD, 0), (CHANGED, 2)):
        desk.write("train.tsv", change.encode())
        told = python("train.py", "-m", *words)
        assert told.returncode == status, told.stderr
    says(told.stderr, "error: ", "train/demo_sts has changed", "move its folder away")
    assert "finished in" not in told.stderr


@pytest.mark.slow
def test_an_interrupted_run_goes_on_only_over_the_same_rows(desk, made):
    words = (*OWN, "seed=7", "training.batch_size=3")  # as many as there are rows
    desk.write("train.tsv", GOOD.encode())
    folder = Path(desk.run(*words))
    (folder / RESULT_FILE).unlink()
    assert (folder / "checkpoints" / "best.ckpt").exists()
    desk.write("train.tsv", CHANGED.encode())
    says(desk.refuses(*words, "resume=auto"), str(folder), "train/demo_sts has changed", "resume=never")
    desk.write("train.tsv", GOOD.encode())
    assert (Path(desk.run(*words, "resume=auto")) / RESULT_FILE).exists()


@pytest.mark.slow
def test_a_run_that_learnt_nothing_yet_may_have_its_data_mended(desk, made):
    folder = Path(desk.run(*OWN, "seed=8"))
    (folder / RESULT_FILE).unlink()
    shutil.rmtree(folder / "checkpoints")
    desk.write("train.tsv", CHANGED.encode())
    desk.run(*OWN, "seed=8", "resume=auto")
    told = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
    assert told["train/demo_sts"]["files"][0]["bytes"] == len(CHANGED.encode())


@pytest.mark.slow
def test_a_program_shows_a_finished_run_again(desk, made):
    words = desk.words(*PART, "resume=auto")
    told = python("-c", "import train; train.main()", *words, check=True)
    assert "already finished" in told.stdout
