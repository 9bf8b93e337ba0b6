"""The arrows of ARCHITECTURE.md hold, and the door of the command line needs no torch."""

import ast
import subprocess
import sys

import pytest

MAY_IMPORT = {
    "schema": set(),
    "launch": {"schema"},
    "sweeps": {"schema"},
    "losses": {"schema"},
    "metrics": {"schema"},
    "encoders": {"schema"},
    "datamodules": {"schema"},
    "lightning_modules": {"schema", "datamodules", "encoders", "losses", "metrics"},
    "callbacks": {"schema", "datamodules", "encoders", "lightning_modules"},
    "analysis": {"schema", "datamodules", "encoders", "metrics"},
    "mining": {"schema", "datamodules", "encoders", "metrics"},
}
LAST_STEP = {
    "launch/curriculum.py",
    "launch/digests.py",
    "launch/stage_run.py",
    "launch/fill.py",
    "launch/judge.py",
    "launch/learnt.py",
    "launch/data_record.py",
    "launch/first_look.py",
}
"""Reached from train.py and launch/evaluate.py alone, once torch is welcome: they tie modules and callbacks together.
The record of data and the first look read rows, which needs no torch."""


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_arrows_go_one_way(project_root, package):
    files = sorted((project_root / package).rglob("*.py"))
    assert files, f"{package} has no files"
    for path in files:
        name = path.relative_to(project_root).as_posix()
        if name in LAST_STEP:
            continue
        foreign = set(imports(path)) & set(MAY_IMPORT) - {package}
        assert foreign <= MAY_IMPORT[package], f"{name} imports {sorted(foreign - MAY_IMPORT[package])}"


@pytest.mark.parametrize(
    "module",
    [
        "train",
        "schema",
        "launch.console",
        "launch.run_folder",
        "juzhen.cli.main",
        "launch.evaluate",
    ],
)
def test_the_door_does_not_load_torch(project_root, module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=project_root, check=False).returncode == 0


def test_no_top_level_name_shadows_a_library(project_root):
    for library in ("datasets", "evaluate", "tokenizers", "transformers", "torch", "wandb"):
        assert not (project_root / library).exists()
        assert not (project_root / f"{library}.py").exists()


def test_files_stay_small_enough_to_read(project_root):
    for package in MAY_IMPORT:
        for path in (project_root / package).rglob("*.py"):
            lines = path.read_text(encoding="utf-8").count("\n")
            assert lines <= 320 or "synthetic" in path.parts, (
                f"{path.relative_to(project_root)} has {lines} lines"
            )
