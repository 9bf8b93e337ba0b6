"""Copies of a set beside its usual one: GLUE's of STS-B, and the piece of wiki1m."""

import pytest
from forks import ROOT
from omegaconf import OmegaConf

from juzhen.data.source import load_examples
from juzhen.data.spec import configured_set

ROWS = [
    ("A plane is taking off.", "An air plane is taking off.", 5.0),
    ("A man plays.", "A cat sleeps.", 0.5),
]


def of_glue():
    config = configured_set("stsb_en")
    config.layout = "glue"
    config.layouts["glue"].rows = {}
    return config


@pytest.fixture
def glue():
    return of_glue()


def columns(rows):
    first, second, labels = zip(*rows, strict=True)
    return {"sentence1": first, "sentence2": second, "label": labels, "idx": range(len(rows))}


def read(config, split, folder, source):
    return load_examples(config, split, source=source, data_dir=folder, on_bad_row="error", required=False)


def test_stsb_is_read_as_glue_has_it(glue, tmp_path, monkeypatch):
    import datasets

    asked = []

    def load_dataset(path, name, revision, split):
        asked.append((path, name, len(revision), split))
        return datasets.Dataset.from_dict(columns(ROWS))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr("juzhen.data.source.require_hub", lambda *_: None)
    found = read(glue, "dev", tmp_path, "hub")
    assert asked == [("nyu-mll/glue", "stsb", 40, "validation")]
    assert found.targets.tolist() == pytest.approx([1.0, 0.1])
    assert found.texts("text_a")[0] == ROWS[0][0]
    assert read(glue, "test", tmp_path, "hub") is None  # GLUE keeps the grades of test
    scored = {"sentence1": ["a"], "sentence2": ["b"], "score": [1.0]}
    usual = configured_set("stsb_en")
    monkeypatch.setattr(
        datasets, "load_dataset", lambda *_, **__: asked.append(_) or datasets.Dataset.from_dict(scored)
    )
    assert read(usual, "test", tmp_path, "hub") is not None
    assert asked[-1][0] == "mteb/stsbenchmark-sts"


def test_files_of_glue_are_read_too(glue, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    folder = tmp_path / "glue" / "stsb"
    folder.mkdir(parents=True)
    table = {key: list(values) for key, values in columns(ROWS).items()}
    for split in ("train", "validation", "test"):
        parquet.write_table(pa.table(table), folder / f"{split}-00000-of-00001.parquet")
    assert read(glue, "dev", tmp_path, "local").targets.tolist() == pytest.approx([1.0, 0.1])
    assert read(glue, "test", tmp_path, "local") is None


def test_a_piece_of_wiki1m_holds_out_a_dev_split(tmp_path):
    config = configured_set("wiki1m")
    config.layout = "piece"
    (tmp_path / "text").mkdir()
    lines = [f"Sentence number {number} of a piece of an encyclopedia." for number in range(2000)]
    config.layouts["piece"].files = {"train": "text/piece.txt"}
    (tmp_path / "text" / "piece.txt").write_text("\n".join(lines), encoding="utf-8")
    train, dev = (set(read(config, split, tmp_path, "local").texts("text")) for split in ("train", "dev"))
    assert train | dev == set(lines)
    assert not train & dev
    assert 5 < len(dev) < 60
    described = OmegaConf.load(ROOT / "conf" / "dataset" / "wiki1m.yaml")
    assert described.layouts.piece.files == {"train": "text/en_wiki1m_piece.txt.zst"}


def test_the_pairs_of_simclue_are_read_as_their_authors_write_them(tmp_path):
    """The words of conf/sweep/simclue.yaml. A further layout would give finished runs other keys."""
    config = configured_set("simclue")
    config.layouts["tsv"].files["train"] = "original/simclue-train_pair.json"
    config.rows["train"] = None
    (tmp_path / "original").mkdir()
    (tmp_path / "original" / "simclue-train_pair.json").write_text(
        '{"sentence1": "化妆水什么牌子的比较好？", "sentence2": "什么牌子的化妆水比较好呢？", "label": "1"}\n'
        '{"sentence1": "怀孕能吃圆葱吗", "sentence2": "怀孕能吃甲鱼吗", "label": "0"}\n',
        encoding="utf-8",
    )
    found = read(config, "train", tmp_path, "local")
    assert (found.texts("text_b")[1], found.targets.tolist()) == ("怀孕能吃甲鱼吗", [1, 0])
