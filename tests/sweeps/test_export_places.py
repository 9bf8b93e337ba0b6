"""Results are copied to a folder, or it is said why they cannot be."""

import pytest

from schema.errors import UserError
from schema.result import RESULT_FILE, Result
from sweeps.export import export


def test_a_file_in_the_place_of_a_folder_is_told(tmp_path):
    (tmp_path / "runs" / "a").mkdir(parents=True)
    Result("n", "k", [], {}, {}, {}, {}, {}, 1).write(tmp_path / "runs" / "a")
    (tmp_path / "file").write_text("precious")
    with pytest.raises(UserError, match="cannot be written .*; choose another folder"):
        export(tmp_path / "runs", tmp_path / "file", report=print)
    assert (tmp_path / "file").read_text() == "precious"
    assert export(tmp_path / "runs", tmp_path / "copy", report=print) == 1
    assert (tmp_path / "copy" / "a" / RESULT_FILE).is_file()
