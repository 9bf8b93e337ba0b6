"""A run or an encoder that is named twice: refused, or said, by every verb that compares or joins two."""

import shutil

import pytest

from juzhen.cli.main import main


@pytest.fixture
def twice(two_runs, tmp_path):
    """A run, its copy, and a link to it."""
    first = two_runs[0]
    copy, link = tmp_path / "copy", tmp_path / "link"
    shutil.copytree(first, copy)
    link.symlink_to(first)
    return first, copy, link


def verbs(one, two, out):
    return {
        "compare": ["compare", one, two],
        "gate": ["gate", one, "--against", two],
        "fuse": ["fuse", one, two, "--output", out],
        "merge": ["merge", one, two, out],
    }


def test_a_copy_is_said_by_verbs_that_judge_and_refused_by_those_that_join(twice, tmp_path, capsys):
    first, copy, _ = twice
    status = {
        name: (main([str(word) for word in words]), "same weights" in "".join(capsys.readouterr()))
        for name, words in verbs(first, copy, tmp_path / "out").items()
    }
    assert status == {"compare": (0, True), "gate": (0, True), "fuse": (2, True), "merge": (2, True)}
