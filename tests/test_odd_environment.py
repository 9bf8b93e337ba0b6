"""Variables of the environment with a value that nothing can use: said in our words, or not followed."""

import os

import pytest

from juzhen.cli.main import main
from juzhen.cli.options import data_folder
from juzhen.cli.program import THREADS, drop_odd_threads
from juzhen.report.terminal import for_people


@pytest.mark.parametrize(
    ("value", "stays"),
    [
        *((value, False) for value in ("abc", "", "0", "-1", "1.5", "4,")),
        *((value, True) for value in ("1", " 8 ", "4,2")),
    ],
)
def test_a_number_of_threads_that_is_none_is_said_and_dropped(value, stays, monkeypatch, capsys):
    monkeypatch.setenv(THREADS, value)
    drop_odd_threads()
    assert os.environ.get(THREADS) == (value if stays else None)
    told = capsys.readouterr().err
    assert told == "" if stays else f"{THREADS}={value}" in told


def test_a_file_is_no_folder_of_data_sets(tmp_path, monkeypatch):
    file = tmp_path / "data"
    file.touch()
    monkeypatch.setenv("JUZHEN_DATA", str(file))
    assert main(["leaks", "--train", "demo_sts"]) == 2
    monkeypatch.setenv("JUZHEN_DATA", "")
    assert str(data_folder(None)) == "data"


def test_columns_that_are_no_number_leave_a_pipe_as_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "abc")
    assert for_people() is None
    monkeypatch.setenv("COLUMNS", "120")
    assert for_people() is not None
