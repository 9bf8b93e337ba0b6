import re
from collections import Counter
from dataclasses import replace

import pytest
from forks import ROOT

from juzhen.core.result import Score
from juzhen.report.collect import collect
from juzhen.report.compare import (
    CLAIM,
    MEASURED,
    NO_ROW,
    NOT_IN_THE_PAPER,
    Published,
    beside_claims,
    claim_lines,
    compare,
    comparison_tables,
    load_published,
)
from juzhen.report.matrix import build_matrix
from juzhen.report.training import set_names
from tools.archives import unpacked

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


def test_a_repeated_number_appears_once_another_one_beside_it(make_result):
    repeated = replace(THEIRS, table="other")
    assert len(verdicts(make_result, Score(0.5), THEIRS, repeated)) == 1
    assert len(verdicts(make_result, Score(0.5), THEIRS, replace(repeated, percent=58.19))) == 2


def test_baselines_are_not_compared(make_result):
    results = [make_result([], {"dev/lcqmc/spearman": 0.58})]
    assert compare(build_matrix(results, metric="spearman"), [THEIRS]) == []


def test_tables_name_source_and_setup_and_count_the_rest(make_result):
    scores = {"dev/lcqmc/spearman": 0.55, "dev/atec/spearman": 0.2}
    matrix = build_matrix([make_result(["csts"], scores)], metric="spearman")
    beside, rest = comparison_tables(matrix, [THEIRS])
    numbers = (
        "csts",
        "random_small, cosent",
        "lcqmc (dev)",
        "55.0",
        "58.18",
        "bert, cosine",
        "main, csts-base",
    )
    assert (beside.title, beside.body) == ("Compared with somebody", [(*numbers, "differs by -3.2", "—")])
    assert rest.body == [("csts", "atec (dev)", "the sources that have this training do not score this set")]
    assert rest.note.startswith("1 of our numbers have no reference")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"family": "crossencoder"}, "is of a crossencoder"),
        ({"loss": "cosine"}, r"is by another loss \(cosine\)"),
        ({"metric": "accuracy"}, "is of accuracy"),
        ({"split": "test"}, "is of test, not dev"),
        ({"split": ""}, "is of a split that is not named, not dev"),
        ({"split": "test", "loss": "mse"}, r"is by another loss \(mse\), of test, not dev"),
        ({"dataset": "bq"}, "^the sources that have this training do not score this set$"),
        ({"trained_on": "ocnli>csts"}, r"^no source has this training \(csts\)$"),
        ({"standing": CLAIM}, "^no source has this training"),
        ({"standing": NOT_IN_THE_PAPER}, "^no source has this training"),
    ],
)
def test_a_number_that_is_no_reference_says_why(make_result, change, reason):
    matrix = build_matrix([make_result(["csts"], {"dev/lcqmc/spearman": 0.5818})], metric="spearman")
    (one,) = compare(matrix, [replace(THEIRS, **change)])
    assert one.published is None
    assert re.search(reason, one.reason)


def test_the_nearest_number_is_the_one_that_differs_least(make_result):
    matrix = build_matrix([make_result(["csts"], {"dev/lcqmc/spearman": 0.58})], metric="spearman")
    near, far = replace(THEIRS, split="test", percent=60), replace(THEIRS, split="test", family="cot")
    (one,) = compare(matrix, [far, near])
    assert one.reason.startswith("the nearest, 60.00 (somebody: main, csts-base), is of test")


def test_weights_that_had_learnt_before_have_no_reference(make_result):
    results = [make_result(["csts"], {"dev/lcqmc/spearman": 0.58}, init_from="runs/a")]
    (one,) = compare(build_matrix(results, metric="spearman"), [THEIRS])
    assert one.reason == "went on from runs/a, of which no source says what it had learnt"


def test_the_other_training_that_a_source_may_mean_is_one_too(make_result):
    theirs = replace(THEIRS, trained_on="x", or_trained_on="csts")
    assert verdicts(make_result, Score(0.5818), theirs) == ["matches"]


def test_a_cross_encoder_on_dev_stands_beside_no_bi_encoder_and_no_test_figure():
    """The committed runs: bq by cross-entropy once stood beside a bi-encoder's 74.06."""
    results = collect(unpacked() / "cross_encoder" / "runs", report=print)
    compared = compare(build_matrix(results, metric="spearman"), load_published())
    assert [one.published for one in compared] == [None] * 8
    reasons = {(one.column, one.row): one.reason for one in compared}
    told = "the nearest, 71.96 (cosent_cross_encoder: cross-encoder, bert ce), is of test, not dev"
    assert reasons["dev/bq", "bq-ce"] == told
    tested = [replace(one, scores=_as_test(one.scores)) for one in results]
    compared = compare(build_matrix(tested, metric="spearman"), load_published())
    assert all(one.published.source == "cosent_cross_encoder" for one in compared)
    beside = [one.published.percent for one in compared if one.row == "bq-ce"]
    assert beside == [71.96, 73.20]  # of BERT and of RoBERTa
    assert {one.stands_in for one in compared if one.row == "bq-ce"} == {"bq: 15,000 of 100,000 rows"}


def _as_test(scores):
    return {key.replace("dev/", "test/"): score for key, score in scores.items() if key.startswith("dev/")}


def test_the_shipped_numbers():
    published = load_published()
    measured = Counter(one.source for one in published if one.standing == MEASURED)
    assert measured == {
        "chinese_transfer": 313,
        "cosent_cross_encoder": 32,
        "cosent_bi_encoder": 15,
        "cosent_note": 11,
        "english_sts": 4,
    }
    whole = [one for one in published if one.source in ("chinese_transfer", "cosent_cross_encoder")]
    assert all(one.trained_on and one.split and one.loss for one in whole)
    assert {one.split for one in whole if one.family == "crossencoder"} == {"test"}
    assert all(0 < one.percent < 100 for one in whole)
    curriculum = "pawsx_zh>pkuparaph>allnli_zh>csts"
    found = {one.percent for one in published if (one.trained_on, one.dataset) == (curriculum, "bq")}
    assert found == {45.52}
    (bank,) = [one for one in published if one.setup == "bert-base, cosent" and one.dataset == "bq"]
    assert (bank.trained_on, bank.split, bank.percent) == ("bq", "test", 72.38)


def test_claims_are_no_measurements_and_have_a_standing():
    claims = [one for one in load_published() if one.standing != MEASURED]
    assert Counter(one.source for one in claims) == {
        "embedding_chapter": 102,
        "cosent_note": 22,
        "two_stage_cot": 4,
        "english_sts": 3,
        "stsb_design": 2,
    }
    assert {one.standing for one in claims} == {CLAIM, NOT_IN_THE_PAPER}
    assert all(one.named and one.note for one in claims if one.standing == NOT_IN_THE_PAPER)
    dpr = {one.percent for one in claims if one.named.startswith("DPR") and one.metric == "top-20 accuracy"}
    assert dpr == {65.2, 78.4, 81.4}
    kept = {one.model: one.percent for one in claims if one.metric == "quality kept"}
    assert kept["256 numbers"] == 96


def test_every_shipped_set_name_is_a_dataset_of_ours():
    known = {path.stem for path in (ROOT / "conf" / "dataset").glob("*.yaml")}
    used = {one.dataset for one in load_published() if one.dataset} - {"sts_mean"}
    used |= {name for one in load_published() for sets in one.trainings for name in set_names(sets)}
    assert used <= known


def claims_beside(make_result, metric, scores, *claims, trained_on=("csts",), **more):
    matrix = build_matrix([make_result(list(trained_on), scores, **more)], metric=metric)
    return [(one.verdict, one.reason) for one in beside_claims(matrix, claims)]


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, None),
        ({"loss": "mse_signed"}, "loss"),
        ({"supervision": "none"}, "supervision"),
        ({"family": "cot"}, "model"),
        ({"trained_on": "wiki1m"}, "training"),
    ],
)
def test_a_claim_stands_beside_its_like_alone_and_the_nearest_is_named(make_result, change, differs):
    claim = replace(THEIRS, standing=CLAIM, percent=60.0, **change)
    ((verdict, reason),) = claims_beside(make_result, "spearman", {"dev/lcqmc/spearman": 0.5}, claim)
    if differs is None:
        assert (verdict, reason) == ("10.0 short", "")
        return
    assert verdict == NO_ROW
    assert reason == f"nearest: csts, which differs in {differs}"
    (line,) = claim_lines(
        beside_claims(
            build_matrix([make_result(["csts"], {"dev/lcqmc/spearman": 0.5})], metric="spearman"), [claim]
        )
    )
    assert "50.0" not in line


def test_targets_of_transfer_tasks_stand_beside_transfer_scores_alone():
    claims = {(one.dataset, one.metric) for one in load_published() if one.source == "two_stage_cot"}
    assert {("mrpc", "transfer_f1"), ("snli", "transfer_accuracy")} <= claims
    assert not {("mrpc", "f1"), ("snli", "accuracy")} & claims
    assert {one.loss for one in load_published() if one.source == "stsb_design"} == {"mse_signed"}
    unsupervised = [one for one in load_published() if "unsup" in f"{one.model} {one.setup}"]
    assert unsupervised
    assert all(one.supervision == "none" for one in unsupervised)
