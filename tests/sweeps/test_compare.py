from dataclasses import replace
from pathlib import Path

import pytest

from schema.result import Score
from sweeps.compare import Published, compare, comparison_markdown, load_published
from sweeps.matrix import build_matrix

THEIRS = Published(
    source="somebody",
    table="main",
    model="csts-base",
    setup="bert, cosine",
    trained_on="csts",
    split="dev",
    dataset="lcqmc",
    metric="spearman",
    percent=58.18,
)


def verdicts(make_result, ours: Score, *published: Published) -> list[str]:
    matrix = build_matrix([make_result(["csts"], {"dev/lcqmc/spearman": ours})], metric="spearman")
    return [one.verdict for one in compare(matrix, published)]


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (Score(0.5818), "matches"),
        (Score(0.5910), "matches"),
        (Score(0.5930), "differs by +1.1"),
        (Score(0.55, 0.51, 0.59), "matches"),
        (Score(0.55, 0.52, 0.57), "differs by -3.2"),
    ],
)
def test_verdicts(make_result, ours, verdict):
    assert verdicts(make_result, ours, THEIRS) == [verdict]


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "bq"},
        {"split": "test"},
        {"split": ""},
        {"metric": "accuracy"},
        {"trained_on": "ocnli>csts"},
        {"trained_on": ""},
    ],
)
def test_only_the_same_experiment_is_a_reference(make_result, change):
    assert verdicts(make_result, Score(0.5818), replace(THEIRS, **change)) == ["no reference"]


def test_a_repeated_number_appears_once_another_one_beside_it(make_result):
    repeated = replace(THEIRS, table="other")
    assert len(verdicts(make_result, Score(0.5), THEIRS, repeated)) == 1
    assert len(verdicts(make_result, Score(0.5), THEIRS, replace(repeated, percent=58.19))) == 2


def test_baselines_are_not_compared(make_result):
    results = [make_result([], {"dev/lcqmc/spearman": 0.58})]
    assert compare(build_matrix(results, metric="spearman"), [THEIRS]) == []


def test_markdown_names_source_and_setup_and_counts_the_rest(make_result):
    scores = {"dev/lcqmc/spearman": 0.55, "dev/atec/spearman": 0.2}
    matrix = build_matrix([make_result(["csts"], scores)], metric="spearman")
    text = comparison_markdown(compare(matrix, [THEIRS]), metric="spearman")
    row = "| csts | embedded, cosent | dev/lcqmc | 55.0 | 58.2 | bert, cosine | somebody: main, csts-base |"
    assert f"{row} differs by -3.2 |" in text
    assert "no reference: 1 of our numbers" in text


def test_the_shipped_numbers():
    published = load_published()
    assert {one.source for one in published} == {
        "chinese_transfer",
        "cosent_bi_encoder",
        "cosent_cross_encoder",
    }
    assert len(published) == 313 + 32 + 15
    assert all(0 < one.percent < 100 for one in published)
    assert {one.split for one in published} == {"dev", "test", ""}
    curriculum = "pawsx_zh>pkuparaph>allnli_zh>csts"
    found = {one.percent for one in published if (one.trained_on, one.dataset) == (curriculum, "bq")}
    assert found == {45.52}
    (bank,) = [one for one in published if one.setup == "bert-base, cosent" and one.dataset == "bq"]
    assert (bank.trained_on, bank.split, bank.percent) == ("bq", "test", 72.38)


def test_every_shipped_set_name_is_a_dataset_of_ours():
    known = {path.stem for path in (Path(__file__).parents[2] / "conf" / "dataset").glob("*.yaml")}
    used = {one.dataset for one in load_published()}
    used |= {name for one in load_published() for name in one.trained_on.replace("+", ">").split(">") if name}
    assert used <= known
