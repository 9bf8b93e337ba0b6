"""A measure that is undefined is null and says why: never 0, one half or 1."""

import numpy as np
import pytest

from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result, Score
from juzhen.evaluation.scoring import score_set
from juzhen.metrics.classification import class_mean_accuracy, classify, score_classes
from juzhen.metrics.metric_support import undefined_reason
from juzhen.metrics.ranking import score_ranking

COLUMNS = {
    Kind.NLI_PAIR: ("premise", "hypothesis"),
    Kind.POSITIVE_PAIR: ("anchor", "positive"),
    Kind.LABELLED_TEXT: ("text",),
}


def rows(kind: Kind, targets, split="dev") -> Examples:
    columns = COLUMNS.get(kind, ("text_a", "text_b"))
    texts = {column: [f"{column}{row}" for row in range(len(targets))] for column in columns}
    return Examples.from_texts("s", split, kind=kind, texts=texts, targets=targets)


def measured(scores, given, dev=None) -> dict[str, Score]:
    return score_set(np.array(scores), given, dev=dev, bootstrap_samples=0, seed=0)


@pytest.mark.parametrize(
    ("kind", "targets", "undefined"),
    [
        (
            Kind.LABELLED_PAIR,
            [1.0] * 8,
            "spearman pearson accuracy f1 mcc average_precision auc ks ks_p_value",
        ),
        (
            Kind.LABELLED_PAIR,
            [0.0] * 8,
            "spearman pearson accuracy f1 mcc average_precision auc ks ks_p_value",
        ),
        (Kind.LABELLED_PAIR, [0.0] * 7 + [1.0], "accuracy f1 mcc"),
        (Kind.LABELLED_PAIR, [0.0] * 6 + [1.0] * 2, ""),
        (Kind.SCORED_PAIR, [0.4] * 8, "spearman pearson ks ks_p_value"),
        (Kind.SCORED_PAIR, [0.4] * 7 + [0.3], "ks ks_p_value"),
        (Kind.NLI_PAIR, [2.0] * 8, "spearman pearson ks ks_p_value"),
    ],
)
def test_what_gold_values_leave_undefined_is_null_and_known_before_training(kind, targets, undefined):
    given = rows(kind, targets)
    found = measured(np.linspace(0.1, 0.9, 8), given)
    assert {name for name, score in found.items() if score.value is None} == {*undefined.split()}
    assert all(score.why == undefined_reason(name, given) for name, score in found.items())


def test_thresholds_of_a_dev_split_of_one_class_judge_no_test_split():
    dev = (np.linspace(0.1, 0.9, 8), rows(Kind.LABELLED_PAIR, [1.0] * 8))
    test = rows(Kind.LABELLED_PAIR, [0.0, 1.0, 0.0, 1.0], "test")
    found = measured([0.1, 0.9, 0.2, 0.8], test, dev=dev)
    assert found["auc"].value == 1
    for name in ("accuracy", "f1"):
        assert found[name].value is None
        assert found[name].why == "no threshold can be fitted on the dev split: no row is negative"
    assert measured([0.1, 0.9, 0.2, 0.8], test)["f1"].why == "there is no dev split to fit a threshold on"
    assert measured([0.5] * 4, test)["spearman"].why == "all scores are equal"


def test_macro_f1_counts_classes_that_are_there():
    logits = np.eye(3)[[0, 1, 0, 1]]
    found = score_classes(logits, rows(Kind.NLI_PAIR, [0.0, 1.0, 0.0, 1.0]))
    assert found["macro_f1"].value == 1, "a class that no row has, and that is never named, counts as 0"
    found = score_classes(logits, rows(Kind.NLI_PAIR, [0.0] * 4))
    assert (found["accuracy"].value, found["macro_f1"].value) == (0.5, None)
    assert found["macro_f1"].why == "all rows are of one class"


def test_classifiers_and_rankings():
    features = np.random.default_rng(0).normal(size=(12, 3))
    learnt = (features, np.tile([0, 1], 6))
    judged = classify({"train": learnt, "test": (features[:4], np.zeros(4, dtype=int))}, seed=0)
    assert judged.as_scores()["transfer_f1"].why == "the rows judged are of one class"
    assert judged.f1 is None
    means = class_mean_accuracy(features, np.zeros(12, dtype=int))
    assert means.why == undefined_reason("class_mean_accuracy", rows(Kind.LABELLED_TEXT, [0.0] * 12))
    alone = rows(Kind.POSITIVE_PAIR, [0.0])
    scores = score_ranking(
        np.array([[0.4, -np.inf]]), alone, temperature=0.05, confidence=0.95, bootstrap_samples=0, seed=0
    )
    assert scores["ranking_accuracy"].value is None
    assert scores["ranking_accuracy"].why == undefined_reason("ranking_accuracy", alone)


def test_the_reason_is_kept_in_the_result(tmp_path):
    scores = {"dev/s/auc": Score(None, count=3, why="no row is negative"), "dev/s/ks": Score(0.5, count=3)}
    fields = {"config": {"dataset": {}}, "data": {}, "training": {}, "environment": {}, "seed": 1}
    Result("a", "b", ["s"], scores, **fields).write(tmp_path)
    read = Result.read(tmp_path).scores
    assert read["dev/s/auc"].why == "no row is negative"
    assert read["dev/s/ks"].why is None
    assert (tmp_path / "result.json").read_text().count('"why"') == 1
