"""Results are copied to a folder, or it is said why they cannot be."""

import shutil

import pytest

from juzhen.core.errors import UserError
from juzhen.core.result import RESULT_FILE
from juzhen.report.collect import export


def test_a_file_in_the_place_of_a_folder_is_told(tmp_path, project_root):
    (tmp_path / "runs" / "a").mkdir(parents=True)
    kept = next((project_root / "results" / "transfer" / "runs").rglob(RESULT_FILE))
    shutil.copy(kept, tmp_path / "runs" / "a")
    (tmp_path / "file").write_text("precious")
    with pytest.raises(UserError, match=r"cannot write there .*; choose another folder"):
        export(tmp_path / "runs", tmp_path / "file", report=print)
    assert (tmp_path / "file").read_text() == "precious"
    assert export(tmp_path / "runs", tmp_path / "copy", report=print) == 1
    assert (tmp_path / "copy" / "a" / RESULT_FILE).is_file()
