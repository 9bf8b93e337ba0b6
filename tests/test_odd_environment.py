"""Variables of the environment with a value that nothing can use: said in our words, or not followed."""

from juzhen.cli.main import main
from juzhen.cli.options import data_folder
from juzhen.core.progress import for_people


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
