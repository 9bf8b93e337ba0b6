"""The package as it is installed, far from the clone: a stranger's lines, the data inside, the verbs."""

import os
import shutil
import subprocess
import sys
import zipfile
from itertools import pairwise

import pytest
from forks import printed, python
from pages import blocks

from tools.archives import unpacked

pytestmark = pytest.mark.slow  # builds the wheel


@pytest.fixture(scope="module")
def installed(project_root, tmp_path_factory):
    """A function: what Python prints in an empty folder, where `juzhen` is the wheel's."""
    folder = tmp_path_factory.mktemp("stranger")
    source = folder / "source"  # a build leaves files beside its sources, and another process may build too
    for name in ("juzhen", "conf/dataset"):
        shutil.copytree(project_root / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(project_root / name, source)
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source]
    subprocess.run([sys.executable, "-m", *build], check=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    (folder / "desk").mkdir()

    def run(*words, how=printed):
        environment = os.environ | {"PYTHONPATH": str(folder / "site")}
        environment.pop(
            "COLUMNS", None
        )  # a process that runs tests sets it; a table is drawn for a terminal then
        return how(*words, cwd=folder / "desk", env=environment)

    return run


def test_the_lines_of_the_readme(installed):
    example, shown = next(pair for pair in pairwise(blocks("README.md")) if pair[0].language == "python")
    told = installed("-c", f"{example.body}\nimport juzhen; print('site' in juzhen.__file__)")
    assert told == f"{shown.body}True\n"


def test_sets_are_known_and_a_saved_encoder_is_scored(installed):
    code = (
        "from juzhen.evaluation import evaluate\n"
        "found = evaluate('builtin/mini_zh', ['demo_sts'])\n"
        "print(0 < found.scores['test/demo_sts/spearman'].value < 1)"
    )
    assert installed("-c", code) == "True\n"


def test_verbs(project_root, installed):
    assert (
        0 < float(installed("-m", "juzhen", "score", "builtin/mini_zh", "今天天气很好", "今天是个好天气")) < 1
    )
    assert "| csts |" in installed("-m", "juzhen", "table", str(unpacked() / "transfer" / "runs"))
    status = installed("-m", "juzhen", "status", ".", how=python)
    assert status.returncode == 2
    assert "clone" in status.stderr
    assert status.stderr.count("\n") == 1
