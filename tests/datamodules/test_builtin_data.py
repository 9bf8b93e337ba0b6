"""The shipped data sets leak nothing, and cannot be solved by shortcuts."""

import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from juzhen.core.paths import BUILTIN
from juzhen.core.schema import validated
from juzhen.data.spec import DatasetConfig

FOLDER = BUILTIN / "data"
CONF = Path(__file__).resolve().parents[2] / "conf"
NAMES = ("demo_sts", "demo_qmc", "demo_order", "demo_nli")
SPLITS = ("train", "dev", "test")


def shipped(name, split):
    lines = (FOLDER / name / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "sentence1\tsentence2\tlabel"
    return [tuple(line.split("\t")) for line in lines[1:]]


@pytest.fixture(scope="module")
def tables():
    return {(name, split): shipped(name, split) for name in NAMES for split in SPLITS}


def fold(sentence):
    """The sentence without what does not count when two are compared: width, spaces, punctuation, case."""
    return "".join(letter for letter in unicodedata.normalize("NFKC", sentence).lower() if letter.isalnum())


def vectoriser():
    return TfidfVectorizer(analyzer="char", ngram_range=(1, 2))


def lexical_spearman(rows):
    """What TF-IDF over characters reaches; a known label without it would be 0, a perfect one 1."""
    model = vectoriser().fit([text for row in rows for text in row[:2]])
    first, second = (model.transform([row[side] for row in rows]) for side in (0, 1))
    cosines = first.multiply(second).sum(axis=1).A1
    return spearmanr(cosines, [float(row[2]) for row in rows]).statistic


def test_no_sentence_is_in_two_splits_of_any_set(tables):
    splits_of = defaultdict(set)
    for (_, split), rows in tables.items():
        for first, second, _ in rows:
            splits_of[fold(first)].add(split)
            splits_of[fold(second)].add(split)
    assert len(splits_of) > 20_000
    assert [sentence for sentence, splits in splits_of.items() if len(splits) > 1] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_is_there_once_and_has_two_sides(tables, name):
    pairs = Counter(
        frozenset((fold(first), fold(second))) for split in SPLITS for first, second, _ in tables[name, split]
    )
    assert max(pairs.values()) == 1
    assert all(len(pair) == 2 for pair in pairs)


@pytest.mark.parametrize("split", SPLITS)
def test_labels_are_balanced(tables, split):
    labels = {name: Counter(row[2] for row in tables[name, split]) for name in NAMES}
    for name in ("demo_qmc", "demo_order"):
        assert labels[name]["0"] == labels[name]["1"] > 0
    assert len(set(labels["demo_nli"].values())) == 1
    assert set(labels["demo_nli"]) == {"entailment", "neutral", "contradiction"}
    scores = {float(score): count for score, count in labels["demo_sts"].items()}
    assert (min(scores), max(scores)) == (0, 5)
    assert max(scores.values()) < 0.3 * sum(scores.values())
    for low in range(5):  # every fifth of the scale is used
        assert sum(n for score, n in scores.items() if low <= score <= low + 1) > 0.08 * sum(scores.values())


def test_every_premise_and_every_hypothesis_has_each_label_equally_often(tables):
    for side in (0, 1):
        labels = defaultdict(Counter)
        for row in tables["demo_nli", "train"]:
            labels[row[side]][row[2]] += 1
        assert all(len(counts) == 3 and len(set(counts.values())) == 1 for counts in labels.values())


@pytest.mark.parametrize("side", [0, 1])
def test_neither_side_of_an_nli_pair_tells_the_label(tables, side):
    train, dev = tables["demo_nli", "train"], tables["demo_nli", "dev"]
    model = vectoriser().fit([row[side] for row in train])
    classifier = LogisticRegression(max_iter=200).fit(
        model.transform([row[side] for row in train]), [row[2] for row in train]
    )
    accuracy = classifier.score(model.transform([row[side] for row in dev]), [row[2] for row in dev])
    assert accuracy <= 0.45


def test_characters_do_not_tell_order_but_tell_the_other_sets(tables):
    for split in ("dev", "test"):
        assert abs(lexical_spearman(tables["demo_order", split])) < 0.2
        assert lexical_spearman(tables["demo_qmc", split]) > 0.25
        assert lexical_spearman(tables["demo_sts", split]) > 0.4


def test_dev_and_test_are_written_with_characters_of_train(tables):
    seen = {letter for name in NAMES for row in tables[name, "train"] for text in row[:2] for letter in text}
    for split in ("dev", "test"):
        for name in NAMES:
            unseen = {letter for row in tables[name, split] for text in row[:2] for letter in text} - seen
            assert not unseen, (name, split)


def test_text_is_clean(tables):
    for rows in tables.values():
        for row in rows:
            assert len(row) == 3
            for text in row[:2]:
                assert text == text.strip()
                assert not set("<>()|/^_") & set(text), text


@pytest.mark.parametrize("name", NAMES)
def test_promised_rows_are_there(tables, name):
    node = OmegaConf.load(CONF / "dataset" / f"{name}.yaml")
    config = validated(DatasetConfig, OmegaConf.to_container(node))
    assert config.rows == {split: len(tables[name, split]) for split in SPLITS}
    labels = {row[2] for split in SPLITS for row in tables[name, split]}
    if config.labels is not None:
        assert set(config.labels) == labels
    else:
        assert all(config.score_range[0] <= float(label) <= config.score_range[1] for label in labels)


def test_suite_places_every_set_under_evaluate():
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose(overrides=["+benchmark=demo"])
    assert {key: node.name for key, node in composed.evaluate.items()} == {name: name for name in NAMES}


def test_the_whole_is_small_enough_to_ship():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.tsv")) < 2_500_000


@pytest.mark.parametrize("split", SPLITS)
def test_every_sentence_of_the_order_set_has_a_partner_of_either_label(tables, split):
    partners = defaultdict(list)
    for first, _, label in tables["demo_order", split]:
        partners[first].append(label)
    assert all(labels.count("0") == labels.count("1") for labels in partners.values())
