"""--version and --info speak of juzhen and this machine, at once; completion is asked for in one way."""

import sys
from importlib.metadata import version

import pytest
from forks import printed

import train
from juzhen.cli.main import main
from juzhen.cli.program import info_lines, status_of, tell_about
from launch.overrides import parse_flags

PROGRAM = """
import sys, train
from juzhen.cli.program import run_program
status = run_program(train.main)
heavy = {"torch", "hydra", "numpy", "rich"} & set(sys.modules)
assert not heavy, heavy
sys.exit(status)
"""


@pytest.mark.parametrize("word", ["--version", "--info", "-i"])
def test_train_tells_of_juzhen_and_loads_nothing_for_it(word):
    told = printed("-c", PROGRAM, word, silent=True)
    assert told.startswith(f"juzhen {version('juzhen-embeddings')}")
    assert version("torch") in told
    assert "Hydra" not in told


def test_info_names_machine_device_and_folders(monkeypatch, project_root):
    monkeypatch.setenv("JUZHEN_DATA", "/somewhere/data")
    monkeypatch.delenv("JUZHEN_CACHE", raising=False)
    text = "\n".join(info_lines(project_root / "conf"))
    for part in (
        sys.version.split()[0],
        "auto takes ",
        f"configuration  {project_root / 'conf'}",
        "/somewhere/data (from JUZHEN_DATA)",
        ".cache (JUZHEN_CACHE is not set)",
    ):
        assert part in text


def test_a_word_beside_info_asks_hydra(project_root):
    for words in (
        ["loss=cosine", "--info"],
        ["--info", "defaults-tree"],
        ["loss=cosine"],
        [],
        ["--hydra-help"],
    ):
        assert not tell_about(words, conf_dir=project_root / "conf")


def test_verbs_have_one_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("juzhen ")
    assert main(["table", "--help"]) == 0
    assert "--version" not in capsys.readouterr().out


@pytest.mark.slow
def test_help_names_completion_as_it_is_typed(monkeypatch, capsys, project_root):
    monkeypatch.chdir(project_root)
    monkeypatch.setattr(sys, "argv", ["train.py", "--help"])
    assert status_of(train.main) == 0
    told = capsys.readouterr().out
    assert 'eval "$(python train.py -sc install=bash)"' in told
    assert "python train.py -sc install=fish | source" in told
    assert parse_flags(["-sc", "install=bash"]).overrides == ["install=bash"]
