"""Nothing is replaced or removed that this program has not made, whatever verb, key or link leads to it."""

import ast
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from forks import ROOT
from test_places import a_result, tree, write

from callbacks import CHECKPOINTS, RESUME_FILE
from callbacks.mining import BackgroundMiner
from juzhen import SentenceEncoder
from juzhen.cli.main import main
from juzhen.core import file_guard
from juzhen.core.array_cache import ArrayCache
from juzhen.core.errors import UserError
from juzhen.core.file_guard import MARKER, claim_dir, mark_dir, require_apart
from juzhen.report.collect import export
from launch.run_folder import RunFolder
from launch.stage_store import StageStore
from sweeps.ledger import FOLDER, Ledger, SweepCell
from tools.archives import unpacked

PROJECT = ("config.json", "src/model.py", "thesis.txt")

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


@pytest.mark.parametrize(
    "what", ["project", "file", "link", "parent", "teacher", "inside", "run", "tokenizer"]
)
def test_a_student_takes_no_place_of_others(tmp_path, encoder_folder, what, capsys):
    teacher = shutil.copytree(encoder_folder, tmp_path / "run" / "encoder")
    project = write(tmp_path / "project", *PROJECT)
    write(tmp_path, "file")
    (tmp_path / "link").symlink_to(project)
    places = {
        "teacher": teacher,
        "inside": teacher / "student",
        "run": tmp_path / "run",
        "parent": tmp_path,
        "tokenizer": encoder_folder,
    }
    out = places.get(what, tmp_path / what)
    before, others = tree(tmp_path), tree(Path(encoder_folder))
    words = ["shrink", str(teacher), str(out), "--layers", "1", "--tokenizer", str(encoder_folder)]
    assert main(words) == 2
    assert str(out) in capsys.readouterr().err
    assert (tree(tmp_path), tree(Path(encoder_folder))) == (before, others)


def test_a_student_takes_its_own_place_and_not_that_of_its_teacher(tmp_path, encoder_folder, capsys):
    student = tmp_path / "student"
    for length in ("10", "12"):
        words = ["shrink", str(encoder_folder), str(student), "--layers", "1", "--max-length", length]
        assert main(words) == 0
    assert SentenceEncoder.load(student).max_length == 12
    before = tree(tmp_path)
    assert main(["shrink", str(student), str(student), "--layers", "1"]) == 2
    assert "is read, and would be written over" in capsys.readouterr().err
    assert tree(tmp_path) == before


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


def test_no_student_takes_the_place_of_a_runs_encoder_and_no_file_of_an_encoder_is_an_output(
    tmp_path, encoder_folder, capsys
):
    run, texts = tmp_path / "run", tmp_path / "texts.txt"
    claim_dir(run)
    texts.write_text("天气\n", encoding="utf-8")
    words = ["shrink", str(encoder_folder), str(tmp_path / "free"), "--layers", "1"]
    assert main(words) == 0
    (tmp_path / "free").rename(run / "encoder")
    before = tree(run)
    assert main([*words[:2], str(run / "encoder"), *words[3:]]) == 2
    output = ["--output", str(run / "encoder" / "config.json")]
    assert main(["encode", str(encoder_folder), str(texts), *output]) == 2
    assert tree(run) == before
    told = capsys.readouterr().err
    assert "the folder of a run" in told
    assert "written as a whole" in told


def test_places_apart(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    require_apart(tmp_path / "b", tmp_path / "a", tmp_path / "a.tsv")
    for out in ("a", "a/b", "link", "link/b", "."):
        with pytest.raises(UserError, match="is read, and would be written over"):
            require_apart(tmp_path / out, tmp_path / "a")


OUTPUTS = {
    "score": ("score", "{encoder}", "--file", "{pairs}", "--output", "{out}.tsv"),
    "score beside": ("score", "{encoder}", "--file", "{pairs}"),
    "encode": ("encode", "{encoder}", "{lines}", "--output", "{out}.npy"),
    "encode beside": ("encode", "{encoder}", "{lines}"),
    "export": ("export", "{encoder}", "{out}.onnx"),
    "space": ("space", "{encoder}", "--json", "{out}.json"),
    "transfer": ("transfer", "{encoder}", "demo_topics", "--output", "{out}.json"),
    "table": ("table", "{runs}", "--markdown", "{out}.md"),
    "csv": ("table", "{runs}", "--csv", "{out}.csv"),
    "picture": ("table", "{runs}", "--picture", "{out}.svg"),
    "report": ("report", "{runs}", "--out", "{there}"),
    "leaks": ("leaks", "--train", "demo_sts", "--evaluate", "demo_sts", "--output", "{there}"),
    "mine": ("mine", "demo_qmc", "bm25", "--out", "{out}.tsv"),
    "distill": ("distill", "{encoder}", "demo_qmc", "--out", "{out}.tsv"),
}
OF_OTHERS = {
    "of_tests.tsv",
    "of_tests.npy",
    "of_tests.onnx",
    "of_tests.json",
    "of_tests.md",
    "of_tests.csv",
    "of_tests.svg",
    "index.html",
    "matrix.png",
    "pairs.json",
    "pairs.md",
    "pairs.scored.tsv",
    "lines.npy",
}


@pytest.mark.parametrize("verb", OUTPUTS)
@pytest.mark.sampled(2)
def test_no_verb_replaces_a_file_of_the_user(tmp_path, encoder_folder, verb, capsys):
    there = write(tmp_path / "there", *OF_OTHERS)
    (there / "pairs.tsv").write_text("sentence1\tsentence2\n今天\t明天\n", encoding="utf-8")
    (there / "lines.txt").write_text("今天\n", encoding="utf-8")
    runs = some_run(tmp_path / "runs")
    facts = {"encoder": encoder_folder, "out": there / "of_tests", "runs": runs, "there": there}
    facts |= {"pairs": there / "pairs.tsv", "lines": there / "lines.txt"}
    before = tree(tmp_path)
    assert main([word.format(**facts) for word in OUTPUTS[verb]]) == 2
    told = capsys.readouterr().err
    assert "not written by juzhen" in told
    assert str(there) in told
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "place",
    [
        "of_tests_hard.parquet",
        "conf/dataset/of_tests_hard.yaml",
        "of_tests_hard.shards/mine.parquet",
        "of_tests_hard.shards/000000.parquet",
    ],
)
def test_nothing_beside_a_mined_table_is_replaced_or_removed(tmp_path, place, capsys):
    write(tmp_path, place)
    before = tree(tmp_path)
    assert (
        main(["mine", "demo_qmc", "bm25", "--out", str(tmp_path / "of_tests_hard.tsv"), "--limit", "50"]) == 2
    )
    assert "Nothing was changed" in capsys.readouterr().err
    assert tree(tmp_path) == before


def test_portions_that_are_a_link_are_refused_and_what_is_added_to_them_stays(tmp_path, capsys):
    precious = write(tmp_path / "precious", "mining.json", "000000.parquet")
    portions = tmp_path / "of_tests_hard.shards"
    portions.symlink_to(precious)
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
    assert main(words) == 2
    assert "is a link" in capsys.readouterr().err
    assert sorted(tree(precious)) == ["000000.parquet", "mining.json"]
    portions.unlink()
    claim_dir(portions)
    write(portions, "notes.txt")
    for _ in range(2):  # the same command takes the place of its own
        assert main(words) == 0
        assert sorted(tree(portions)) == [MARKER, "notes.txt"]
    (portions / "notes.txt").unlink()
    assert main(words) == 0
    assert not portions.exists()


def test_a_set_is_not_mined_over_the_table_it_is_read_from(tmp_path, capsys):
    table = tmp_path / "of_tests_hard.tsv"
    small = ["bm25", "--limit", "60", "--range-max", "9", "--num-negatives", "2", "--out", str(table)]
    assert main(["mine", "demo_qmc", *small]) == 0
    before = tree(tmp_path)
    words = [
        "distill",
        "builtin/mini_zh",
        "of_tests_hard",
        "--config-dir",
        str(tmp_path / "conf"),
        "--out",
        str(table),
    ]
    assert main(words) == 2
    assert "is read, and would be written over" in capsys.readouterr().err
    assert tree(tmp_path) == before


@pytest.mark.parametrize("linked", ["subfolder", "cache"])
def test_a_cache_that_is_a_link_is_not_used(tmp_path, linked):
    name = f"{'0' * 32}.safetensors"
    precious = write(tmp_path / "precious", name, "mine.npy", "digest/mine.npy", f"digest/{name}")
    folder = tmp_path / "cache"
    if linked == "subfolder":
        claim_dir(folder)
        (folder / "digest").symlink_to(precious)
    else:
        folder.symlink_to(precious)
    before = tree(tmp_path)
    cache = ArrayCache(folder, holds="numbers", max_bytes=0)
    assert cache.keys("digest") == []
    with pytest.warns(UserWarning, match="cannot be kept here"):
        assert cache.write(f"digest/{'1' * 32}", {"a": np.arange(2)}) is None
    assert tree(tmp_path) == before


def test_a_cache_leaves_what_is_not_its_own(tmp_path):
    name, old = f"{'0' * 32}.safetensors", f"{'1' * 32}.safetensors"
    ours = write(tmp_path / "ours", "mine.safetensors", name, old)
    others = write(tmp_path / "others", name)
    mark_dir(ours)
    os.utime(ours / old, (0, 0))
    cache = ArrayCache(ours, holds="numbers", max_bytes=0)
    for place in (cache, ArrayCache(others, holds="numbers", max_bytes=0)):
        with pytest.warns(UserWarning, match="cannot be used"):
            assert place.read("0" * 32) is None
    cache.write("2" * 32, {"a": np.arange(2)})
    assert sorted(tree(ours)) == [MARKER, f"{'2' * 32}.safetensors", "mine.safetensors"]
    assert sorted(tree(others)) == [name], "the folder is not known to be ours"


LINKS = {
    "checkpoints": True,
    "checkpoints/resume.ckpt": True,
    "stages": True,
    "stages/0-a": True,
    "stages/0-a/checkpoints": True,
    "stages/0-a/health.jsonl": True,
    "result.json": True,
    "metrics/0": True,
    ".hydra/config.yaml": True,
    ".lock": True,
    "encoder": False,
    "stages/0-a/encoder": False,
}
"""Place below a run → whether a finished run that has a link there is refused when something is only added to it."""


@pytest.mark.parametrize("fills", [False, True], ids=["continued", "evaluated"])
@pytest.mark.parametrize("place", LINKS)
def test_no_link_in_the_run_of_a_stranger_is_followed(tmp_path, place, fills):
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
    before = tree(other)
    try:
        with RunFolder(run, resume="auto", fills=fills):
            assert not LINKS[place]
            assert fills or place != "encoder"
    except UserError as error:
        assert f"{place}: is a link" in str(error)  # noqa: PT017
        assert LINKS[place] or not fills
    assert tree(other) == before


@pytest.mark.parametrize(
    "place", ["", "checkpoints", "checkpoints/resume.ckpt", "owner", "encoder", "mining"]
)
def test_no_link_in_a_store_is_followed(tmp_path, place):
    other = write(tmp_path / "other", "resume.ckpt", "stage.json", "found.npz", "checkpoints/resume.ckpt")
    path = tmp_path / "store" / ("0" * 16) / place
    path.parent.mkdir(parents=True)
    if place:
        mark_dir(tmp_path / "store" / ("0" * 16))
    path.symlink_to(other if "." not in place else other / "resume.ckpt")
    before = tree(other)
    with (
        pytest.raises(UserError, match="is a link"),
        StageStore(tmp_path / "store").entry("0" * 64, tmp_path / "stage", name="a", is_helper=False),
    ):
        pass
    assert tree(other) == before


def test_an_entry_that_holds_other_things_is_refused_and_a_new_one_is_marked(tmp_path):
    store, how = StageStore(tmp_path), {"name": "a", "is_helper": False}
    write(tmp_path / ("0" * 16), "thesis.txt")
    with pytest.raises(UserError, match=r"holds thesis\.txt"), store.entry("0" * 64, tmp_path / "a", **how):
        pass
    with store.entry("1" * 64, tmp_path / "a", **how) as entry:
        assert (entry.path / MARKER).is_file()


def test_only_what_was_mined_beside_goes(tmp_path):
    folder = write(tmp_path / "mining", "found.npz", "encoder/config.json", MARKER, "notes.txt")
    BackgroundMiner(folder).clear()
    assert sorted(tree(folder)) == [MARKER, "notes.txt"]


@pytest.mark.parametrize("place", [FOLDER, f"{FOLDER}/events.jsonl", f"{FOLDER}/claims", f"{FOLDER}/logs"])
def test_no_link_in_the_ledger_of_a_stranger_is_followed(tmp_path, place):
    other = write(tmp_path / "other", "events.jsonl", "a.log")
    path = tmp_path / "runs" / place
    path.parent.mkdir(parents=True)
    path.symlink_to(other / "events.jsonl" if path.suffix == ".jsonl" else other)
    before = tree(other)
    with pytest.raises(UserError, match="is a link"):
        Ledger(tmp_path / "runs").plan([SweepCell(str(tmp_path / "runs" / "a"), ("seed=1",))])
    assert tree(other) == before


def test_a_copy_of_results_replaces_copies_and_no_runs(tmp_path):
    runs, copies, others = (tmp_path / name for name in ("runs", "copies", "others"))
    for folder in (runs, others):
        some_run(folder)
    write(others / "a", ".hydra/config.yaml", "train.log")
    for _ in range(2):
        assert export(runs, copies, report=print) == 1
    before = tree(others)
    with pytest.raises(UserError, match="not an archive"):
        export(runs, others, report=print)
    assert tree(others) == before


NAMES = (
    "pytorch_model.bin",
    "../model.safetensors",
    "/etc/model.safetensors",
    "a/model.safetensors",
    "gone.safetensors",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_list_of_weights_names_safetensors_of_its_own_folder(tmp_path, encoder_folder, name):
    folder = shutil.copytree(encoder_folder, tmp_path / "encoder")
    shutil.copy(folder / "model.safetensors", tmp_path)
    (folder / "a").mkdir()
    shutil.copy(folder / "model.safetensors", folder / "a")
    tensors = dict(SentenceEncoder.load(folder).backbone.state_dict())
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")

    def names(name):
        index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, name)}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    names("model-00001-of-00001.safetensors")
    SentenceEncoder.load(folder)
    names(name)
    with pytest.raises(UserError, match=r"index\.json: names .*of the same folder"):
        SentenceEncoder.load(folder)


def test_an_adapter_whose_base_is_elsewhere_is_refused(tmp_path, encoder_folder):
    folder = shutil.copytree(encoder_folder, tmp_path / "encoder")
    (folder / "adapter_config.json").write_text(
        '{"base_model_name_or_path": "../other", "peft_type": "LORA"}'
    )
    with pytest.raises(UserError, match=r"adapter.*\.\./other"):
        SentenceEncoder.load(folder)
