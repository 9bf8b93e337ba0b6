"""Nothing is replaced or removed that this program has not made, whatever verb, key or link leads to it."""

import ast
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from forks import ROOT
from test_places import a_result, tree, write

from callbacks import CHECKPOINTS, RESUME_FILE
from callbacks.mining import BackgroundMiner
from juzhen import SentenceEncoder
from juzhen.cli.main import main
from juzhen.core import file_guard
from juzhen.core.array_cache import ArrayCache
from juzhen.core.file_guard import MARKER, claim_dir, mark_dir, require_apart
from juzhen.report.collect import export
from launch.run_folder import RunFolder
from launch.stage_store import StageStore
from tools.archives import unpacked

OWNER = "juzhen/core/atomic_write.py"
EXCEPTIONS = {
    "callbacks/trial.py": {"open", "truncate"},  # the last line of a journal that a kill has torn
    "tools/decide_page.py": {"rename", "replace"},  # of pandas
    "juzhen/core/machine.py": {"write_text"},  # a switch of the kernel below /proc
    "sweeps/node.py": {"open", "replace"},  # travels to nodes by value, without this project
}
BY_NAME = {
    *(
        "rmtree",
        "unlink",
        "rmdir",
        "removedirs",
        "rename",
        "renames",
        "truncate",
        "symlink_to",
        "hardlink_to",
    ),
    *("copyfile", "copy2", "copytree", "copymode", "write_bytes"),
}
BY_MODULE = {"os": {"remove", "replace", "link", "symlink"}, "shutil": {"move", "copy"}}


def changes_files(call: ast.Call) -> str | None:
    """The name of a call that may replace or remove something."""
    function, words = call.func, [*call.args, *(one.value for one in call.keywords)]
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    is_method = isinstance(function, ast.Attribute)
    module = function.value.id if is_method and isinstance(function.value, ast.Name) else ""
    modes = [one.value for one in words if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    writes = name == "open" and any({*one} <= {*"rwbt+"} and {*one} & {*"w+"} for one in modes)
    found = (
        name in BY_NAME
        or name in BY_MODULE.get(module, ())
        or (is_method and name == "write_text")
        or (is_method and name == "replace" and len(call.args) == 1 and not call.keywords)
        or writes
    )
    return name if found else None


def test_one_file_alone_replaces_and_removes():
    files = subprocess.check_output(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, text=True
    )
    places: dict[str, set[str]] = {}
    for name in files.split():
        if name.startswith(("tests/", "examples/")) or not (ROOT / name).is_file():
            continue
        calls = [one for one in ast.walk(ast.parse((ROOT / name).read_text())) if isinstance(one, ast.Call)]
        if found := {word for call in calls if (word := changes_files(call))}:
            places[name] = found
    assert places.pop(OWNER) >= {"rmtree", "unlink", "rmdir", "replace", "rename"}
    assert places == EXCEPTIONS


def some_run(folder: Path) -> Path:
    """A folder with a run that has a result."""
    (folder / "a").mkdir(parents=True)
    shutil.copy(next((unpacked() / "transfer").rglob("result.json")), folder / "a")
    return folder


def test_a_student_takes_its_own_place(tmp_path, encoder_folder):
    student = tmp_path / "student"
    for length in ("10", "12"):
        words = ["shrink", str(encoder_folder), str(student), "--layers", "1", "--max-length", length]
        assert main(words) == 0
    assert SentenceEncoder.load(student).max_length == 12


def test_a_folder_that_another_process_makes_ours_meanwhile_is_ours(tmp_path, monkeypatch):
    folder, look = tmp_path / "cache", file_guard._is_marked
    folder.mkdir()

    def marked_after_the_first_look(path):
        was_marked = look(path)
        (path / MARKER).touch()
        (path / "entry").touch()
        return was_marked

    monkeypatch.setattr(file_guard, "_is_marked", marked_after_the_first_look)
    claim_dir(folder)


def test_places_apart(tmp_path):
    require_apart(tmp_path / "b", tmp_path / "a", tmp_path / "a.tsv")


def test_what_is_added_to_portions_stays(tmp_path):
    portions = tmp_path / "of_tests_hard.shards"
    words = [
        "mine",
        "demo_qmc",
        "bm25",
        "--out",
        str(tmp_path / "of_tests_hard.tsv"),
        "--limit",
        "60",
        "--range-max",
        "9",
    ]
    words += ["--num-negatives", "2"]
    claim_dir(portions)
    write(portions, "notes.txt")
    for _ in range(2):  # the same command takes the place of its own
        assert main(words) == 0
        assert sorted(tree(portions)) == [MARKER, "notes.txt"]
    (portions / "notes.txt").unlink()
    assert main(words) == 0
    assert not portions.exists()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_cache_leaves_what_is_not_its_own(tmp_path):
    name, old = f"{'0' * 32}.safetensors", f"{'1' * 32}.safetensors"
    ours = write(tmp_path / "ours", "mine.safetensors", name, old)
    others = write(tmp_path / "others", name)
    mark_dir(ours)
    os.utime(ours / old, (0, 0))
    cache = ArrayCache(ours, holds="numbers", max_bytes=0)
    for place in (cache, ArrayCache(others, holds="numbers", max_bytes=0)):
        assert place.read("0" * 32) is None
    cache.write("2" * 32, {"a": np.arange(2)})
    assert sorted(tree(ours)) == [MARKER, f"{'2' * 32}.safetensors", "mine.safetensors"]
    assert sorted(tree(others)) == [name], "the folder is not known to be ours"


def run_with_a_link(tmp_path, place):
    """The run of a stranger that has a link there, and the folder that it leads to."""
    other = write(tmp_path / "other", "resume.ckpt", "best.ckpt", "checkpoints/resume.ckpt", "health.jsonl")
    a_result(other)
    mark_dir(other)
    run = write(tmp_path / "run", MARKER, ".hydra/overrides.yaml", "metrics/1/metrics.csv")
    a_result(run)
    write(run / CHECKPOINTS, "best.ckpt", RESUME_FILE)
    write(run / "stages" / "0-a" / CHECKPOINTS, RESUME_FILE)
    a_result(run / "stages" / "0-a")
    path = run / place
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(other if path.suffix == "" and path.name != ".lock" else other / "resume.ckpt")
    return run, other


@pytest.mark.parametrize("place", ["encoder", "stages/0-a/encoder"])
def test_a_run_that_is_evaluated_may_have_a_link_to_its_encoder(tmp_path, place):
    run, other = run_with_a_link(tmp_path, place)
    before = tree(other)
    with RunFolder(run, resume="auto", fills=True):
        pass
    assert tree(other) == before


def test_a_new_entry_of_a_store_is_marked(tmp_path):
    with StageStore(tmp_path).entry("1" * 64, tmp_path / "a", name="a", is_helper=False) as entry:
        assert (entry.path / MARKER).is_file()


def test_only_what_was_mined_beside_goes(tmp_path):
    folder = write(tmp_path / "mining", "found.npz", "encoder/config.json", MARKER, "notes.txt")
    BackgroundMiner(folder).clear()
    assert sorted(tree(folder)) == [MARKER, "notes.txt"]


def test_a_copy_of_results_replaces_copies(tmp_path):
    runs = some_run(tmp_path / "runs")
    for _ in range(2):
        assert export(runs, tmp_path / "copies", report=print) == 1
