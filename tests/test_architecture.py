"""The arrows of ARCHITECTURE.md hold, and the door of the command line needs no torch."""

import re
from collections import Counter

import pytest
from forks import printed
from sources import FRAMEWORKS, imports

LIBRARY = {
    "core": set(),
    "models": {"core"},
    "data": {"core"},
    "losses": {"core"},
    "metrics": {"core"},
    "encoders": {"core", "data"},
    "adapters": {"core", "encoders"},
    "backends": {"core", "encoders"},
    "evaluation": {"core", "data", "encoders", "backends", "metrics", "families", "models"},
    "families": {"core", "data", "encoders", "backends", "metrics", "evaluation", "models"},
    "calibration": {"core", "data", "encoders", "backends", "metrics", "evaluation", "families"},
    "mining": {"core", "data", "encoders", "backends", "metrics", "families"},
    "identity": {"core", "encoders", "losses", "models"},
    "report": {"core", "data", "metrics", "models", "identity"},
    "distillation": {"core", "data", "encoders", "metrics", "models", "families", "mining"},
    "training": {"core", "data", "losses", "encoders", "evaluation"},
    "advice": {"core", "data", "encoders", "metrics", "evaluation", "training"},
    "merging": {"core", "data", "encoders", "evaluation", "families", "identity", "models", "report"},
    "index": {"core", "data", "encoders", "metrics"},
    "serving": {"core", "data", "encoders", "backends", "index"},
    "export": {"core", "data", "encoders", "backends", "metrics", "families"},
}
"""Room of the library → the rooms that it may import; identity.py, a file, stands between what a job is made of and
the rooms that read its results."""

LIBRARY["cli"] = LIBRARY.keys() - {"losses"}

SUITE = {
    "conf": set(),
    "datamodules": {"conf"},
    "lightning_modules": {"conf", "datamodules"},
    "callbacks": {"conf", "datamodules", "lightning_modules"},
    "sweeps": {"conf", "callbacks"},
    "launch": {"conf", "callbacks"},
}
"""Package of the suite → the others that it may import. Each may import the library, which imports none of them."""

LAST_STEP = {
    "launch/curriculum.py",
    "launch/stage_store.py",
    "launch/memory.py",
    "launch/run_folder.py",
    "launch/start_comparison.py",
}
"""Reached from train.py and launch/evaluate.py alone, once torch is welcome: they tie modules and callbacks together.
The record of data reads rows, which needs no torch."""


def foreign(folder, level, known, without=()):
    """File → those names of `known` that it imports, by part `level` of what it imports."""
    for path in sorted([*folder.rglob("*.py"), *folder.parent.glob(f"{folder.name}.py")]):
        named = path.relative_to(folder.parents[level]).as_posix()
        if named not in without:
            parts = [name.split(".") for name in imports(path)]
            yield (
                named,
                {one[level] for one in parts if len(one) > level and (level == 0 or one[0] == "juzhen")}
                & known,
            )


@pytest.mark.parametrize("room", LIBRARY)
def test_arrows_of_the_library_go_one_way(project_root, room):
    for name, found in foreign(project_root / "juzhen" / room, 1, set(LIBRARY) - {room}):
        assert found <= LIBRARY[room], f"{name} imports {sorted(found - LIBRARY[room])}"


def test_the_page_has_the_arrows_of_the_library(project_root):
    page = (project_root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (`.*`) \| (.*) \|$", page.partition("| room of `juzhen/`")[2].partition("\n\n")[0], re.M
    )
    written = {
        room: set(LIBRARY) & set(re.findall(r"`(\w+)`", others))
        for rooms, others in rows
        for room in re.findall(r"`(\w+)`", rooms)
    }
    assert written.pop("cli") == {"losses"}
    assert written == {room: others for room, others in LIBRARY.items() if room != "cli"}


def test_the_library_knows_neither_the_suite_nor_its_frameworks(project_root):
    suite = {
        *SUITE,
        "tools",
        "benchmarks",
        "hydra_plugins",
        "train",
        "lightning",
        *FRAMEWORKS,
    }
    for name, found in foreign(project_root / "juzhen", 0, suite):
        assert not found, f"{name} imports {sorted(found)}"


@pytest.mark.parametrize("package", SUITE)
def test_arrows_of_the_suite_go_one_way(project_root, package):
    for name, found in foreign(project_root / package, 0, set(SUITE) - {package}, without=LAST_STEP):
        assert found <= SUITE[package], f"{name} imports {sorted(found - SUITE[package])}"


@pytest.mark.slow
def test_the_door_and_sweeps_do_not_load_torch(project_root):
    """In one process: what none of several imports loads, none of them loads alone."""
    doors = ["train", "juzhen", "launch.console", "launch.run_folder", "juzhen.cli.main", "launch.evaluate"]
    doors += [f"sweeps.{path.stem}" for path in project_root.glob("sweeps/[a-z]*.py")]
    code = (
        "import importlib, sys\n"
        f"for door in {doors}:\n"
        "    importlib.import_module(door)\n"
        "    assert 'torch' not in sys.modules, door"
    )
    printed("-c", code)


PRIVATE = {
    "callbacks/lightning_internals.py": (
        r"(?:trainer|epoch_loop|fit_loop|logger)\._[a-z]|\"_wandb_init\"",
        4,
    ),
    "launch/hydra_internals.py": (r"hydra\._internal\b|\._get_root", 5),
}
"""File → what of a library's own it alone may use, and on how many lines it does."""


@pytest.mark.parametrize("place", PRIVATE)
def test_what_libraries_keep_to_themselves_is_used_in_one_place(project_root, place):
    pattern, lines = PRIVATE[place]
    found = Counter(
        path.relative_to(project_root).as_posix()
        for folder in ("juzhen", *SUITE, "hydra_plugins", "tools")
        for path in (project_root / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(pattern, line)
    )
    assert found == {place: lines}


def test_no_top_level_name_shadows_a_library(project_root):
    for library in ("datasets", "evaluate", "tokenizers", "transformers", "torch", "wandb"):
        assert not (project_root / library).exists()
        assert not (project_root / f"{library}.py").exists()


def test_files_stay_small_enough_to_read(project_root):
    for package in ("juzhen", *SUITE):
        for path in (project_root / package).rglob("*.py"):
            lines = path.read_text(encoding="utf-8").count("\n")
            assert lines <= 700, f"{path.relative_to(project_root)} has {lines} lines"
