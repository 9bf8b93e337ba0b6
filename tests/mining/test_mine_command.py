"""`juzhen mine` from a shell: sets of a further folder, a small corpus, folders of any name."""

import shlex
import shutil
from pathlib import Path

import pytest
from forks import ROOT
from hydra.core.override_parser.overrides_parser import OverridesParser

from juzhen.cli.main import main
from juzhen.cli.mine import mine
from juzhen.core.paths import DATASETS
from juzhen.data.loading import load_ranking
from juzhen.data.rows import ConfiguredSets
from juzhen.mining import MiningOptions

ROWS = [
    (f"怎么修改{one}", f"在哪里换{one}", f"{one}丢了怎么办")
    for one in ("手机号", "密码", "地址", "头像", "名字")
]


@pytest.fixture
def own_set(tmp_path):
    """A set of 0/1 pairs that conf/dataset of the project does not have, in a folder with a blank and a comma."""
    folder = tmp_path / "我的 数据,2026"
    lines = [f"{a}\t{b}\t1\n{a}\t{c}\t0\n" for a, b, c in ROWS]
    (folder / "tiny").mkdir(parents=True)
    (folder / "conf" / "dataset").mkdir(parents=True)
    (folder / "tiny" / "train.tsv").write_text(
        "sentence1\tsentence2\tlabel\n" + "".join(lines), encoding="utf-8"
    )
    description = (ROOT / "conf" / "dataset" / "demo_qmc.yaml").read_text(encoding="utf-8")
    rows = ("rows: {train: 4000, dev: 600, test: 600}", "rows: {train: null}")
    for old, new in (("demo_qmc", "tiny"), ("source: builtin", "source: local"), rows):
        description = description.replace(old, new)
    (folder / "conf" / "dataset" / "tiny.yaml").write_text(description, encoding="utf-8")
    return folder


def test_a_set_of_a_further_folder_is_mined_to_the_depth_of_its_corpus(own_set, capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    options = {"data_dir": own_set, "config_dir": own_set / "conf", "rules": MiningOptions(num_negatives=1)}
    given = own_set / "out" / "of_tests_tiny_hard.tsv"
    mine("tiny", ["bm25"], out=given, **options)
    printed = capsys.readouterr().out
    assert "range_max: all 15 documents of train/tiny" in printed
    words = shlex.split(printed.splitlines()[-1])
    assert words[3] == str(given.parent / "conf")
    assert (given.parent / "conf" / "dataset" / "of_tests_tiny_hard.yaml").is_file()
    assert OverridesParser.create().parse_override(words[-1]).value() == str(own_set)


def test_a_set_that_says_where_it_lies_needs_no_folder_of_data(own_set, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    description = own_set / "conf" / "dataset" / "tiny.yaml"
    table = shutil.copy(own_set / "tiny" / "train.tsv", tmp_path / "table.tsv")
    text = description.read_text(encoding="utf-8").replace("tiny/train.tsv", str(table))
    description.write_text(text, encoding="utf-8")
    sets = ConfiguredSets(DATASETS, Path("data"), config_dir=own_set / "conf")
    (found,) = sets.training(["tiny"])
    assert len(found) == 2 * len(ROWS)


def test_faulty_rows_are_left_out_where_that_is_typed(own_set, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with (own_set / "tiny" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("没有答案\t\t1\n")
    words = ["mine", "tiny", "bm25", "--out", str(own_set / "of_tests_tiny_hard.tsv"), "--num-negatives", "1"]
    words += ["--data-dir", str(own_set), "--config-dir", str(own_set / "conf")]
    assert main([*words, "--on-bad-row", "drop"]) == 0
    where = {"data_dir": own_set, "config_dir": own_set / "conf"}
    assert len(load_ranking("tiny", "train", on_bad_row="drop", **where).queries) == 10


def test_milder_rules_follow_a_mining_without_negatives(own_set, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    out = own_set / "of_tests_tiny_hard.tsv"
    words = ["mine", "tiny", "bm25", "--out", str(out), "--num-negatives", "1"]
    words += ["--data-dir", str(own_set), "--config-dir", str(own_set / "conf")]
    assert main([*words, "--max-score", "-1"]) == 2
    assert not out.exists()
    assert main(words) == 0
    assert out.is_file()


@pytest.mark.parametrize(
    "words",
    [
        ["space", "--data", "tiny"],
        ["transfer", "tiny"],
        ["shrink", "--dataset", "tiny", "--vocabulary", "300"],
    ],
)
def test_every_verb_that_reads_sets_reads_those_of_a_further_folder(own_set, words, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr("juzhen.encoders.load_encoder", lambda *_: read.append("sets"))
    monkeypatch.setattr("juzhen.encoders.sentence_encoder.load_encoder", lambda *_: read.append("sets"))
    monkeypatch.setattr("juzhen.evaluation.space.open_encoder", lambda *_: read.append("sets"))
    more = [str(tmp_path / "student"), "--layers", "1"] if words[0] == "shrink" else []
    more += ["--data-dir", str(own_set), "--config-dir", str(own_set / "conf")]
    main([words[0], "builtin/mini_zh", *more, *words[1:]])
    assert read == ["sets"]
