"""Folders of links to runs, and places that cannot be moved away."""

import shutil

import pytest

from juzhen.cli.main import main
from juzhen.core.file_guard import not_overwritable
from juzhen.core.paths import files_below
from juzhen.core.result import RESULT_FILE


def test_a_folder_of_links_shows_what_the_folder_of_runs_shows(two_runs, tmp_path, capsys):
    links, real = tmp_path / "links", tmp_path / "real"
    links.mkdir()
    for number, run in enumerate(two_runs):
        (links / f"run{number}").symlink_to(run)
        shutil.copytree(run, real / f"run{number}")
    shown = []
    for folder in (links, real):
        assert main(["table", str(folder)]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert main(["archive", str(links), str(tmp_path / "copies")]) == 0
    assert len(files_below(tmp_path / "copies", RESULT_FILE)) == 2


def test_each_folder_counts_once_and_circles_end(tmp_path):
    run = tmp_path / "runs" / "sweep" / "a"
    run.mkdir(parents=True)
    (run / RESULT_FILE).touch()
    far = tmp_path / "disk" / "data"
    far.mkdir(parents=True)
    (far / RESULT_FILE).touch()
    (tmp_path / "runs" / "a_latest").symlink_to(run)
    (tmp_path / "runs" / "sweep" / "latest").symlink_to(run)
    (tmp_path / "runs" / "back").symlink_to(tmp_path / "runs")
    (run / "texts").symlink_to(tmp_path / "disk")  # a whole disk, two folders down
    assert files_below(tmp_path / "runs", RESULT_FILE) == [run / RESULT_FILE]
    (tmp_path / "runs" / "disk").symlink_to(tmp_path / "disk")
    assert len(files_below(tmp_path / "runs", RESULT_FILE)) == 2


def test_the_working_folder_is_not_moved_away(tmp_path, monkeypatch):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    for place in (".", "..", tmp_path):
        assert "mv " not in str(not_overwritable(type(tmp_path)(place), "is there"))


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_proposed_name_is_free(tmp_path, is_folder):
    place = tmp_path / "out"
    old = tmp_path / "out.old"
    old.mkdir() if is_folder else old.touch()
    (tmp_path / "out.old2").symlink_to("nowhere")
    assert str(not_overwritable(place, "is there")).endswith("out.old3")
