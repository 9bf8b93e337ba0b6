"""A run or an encoder that is named twice: refused, or said, by every verb that compares or joins two."""

import shutil

import pytest

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.evaluation.saved_run import ENCODER_FOLDER
from juzhen.merging.merge import merge


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


@pytest.mark.parametrize("verb", ["compare", "gate", "fuse", "merge"])
def test_a_run_and_itself_are_refused(verb, twice, tmp_path, capsys):
    first, _, link = twice
    for other in (first, f"{first}/.", link):
        assert main([str(word) for word in verbs(first, other, tmp_path / "out")[verb]]) == 2, other
        assert "different runs" in (said := capsys.readouterr().err) or "each model once" in said
    assert not (tmp_path / "out").exists()


def test_a_copy_is_said_by_verbs_that_judge_and_refused_by_those_that_join(twice, tmp_path, capsys):
    first, copy, _ = twice
    status = {
        name: (main([str(word) for word in words]), "same weights" in "".join(capsys.readouterr()))
        for name, words in verbs(first, copy, tmp_path / "out").items()
    }
    assert status == {"compare": (0, True), "gate": (0, True), "fuse": (2, True), "merge": (2, True)}


def test_encoders_and_the_base_are_compared_by_their_weights(two_runs, twice):
    first, copy, _ = twice
    with pytest.raises(UserError, match="same weights"):
        merge([first, two_runs[1], copy / ENCODER_FOLDER])
    with pytest.raises(UserError, match="base"):
        merge([first, two_runs[1]], method="task_arithmetic", base=copy)


def test_a_source_of_mining_counts_once(twice, tmp_path, capsys):
    first, copy, _ = twice
    assert (
        main(["mine", "demo_qmc", str(first), str(copy), "--limit", "5", "--out", str(tmp_path / "m.tsv")])
        == 2
    )
    assert "once" in capsys.readouterr().err
    assert not (tmp_path / "m.tsv").exists()


def test_an_index_is_not_built_into_a_run(twice, tmp_path, capsys):
    _, copy, _ = twice
    texts = tmp_path / "texts.txt"
    texts.write_text("怎么退货\n")
    before = sorted(copy.rglob("*"))
    assert main(["index", "build", str(copy), str(copy), str(texts)]) == 2
    assert f"{copy}-index" in capsys.readouterr().err
    assert sorted(copy.rglob("*")) == before
