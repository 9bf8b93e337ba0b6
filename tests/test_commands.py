"""A command that is printed does what it says when it is typed, whatever a folder is called."""

import re
import shlex

import pytest
from forks import ROOT
from omegaconf import OmegaConf

from juzhen.core.errors import UserError, command, setting
from juzhen.core.paths import CONFIGURATION

NAMES = ["plain", "a b", "a,b", "中文", "a=b", "{a}", "[x]", "it's", 'a"b', "back\\", 'a\\"b', "${seed}", "1e5", "null",
         "True", "#x", "a;b", "$HOME", "(x)", "*", "~", "-", "a:b", "@x", "é%20"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_hydra_reads_a_printed_word_as_the_text_that_it_is(name):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    for text in (name, f"/data/{name}", f"/data/{name}/x"):
        (word,) = shlex.split(command(setting("data_dir", text)))
        read = OverridesParser.create().parse_override(word)
        assert not read.is_sweep_override()
        assert OmegaConf.create({"seed": 1, "data_dir": read.value()}).data_dir == text
    (word,) = shlex.split(command(setting("dataset", ["csts", name])))
    read = OverridesParser.create().parse_override(word)
    assert [*OmegaConf.create({"seed": 1, "dataset": read.value()}).dataset] == ["csts", name]


def test_names_of_a_list_are_offered_one_by_one():
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from launch.check import checked_job

    with pytest.raises(UserError, match="Write ") as told:
        checked_job(["dataset=[csts, 客服]"], conf_dir=CONFIGURATION, extra=None)
    (word,) = shlex.split(str(told.value).rpartition("Write ")[2])
    assert OverridesParser.create().parse_override(word).value() == ["csts", "客服"]


@pytest.mark.parametrize("name", ["my 数据", "a,b={c}"])
def test_what_mine_and_distil_print_is_what_they_have_written(name, tmp_path):
    from juzhen.mining.sets import training_command

    table = tmp_path / name / "x_hard.tsv"
    words = shlex.split(
        training_command(
            table, table.parent / "conf" / "dataset" / "x_hard.yaml", "loss=cosent", table.parent
        )
    )
    assert words[3:8] == [
        "python",
        "train.py",
        "--config-dir",
        str(table.parent / "conf"),
        "dataset=[x_hard]",
    ]
    from hydra.core.override_parser.overrides_parser import OverridesParser

    assert OverridesParser.create().parse_override(words[-1]).value() == str(table.parent)


def test_a_value_with_a_comma_is_offered_in_quotes():
    from launch.overrides import several_values

    assert several_values("data_dir=/data/a,b").endswith(
        "For one text with a comma, type 'data_dir=\"/data/a,b\"'"
    )


def test_every_command_that_is_printed_is_quoted_in_one_place():
    rooms = ("juzhen", "callbacks", "conf", "datamodules", "launch", "lightning_modules", "sweeps")
    files = {path for room in rooms for path in (ROOT / room).rglob("*.py")}
    quoting = {
        path.name for path in files if re.search(r"shlex\.(quote|join)", path.read_text(encoding="utf-8"))
    }
    assert quoting == {"errors.py"}
