"""Transfer: a classifier on frozen embeddings finds what is in them, and nothing that is not."""

import json
from dataclasses import replace

import numpy as np
import pytest

from juzhen.cli.main import main
from juzhen.core.examples import Examples, Kind
from juzhen.core.paths import DATASETS
from juzhen.data.rows import ConfiguredSets
from juzhen.evaluation.run import transfer

NUMBERS = {"batch_tokens": 512, "seed": 0, "limit": None}


class Vectors:
    """An "encoder" whose embedding of the text "3,1" is (3, 1): what is in it is known."""

    def encode(self, texts, *, batch_tokens):
        return np.array([[float(number) for number in text.split(",")] for text in texts], dtype=np.float32)


def pairs(count, *, seed, kind=Kind.LABELLED_PAIR, shuffled=False):
    """Label 1 where the two vectors are near (NLI: class by how far), unless labels are shuffled."""
    generator = np.random.default_rng(seed)
    num_classes = 3 if kind is Kind.NLI_PAIR else 2
    labels = np.arange(count) % num_classes
    first = generator.normal(size=(count, 3))
    distance = labels if num_classes == 3 else 1 - labels
    second = first + 2.0 * distance[:, None] + generator.normal(scale=0.1, size=(count, 3))
    if shuffled:
        generator.shuffle(labels)
    names = ("premise", "hypothesis") if num_classes == 3 else ("text_a", "text_b")
    columns = [[",".join(map(str, row)) for row in vectors] for vectors in (first, second)]
    texts = dict(zip(names, columns, strict=True))
    return Examples.from_texts("some", "any", kind=kind, texts=texts, targets=labels)


@pytest.mark.parametrize("kind", [Kind.LABELLED_PAIR, Kind.NLI_PAIR])
def test_what_is_in_the_embeddings_is_found(kind):
    splits = {name: pairs(120, seed=seed, kind=kind) for seed, name in enumerate(("train", "dev", "test"))}
    found = transfer(Vectors(), splits, **NUMBERS)
    assert found.accuracy > 0.97
    assert found.f1 > 0.97
    assert found.majority == pytest.approx(1 / (3 if kind is Kind.NLI_PAIR else 2))
    assert (found.rows, found.learnt_from, found.how) == (120, 120, "train → test")


def test_labels_that_mean_nothing_are_not_learnt():
    splits = {"train": pairs(300, seed=0, shuffled=True), "dev": None, "test": None}
    found = transfer(Vectors(), splits, **NUMBERS)
    assert found.how == "5 folds of train"
    assert found.accuracy == pytest.approx(0.5, abs=0.12)


def test_a_dev_split_stands_for_a_missing_test_split():
    splits = {"train": pairs(100, seed=0), "dev": pairs(40, seed=1), "test": None}
    found = transfer(Vectors(), splits, **NUMBERS)
    assert (found.rows, found.how) == (40, "train → dev")
    assert found.accuracy > 0.95


def test_limit_draws_rows():
    splits = {"train": pairs(100, seed=0), "dev": None, "test": pairs(80, seed=1)}
    found = transfer(Vectors(), splits, **NUMBERS | {"limit": 30})
    assert (found.rows, found.learnt_from) == (30, 30)


def test_the_command_prints_a_row_per_set_and_writes_json(encoder_folder, tmp_path, capsys):
    output = tmp_path / "transfer.json"
    words = ["demo_qmc", "demo_nli", "--limit", "60", "--output", str(output)]
    assert main(["transfer", str(encoder_folder), *words]) == 0
    assert [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()[2:]] == [
        "| demo_qmc",
        "| demo_nli",
    ]
    found = json.loads(output.read_text())
    assert 0 <= found["demo_nli"]["accuracy"] <= 1
    assert found["demo_qmc"]["how"] == "train → test"


def of_one_class():
    rows = pairs(40, seed=0)
    return rows.select(np.flatnonzero(rows.targets == 1))


@pytest.mark.parametrize("verb", [["transfer"], ["space", "--maps", "pca", "--split", "train", "--data"]])
def test_a_faulty_row_of_a_set_may_be_left_out(
    verb, encoder_folder, tmp_path, monkeypatch, project_root, capsys
):
    monkeypatch.chdir(tmp_path)
    description = (project_root / "conf/dataset/demo_qmc.yaml").read_text(encoding="utf-8")
    rows = ("rows: {train: 4000, dev: 600, test: 600}", "rows: {train: null}")
    for old, new in (("demo_qmc", "tiny"), ("source: builtin", "source: local"), rows):
        description = description.replace(old, new)
    lines = (project_root / "juzhen/builtin/data/demo_qmc/train.tsv").read_text(encoding="utf-8").splitlines()
    for path, text in (
        ("conf/dataset/tiny.yaml", description),
        ("tiny/train.tsv", "\n".join([*lines[:61], "没有答案\t\t1", ""])),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    words = [verb[0], str(encoder_folder), *verb[1:], "tiny", "--data-dir", ".", "--config-dir", "conf"]
    assert main([*words, "--on-bad-row", "drop"]) == 0
    assert "tiny/train: 1 faulty" in capsys.readouterr().err


def test_faulty_rows_that_are_left_out_are_counted(tmp_path, capsys):
    configured = ConfiguredSets(DATASETS, tmp_path)
    configured._read["own/train"] = replace(pairs(20, seed=0), num_dropped=3)
    configured.tell_dropped()
    assert "own/train: 3" in capsys.readouterr().err
