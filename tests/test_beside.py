"""`from juzhen import …` from anywhere, also from the folder that holds the clone, which is called juzhen too."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from forks import ROOT, printed

IMPORT = """
import juzhen
from importlib.util import find_spec
from juzhen.core import paths
assert "SentenceEncoder" in dir(juzhen)
print(juzhen.__file__, paths.__file__, find_spec("juzhen.encoders").origin, sep="\\n")
"""
"""Where a name is imported from; the names themselves would load torch."""


@pytest.fixture
def parent(tmp_path):
    """A folder that holds the project as `juzhen`, as `git clone` leaves it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "juzhen").symlink_to(ROOT)
    return tmp_path / "work"


@pytest.mark.parametrize("place", ["parent", "clone", "home"])
def test_the_package_wins_over_the_folder_of_its_name(parent, tmp_path, place):
    """PYTHONPATH stands where the line of a .pth file stands: behind the current folder."""
    cwd = {"parent": parent, "clone": parent / "juzhen", "home": tmp_path}[place]
    told = printed("-c", IMPORT, cwd=cwd, env=os.environ | {"PYTHONPATH": str(parent / "juzhen")})
    files = ("__init__.py", "core/paths.py", "encoders/__init__.py")
    for shown, file in zip(told.splitlines(), files, strict=True):
        assert Path(shown).samefile(ROOT / "juzhen" / file)


def test_an_editable_installation_is_a_line_in_a_pth_file():
    """What setuptools needs for that: packages where their names say, under one root."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert tool["package-dir"] == {"": "."}
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "juzhen").rglob("__init__.py")}
    assert {*tool["packages"]} == {".".join(folder.parts) for folder in folders} | {
        "juzhen.data.descriptions"
    }
    assert (ROOT / "juzhen" / "data" / "descriptions").samefile(ROOT / "conf" / "dataset")


@pytest.mark.slow  # installs
def test_a_fresh_editable_installation(tmp_path):
    clone = tmp_path / "work" / "juzhen"
    clone.parent.mkdir()
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", venv], check=True)
    install = [venv / "bin" / "pip", "install", "--quiet", "--no-deps", "--editable", clone]
    subprocess.run(install, check=True, capture_output=True)
    code = "import juzhen; print(juzhen.__file__)"
    for cwd in (clone.parent, clone, tmp_path):
        told = subprocess.check_output([venv / "bin" / "python", "-c", code], cwd=cwd, text=True)
        assert Path(told.strip()) == clone / "juzhen" / "__init__.py"
