import json
import shutil
from contextlib import suppress

import pytest

from juzhen.core.result import RESULT_FILE
from juzhen.report.collect import collect, export
from tools.archives import unpacked


def saved(folder, result):
    folder.mkdir(parents=True)
    return result.write(folder)


def test_finds_results_at_any_depth_in_order(tmp_path, make_result):
    for name in ("b", "a", "a/stages/0-lcqmc"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        make_result([name], {"dev/lcqmc/spearman": 0.5}).write(tmp_path / name)
    noted = []
    found = collect(tmp_path, report=noted.append)
    assert [result.trained_on for result in found] == [["a"], ["a/stages/0-lcqmc"], ["b"]]
    assert noted == []
    assert found[0].scores["dev/lcqmc/spearman"].value == 0.5


def test_names_what_it_cannot_read_and_goes_on(tmp_path, make_result):
    good = make_result(["lcqmc"], {"dev/lcqmc/spearman": 0.5})
    written = json.loads(saved(tmp_path / "good", good).read_text(encoding="utf-8"))
    broken = {
        "cut_short": json.dumps(written)[:100],
        "other_json": "[1, 2]",
        "binary": None,
        "from_the_future": json.dumps(written | {"format_version": 99}),
        "no_config": json.dumps(written | {"config": {}}),
    }
    for name, text in broken.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_bytes(b"\xff\xfe\x00" if text is None else text.encode())
    noted = []
    assert collect(tmp_path, report=noted.append) == [good]
    assert len(noted) == len(broken)
    for name in broken:
        assert sum(f"/{name}/result.json" in line for line in noted) == 1
    assert any("format 99, and this version reads format 2" in line for line in noted)


def test_superseded_attempts_do_not_count(tmp_path, make_result):
    saved(tmp_path / "previous" / "run", make_result(["new"], {}))
    saved(tmp_path / "previous" / "run" / "previous" / "1", make_result(["old"], {}))
    # The folder asked for may itself be called so.
    found = collect(tmp_path / "previous", report=pytest.fail)
    assert [result.trained_on for result in found] == [["new"]]


def a_run_below(folder):
    """The folder of one finished run."""
    (folder / "runs" / "a").mkdir(parents=True)
    shutil.copy(next((unpacked() / "transfer" / "runs").rglob(RESULT_FILE)), folder / "runs" / "a")
    return folder / "runs"


def test_a_file_in_the_place_of_a_folder_is_left(tmp_path):
    runs = a_run_below(tmp_path)
    (tmp_path / "file").write_text("precious")
    with suppress(OSError):
        export(runs, tmp_path / "file", report=print)
    assert (tmp_path / "file").read_text() == "precious"
    assert export(runs, tmp_path / "copy", report=print) == 1
    assert (tmp_path / "copy" / "a" / RESULT_FILE).is_file()
