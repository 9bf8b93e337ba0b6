"""A run writes to a folder that it has made, below the folders it was given, and moves nothing that is not a run's."""

import getpass
import json
import os
import re
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
from forks import ROOT, in_a_fork, printed, python
from jobs import SMALL

from juzhen.advice.advise import advise
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable
from juzhen.core.machine import FOLDERS, caches_below
from juzhen.core.result import Result
from launch.job import read_job, stored_job
from launch.run_folder import MARKER, RunFolder, take_folder


def tree(folder: Path) -> dict[str, str]:
    """Every file, folder and link below, with what it holds."""
    return {
        path.relative_to(folder).as_posix(): os.readlink(path)
        if path.is_symlink()
        else path.read_text(errors="replace")
        if path.is_file()
        else ""
        for path in folder.rglob("*")
    }


def write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def a_result(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    Result("n", "k", [], {}, {}, {}, {}, {}, 1).write(folder)


REPOSITORY = ("train.py", "conf/train.yaml", ".git/HEAD", "thesis.txt")


@pytest.mark.parametrize(
    "names",
    [
        (MARKER, "notes.txt"),
        (".hydra/config.yaml", "train.log"),  # what Hydra makes before a run begins
        (MARKER, ".hydra/config.yaml", ".lock", "metrics/0/metrics.csv", "wandb/offline-run/x"),
        (MARKER, ".hydra/config.yaml", "checkpoints/resume.ckpt", "notes.txt"),
        (MARKER, ".hydra/config.yaml", "stages/0-a/result.json", "checkpoints/best.ckpt"),
    ],
)
def test_a_folder_that_a_run_has_made_is_taken_and_what_is_not_the_runs_stays(tmp_path, names):
    folder = write(tmp_path / "run", *names)
    with RunFolder(folder, resume="never"):
        pass
    assert (folder / MARKER).is_file()
    runs_own = [name for name in names if name.split("/")[0] in ("metrics", "wandb", "checkpoints", "stages")]
    assert all((folder / "previous" / "1" / name).is_file() for name in runs_own)
    assert "notes.txt" not in names or (folder / "notes.txt").read_text() == "notes.txt"


def test_a_new_folder_gets_its_mark_and_a_second_attempt_moves_the_first(tmp_path):
    folder = tmp_path / "elsewhere" / "run"
    for attempt in ("1", "2", "3"):
        with RunFolder(folder, resume="never"):
            write(folder, "result.json", f"checkpoints/{attempt}")
    assert (folder / MARKER).is_file()
    assert (folder / "previous" / "2" / "checkpoints" / "2").exists()
    assert not (folder / "previous" / "1" / MARKER).exists()


def test_what_a_kill_left_unfinished_goes_at_the_next_start(tmp_path):
    folder = write(
        tmp_path / "run", MARKER, f".encoder.{'1' * 16}.part/model.safetensors", "checkpoints/best.ckpt"
    )
    write(folder, f"stages/0-a/.encoder.{'0' * 16}.part/x", f"checkpoints/.resume.ckpt.{'0' * 16}.part")
    with RunFolder(folder, resume="auto"):
        pass
    assert not [name for name in tree(folder) if "part" in name]
    assert (folder / "checkpoints" / "best.ckpt").exists()


def refused_as_nobody(folder: Path) -> None:
    if os.getuid() == 0:  # who may write anywhere, unless that right was taken away
        with suppress(PermissionError):
            os.setuid(65534)
    with pytest.raises(PermissionError, match=str(folder / "run")):
        take_folder(folder / "run")


def test_a_folder_that_may_only_be_read_is_said():
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "locked"
        folder.mkdir(mode=0o555)
        assert in_a_fork(refused_as_nobody, folder) == 0
        assert not list(folder.iterdir())


def refused_before_work(folder: Path) -> None:
    if os.getuid() == 0:
        with suppress(PermissionError):
            os.setuid(65534)
    for call in (
        lambda: check_overwritable(folder / "rows.csv"),
        lambda: check_overwritable(folder / "a" / "b", are_folders=True),
        lambda: advise("missing.csv", out=folder),
        lambda: advise("missing.csv", out=folder / "a" / "b"),
    ):
        with pytest.raises(UserError, match=f"{folder}.*[Cc]hoose"):
            call()


def test_a_place_where_nothing_can_be_written_is_noticed_before_the_work():
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        (folder := Path(parent) / "locked").mkdir(mode=0o555)
        assert in_a_fork(refused_before_work, folder) == 0


def test_names_of_people_are_legal(job_with):
    for name in ("实验", "my run 2", "a+b-c_d.e", "<script>"):
        read_job(job_with(name=name))


def program(*words: str, cwd: Path) -> subprocess.CompletedProcess:
    return python(
        ROOT / "train.py", "model=lexical", "dataset=[]", "logger=csv", *words, cwd=cwd, timeout=120
    )


NO_PLACE = r"(file|/proc/x).*: .*. Choose (another|a|an existing) (place|path)"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run_dir=.", "no run of juzhen"),
        ("output_dir=file", NO_PLACE),
        ("output_dir=/proc/x -m", NO_PLACE),
        ("output_dir=file -m", NO_PLACE),
    ],
)
@pytest.mark.slow
def test_the_program_says_so_before_torch_where_it_cannot_write(tmp_path, words, told):
    write(tmp_path, "file", *REPOSITORY)
    before = tree(tmp_path)
    done = program(*words.split(), cwd=tmp_path)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("checking the sweep: ")]
    assert re.search(told, line)
    assert tree(tmp_path) == before


def test_a_marker_is_plain_text_that_says_what_it_is(tmp_path):
    take_folder(tmp_path / "run")
    assert "juzhen" in (tmp_path / "run" / MARKER).read_text()
    assert json.dumps(sorted(tree(tmp_path / "run"))) == json.dumps([MARKER, ".lock"])


def test_a_result_of_a_stranger_does_not_say_where_anything_is_written(job_with):
    today = read_job(job_with())
    result = asdict(today) | dict.fromkeys(("cache_dir", "run_dir", "output_dir"), "/of/a/stranger")
    job = stored_job(result | {"trial": "/of/a/stranger#1", "seed": 7}, today, own_hardware=True)
    assert job.seed == 7
    assert "stranger" not in str(asdict(job))


def test_libraries_keep_their_caches_below_ours(tmp_path, monkeypatch):
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MPLCONFIGDIR", "/of/the/user")
    caches_below(tmp_path)
    assert os.environ["MPLCONFIGDIR"] == "/of/the/user"
    assert os.environ["WANDB_CACHE_DIR"] == str(tmp_path / "wandb")
    assert not list(tmp_path.iterdir())  # they are made by those who need them


def test_libraries_have_a_folder_of_their_own_where_nothing_can_be_written(tmp_path, monkeypatch):
    """As in a container whose files are read-only: torch makes its folder when it is loaded."""
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    caches_below(tmp_path / "cache" / "more")
    for name in FOLDERS:
        assert not Path(os.environ[name]).is_relative_to(tmp_path)
        Path(os.environ[name]).mkdir(parents=True, exist_ok=True)


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["cache_dir=../cache", "cache_dir=null"])
def test_nothing_is_written_outside_output_dir_and_cache_dir(tmp_path, tiny_backbone, cache):
    """Training, scoring and a report, from a read-only folder, with a home and a temporary folder that are watched."""
    root = Path(__file__).resolve().parents[2]
    home, temporary, here = (tmp_path / name for name in ("home", "tmp", "here"))
    for folder in (home, temporary, here):
        folder.mkdir()
    here.chmod(0o555)
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\n今天\t明天\n", encoding="utf-8")
    told = {name: value for name, value in os.environ.items() if name not in {*FOLDERS, "XDG_CACHE_HOME"}}
    told |= {
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(root),
    }
    told["JUZHEN_CACHE"] = str(tmp_path / "cache")

    def start(*words: object) -> None:
        printed(*words, cwd=here, env=told)
        assert listing(home) == listing(here) == []
        # torch makes this empty folder when Lightning imports its compiler.
        assert {*listing(temporary)} <= {f"torchinductor_{getpass.getuser()}"}

    small = [word for word in SMALL if word != "logger=csv"]
    words = [
        *small,
        "logger.wandb=offline",
        "training.duration=2 steps",
        f"backbone.path={tiny_backbone}",
        cache,
    ]
    start(root / "train.py", *words, "output_dir=../runs", "evaluation.without_leaks=true")
    (run,) = (tmp_path / "runs").glob("demo_sts-*")
    assert (run / "wandb").is_dir()
    start("-m", "juzhen", "evaluate", run, "--again")
    start("-m", "juzhen", "score", run, "--file", tmp_path / "pairs.tsv")
    start("-m", "juzhen", "report", tmp_path / "runs")
    expected = {"home", "tmp", "here", "runs", "pairs.tsv", "pairs.scored.tsv", ".juzhen-files", "cache"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert not [name for name in listing(tmp_path / "runs") if name.endswith((".part", ".old"))]
