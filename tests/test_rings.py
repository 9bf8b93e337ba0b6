"""The inner ring imports no outer room, and an outer room at most one other: by imports, and by names as strings."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase

import pytest
from forks import ROOT
from sources import import_statements
from test_import_circles import module_name

PACKAGES = (
    "callbacks",
    "conf",
    "datamodules",
    "hydra_plugins",
    "juzhen",
    "launch",
    "lightning_modules",
    "sweeps",
    "tools",
)

INNER = "inner"


def rooms(root):
    return tomllib.loads((root / "juzhen" / "rooms.toml").read_text(encoding="utf-8"))


def room_of(module, table):
    for room, about in table.items():
        for pattern in about["modules"]:
            if fnmatchcase(module, pattern) or fnmatchcase(module, f"{pattern}.*"):
                return room
    return INNER


def strings(path):
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value
    }


def named_as_string(path, modules):
    """Modules that a file names in strings: by their whole name, with a class behind it, or below juzhen."""
    for text in strings(path):
        before, _, last = text.replace(":", ".").rpartition(".")
        names = (
            text if text.startswith("juzhen.") else "",
            before if last[:1].isupper() else "",
            f"juzhen.{text}",
        )
        yield from (name for name in names if name in modules)


@pytest.fixture(scope="module")
def house(project_root):
    """The table of rooms, and each module of the product with the modules that it names."""
    table = rooms(project_root)
    paths = [*project_root.glob("*.py")]
    paths += [path for package in PACKAGES for path in (project_root / package).rglob("*.py")]
    modules = {module_name(path, project_root): path for path in paths}
    needs = {
        name: {part for statement in import_statements(path) for part in statement if part in modules}
        | {*named_as_string(path, modules)}
        for name, path in modules.items()
    }
    return table, needs


def arrows(house, start):
    """Arrows from a ring or room to other outer rooms: (module, outer room)."""
    table, needs = house
    return {
        (name, room)
        for name, others in needs.items()
        if room_of(name, table) == start
        for room in {room_of(other, table) for other in others} - {start, INNER}
    }


def test_every_room_has_modules(house):
    table, needs = house
    for room, about in table.items():
        for pattern in about["modules"]:
            assert any(fnmatchcase(name, pattern) for name in needs), f"{room}: {pattern} names no module"


def test_the_inner_ring_imports_no_outer_room(house):
    assert sorted(arrows(house, INNER)) == []


def test_an_outer_room_imports_one_other_at_most(house):
    table = house[0]
    assert [
        (name, room)
        for start, about in table.items()
        for name, room in arrows(house, start)
        if start != "tools" and room != about.get("room")
    ] == []


def test_the_door_offers_what_type_checkers_see(project_root):
    import juzhen

    stub = import_statements(project_root / "juzhen" / "__init__.pyi")
    assert sorted(part.rpartition(".")[2] for _, *parts in stub for part in parts) == juzhen.__all__


def test_what_a_missing_room_offers_is_not_offered(monkeypatch, tmp_path):
    from juzhen.core import lazy_names

    table = '[kept]\nnames.kept = "kept:run"\n[gone]\nnames.gone = "gone.part:run"\n'
    (tmp_path / "rooms.toml").write_text(table, encoding="utf-8")
    (tmp_path / "kept.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(lazy_names, "ROOT", tmp_path)
    monkeypatch.setattr(lazy_names, "PACKAGE", tmp_path)
    assert lazy_names.offers.__wrapped__("names") == {"kept": "kept:run"}


INNER_TESTS = (
    *(
        f"tests/{name}"
        for name in ("losses", "metrics", "data", "datamodules", "callbacks", "evaluation", "golden")
    ),
    *(f"tests/{name}" for name in ("launch", "lightning_modules", "sweeps", "encoders")),
    "tests/test_walk.py",
    "tests/test_batch.py",
    "tests/test_answer.py",
    "tests/test_jobs.py",
    "tests/test_evaluate.py",
)
"""Of training and its result: they run where an outer room is missing."""

NOT_INNER = (
    # Of all verbs, names and results at once.
    "tests/encoders/test_library.py::test_import_is_quick_and_loads_no_torch",
    "tests/launch/test_identity.py::test_keys_and_rows_of_committed_results_are_as_recorded",
    "tests/lightning_modules/test_loss_numbers.py",
    "tests/launch/test_odd_words.py",  # data= is a word of an outer room
)

LEFT_OUT = (".git", ".venv", ".cache", "build", "site", "runs", "cache", "*.pyc", "__pycache__", ".*_cache")


def leaning_on(room, table):
    """The room, and the rooms that import it."""
    gone = {room}
    while more := {name for name, about in table.items() if about.get("room") in gone} - gone:
        gone |= more
    return gone


def delete_rooms(copy, gone):
    """Delete rooms with their configuration and tests. Return what failures of tests of them name."""
    table = rooms(copy)
    deleted = {}
    for package in PACKAGES:
        for path in (copy / package).rglob("*.py"):
            name = module_name(path, copy)
            if room_of(name, table) in gone:
                deleted[name] = path
    traces = ["lacks the part that has it", *deleted]
    for path in (copy / "conf").rglob("*.yaml"):
        found = re.search(r"^_target_: ([\w.]+)\.\w+$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if found and found[1] in deleted:
            traces += [f"{path.parent.name}/{path.stem}", f"{path.parent.name}={path.stem}"]
            path.unlink()
    for path in (copy / "tests").rglob("test_*.py"):
        if any(name in deleted for statement in import_statements(path) for name in statement):
            path.unlink()
            traces.append(f"No module named '{path.stem}'")
    for path in deleted.values():
        path.unlink()
        if not any(path.parent.rglob("*.py")):
            shutil.rmtree(path.parent)
    names = [name for room in gone for name in table[room].get("names", {})]
    traces += [name for room in gone for name in table[room].get("report_files", {})]
    traces += [f"cannot import name '{name}' from 'juzhen'" for name in names]
    return traces + [f"{name.rpartition('.')[2]}: unknown command" for name in deleted if ".cli." in name]


@pytest.mark.slow
@pytest.mark.parametrize("room", [*(room for room in rooms(ROOT) if room != "tools"), "all of them"])
def test_a_room_can_be_deleted(room, tmp_path):
    """In a copy without the room the tests of the inner ring pass, but for those that ask for the room by name."""
    copy = tmp_path / "juzhen-copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    table = rooms(copy)
    everything = room == "all of them"
    traces = delete_rooms(copy, set(table) - {"tools"} if everything else leaning_on(room, table))
    (copy / "traces.json").write_text(json.dumps(traces), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "missing_rooms",
        "-rsf",
        *INNER_TESTS,
    ]
    command += [word for name in NOT_INNER for word in ("--deselect", name)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(copy / "tests")])}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout[-200:])
    assert passed
    assert int(passed[1]) > 3000
    skipped = re.findall(r"SKIPPED \[(\d+)\] .*uses a missing room", done.stdout)
    assert sum(map(int, skipped)) < 120
