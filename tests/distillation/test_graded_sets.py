"""Distillation: which pairs are scored, what is written, and that a bi-encoder learns from it."""

import shlex
from dataclasses import replace

import numpy as np
import pytest
from jobs import run_job

from juzhen.cli.main import main
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, read_description
from juzhen.distillation.graded_sets import Pairs, Triplets, graded, pairs_to_grade, write_set
from juzhen.encoders import CrossEncoder, SentenceEncoder
from launch.check import check_command_line

DESCRIBED = {"name": "like", "kind": "positive_pair", "language": "zh", "license": "MIT", "origin": "nowhere"}
DESCRIBED |= {"layout": "a", "layouts": {"a": {"files": {}, "columns": {}}}}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, tiny_backbone):
    words = ("model=crossencoder", "loss=bce", "dataset=[demo_qmc]", "training.duration=2 steps")
    return run_job(
        tmp_path_factory.mktemp("runs"), tiny_backbone, *words, "debug_rows=24", "evaluation.splits=[dev]"
    )


def examples(kind, texts, targets=None):
    return Examples.from_texts("some", "train", kind=kind, texts=texts, targets=targets)


def read(yaml, *, data_dir):
    return load_examples(read_description(yaml), "train", source="hub", data_dir=data_dir, on_bad_row="error")


def test_each_pair_is_scored_once_and_in_order():
    texts = {"text_a": ["a", "b", "a", "b"], "text_b": ["b", "a", "b", "c"]}
    pairs = pairs_to_grade(examples(Kind.LABELLED_PAIR, texts, [1, 0, 0, 1]), limit=None, seed=0)
    assert list(zip(pairs.first, pairs.second, strict=True)) == [("a", "b"), ("b", "a"), ("b", "c")]
    assert pairs.grades.tolist() == [1, 0, 1]
    assert pairs.agreement(np.array([2.0, 1.0, 3.0])) == pytest.approx(np.sqrt(3) / 2)


def test_triplets_are_their_pairs_and_have_no_order_but_0_and_1():
    texts = {"anchor": ["a"], "positive": ["b"], "negative": ["c"], "negative_2": ["d"]}
    pairs = pairs_to_grade(examples(Kind.TRIPLET, texts), limit=None, seed=0)
    assert (pairs.first, pairs.second, pairs.grades.tolist()) == (["a"] * 3, ["b", "c", "d"], [1, 0, 0])


def test_positive_pairs_have_no_gold():
    texts = {"anchor": ["a", "b"], "positive": ["c", "d"]}
    pairs = pairs_to_grade(examples(Kind.POSITIVE_PAIR, texts), limit=None, seed=0)
    assert pairs.agreement(np.array([1.0, 2.0])) is None


def test_pairs_are_drawn_by_the_seed():
    texts = {"text_a": [f"{one}" for one in range(100)], "text_b": ["x"] * 100}
    rows = examples(Kind.SCORED_PAIR, texts, np.linspace(0, 1, 100))
    drawn = [pairs_to_grade(rows, limit=10, seed=seed).first for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 10
    assert sorted(drawn[0], key=int) == drawn[0]


def test_what_is_written_is_read_again(tmp_path):
    first, second = ['a "quoted" one', "tab\there", '"'], ["今天", "line\nbreak", "x"]
    like = DatasetConfig(**DESCRIBED)
    yaml = write_set(
        tmp_path / "silver.tsv",
        Pairs(first, second, None),
        graded(np.array([-4.0, 12.0, 0.0]), "logit"),
        grade="logit",
        source="some/train",
        like=like,
    )
    assert yaml == tmp_path / "conf" / "dataset" / "silver.yaml"
    found = read(yaml, data_dir=tmp_path)
    assert found.texts("text_a") == first
    assert found.texts("text_b") == second
    np.testing.assert_allclose(found.targets, [0, 1, 0.25])  # from the lowest score to the highest
    assert not list(tmp_path.rglob("*.part"))


def test_probabilities_keep_their_value(tmp_path):
    written = graded(np.array([-2.0, 0.0, 3.0]), "probability")
    assert [float(one) for one in written] == pytest.approx([0.119203, 0.5, 0.952574])
    like = DatasetConfig(**DESCRIBED)
    pairs = Pairs(["a", "b", "c"], ["d", "e", "f"], None)
    yaml = write_set(tmp_path / "p.tsv", pairs, written, grade="probability", source="some/train", like=like)
    np.testing.assert_allclose(read(yaml, data_dir=tmp_path).targets, [0.119203, 0.5, 0.952574], atol=1e-6)


@pytest.mark.slow
def test_a_bi_encoder_learns_from_a_cross_encoder(teacher, tmp_path, tiny_backbone, project_root, capsys):
    table = tmp_path / "silver" / "of_tests_qmc_graded.tsv"
    assert main(["distill", str(teacher), "demo_qmc", "--out", str(table), "--limit", "60"]) == 0
    told = capsys.readouterr().out
    assert "60 pairs of demo_qmc/train" in told
    assert "Spearman of the scores with the gold labels" in told
    rows = read(tmp_path / "silver" / "conf" / "dataset" / "of_tests_qmc_graded.yaml", data_dir=tmp_path)
    scores = CrossEncoder.load(teacher).score(
        list(zip(rows.texts("text_a"), rows.texts("text_b"), strict=True))
    )
    expected = (scores - scores.min()) / (scores.max() - scores.min())
    np.testing.assert_allclose(rows.targets, expected, atol=1e-3)

    # The command that was printed is one that train.py accepts, and a job learns from the set.
    (line,) = [line for line in told.splitlines() if "train.py" in line]
    check_command_line(shlex.split(line)[2:], conf_dir=project_root / "conf")
    run = run_job(
        tmp_path / "runs",
        tiny_backbone,
        f"hydra.searchpath=[file://{tmp_path}/silver/conf]",
        "dataset=[of_tests_qmc_graded]",
        f"data_dir={tmp_path}",
        "benchmark=demo",
        "evaluation.splits=[dev]",
        "training.duration=2 steps",
    )
    result = Result.read(run)
    assert result.trained_on == ["of_tests_qmc_graded"]
    assert result.data["train/of_tests_qmc_graded"]["kind"] == "scored_pair"


def test_rows_with_fewer_documents_stay_shorter(tmp_path):
    texts = {"anchor": ["a", "b"], "positive": ["c", "d"], "negative": ["e", "f"], "negative_2": ["g", "d"]}
    rows = replace(examples(Kind.TRIPLET, texts), missing=np.array([[False] * 3, [False, False, True]]))
    triplets = Triplets.of(rows, limit=None, seed=0)
    scores = np.arange(len(triplets.pairs.first), dtype=float)
    yaml = triplets.write(
        tmp_path / "of_tests.tsv",
        graded(scores, "logit"),
        grade="logit",
        source="some/train",
        like=DatasetConfig(**DESCRIBED),
        graded_by="tests",
    )
    again = read(yaml, data_dir=tmp_path)
    assert again.missing.tolist() == rows.missing.tolist()
    of = dict(zip(zip(triplets.pairs.first, triplets.pairs.second, strict=True), scores, strict=True))
    assert again.teacher_scores[1, :2].tolist() == [of["b", "d"], of["b", "f"]]
    assert (
        triplets.agreement(np.array([9.0 if second in "cd" else 0 for second in triplets.pairs.second])) == 1
    )


def test_documents_of_a_row_are_scored_each_once_and_stay_in_their_row():
    texts = {"anchor": ["a", "a"], "positive": ["b", "b"], "negative": ["c", "d"], "negative_2": ["d", "b"]}
    triplets = Triplets.of(examples(Kind.TRIPLET, texts), limit=None, seed=0)
    assert sorted(zip(triplets.pairs.first, triplets.pairs.second, strict=True)) == [
        ("a", "b"),
        ("a", "c"),
        ("a", "d"),
    ]
    scored = np.array([{"b": 3.0, "c": 2.0, "d": 5.0}[text] for text in triplets.pairs.second])
    assert scored[triplets.places].tolist() == [[3, 2, 5], [3, 5, 3]]
    assert triplets.agreement(scored) == 0
    assert len(Triplets.of(examples(Kind.TRIPLET, texts), limit=1, seed=0).rows) == 1


@pytest.mark.slow
def test_a_loss_of_documents_learns_from_scored_triplets(teacher, tmp_path, tiny_backbone):
    table = tmp_path / "silver" / "of_tests_nli_scored.tsv"
    assert (
        main(["distill", str(teacher), "demo_nli", "--triplets", "--out", str(table), "--limit", "20"]) == 0
    )
    rows = read(tmp_path / "silver" / "conf" / "dataset" / "of_tests_nli_scored.yaml", data_dir=tmp_path)
    encoder = CrossEncoder.load(teacher)
    for place, document in enumerate(("positive", "negative")):
        expected = encoder.score(list(zip(rows.texts("anchor"), rows.texts(document), strict=True)))
        np.testing.assert_allclose(rows.teacher_scores[:, place], expected, atol=1e-5)
    run = run_job(
        tmp_path / "runs",
        tiny_backbone,
        f"hydra.searchpath=[file://{tmp_path}/silver/conf]",
        "dataset=[of_tests_nli_scored]",
        "loss=margin_mse",
        f"data_dir={tmp_path}",
        "benchmark=demo",
        "evaluation.splits=[dev]",
        "training.duration=2 steps",
    )
    assert Result.read(run).data["train/of_tests_nli_scored"]["kind"] == "triplet"

    # A set that was written is a set that can be scored.
    silver = str(tmp_path / "silver" / "conf")
    words = ["of_tests_nli_scored", "--config-dir", silver, "--out", str(tmp_path / "of_tests_again.tsv")]
    assert main(["distill", str(teacher), *words]) == 0


@pytest.mark.slow
def test_a_bi_encoder_teaches_by_its_cosines(project_root, tmp_path, capsys):
    folder = str(project_root / "juzhen" / "builtin" / "mini_zh@2")
    words = ("demo_nli", "--triplets", "--limit", "20", "--out", str(tmp_path / "of_tests_taught.tsv"))
    assert main(["distill", folder, *words]) == 0
    assert "loss=list_kl loss.teacher_temperature=0.01" in capsys.readouterr().out
    rows = read(tmp_path / "conf" / "dataset" / "of_tests_taught.yaml", data_dir=tmp_path)
    pairs = list(zip(rows.texts("anchor"), rows.texts("negative"), strict=True))
    expected = SentenceEncoder.load(folder).score(pairs)
    np.testing.assert_allclose(rows.teacher_scores[:, 1], expected, atol=1e-5)
