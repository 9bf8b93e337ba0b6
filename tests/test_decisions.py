"""Same or not: the threshold that a run fits on dev, where it is kept, and what decides by it."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from jobs import run_job
from refusals import rows
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from juzhen import CrossEncoder, SentenceEncoder
from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.evaluation.scoring import fitted_threshold

PAIRS = [("怎么退货", "如何退货"), ("怎么退货", "什么时候发货"), ("天气很好", "天气真不错")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_backbone):
    """A bi-encoder and a cross-encoder."""
    folder = tmp_path_factory.mktemp("runs")
    words = ("dataset=[demo_qmc]", "+dataset@evaluate.demo_order=demo_order", "debug_rows=null")
    return [
        run_job(folder, tiny_backbone, *words, "loss=cosent"),
        run_job(folder, tiny_backbone, *words, "loss=bce", "model=crossencoder"),
    ]


def test_what_is_reached_on_test_are_the_numbers_of_scikit_learn():
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, (2, 200)).astype(np.float32)
    dev, test = labels + draw.normal(0, 0.7, labels.shape)
    found = fitted_threshold((dev, labels[0]), (test, labels[1]))
    accepted = test.astype(np.float32) >= found.value
    precision, recall, f1, _ = precision_recall_fscore_support(labels[1], accepted, average="binary")
    expected = (accuracy_score(labels[1], accepted), precision, recall, f1)
    assert (found.accuracy, found.precision, found.recall, found.f1) == pytest.approx(expected)
    assert (found.rows, found.judged_on, found.why) == (200, "test", None)


def test_without_test_each_half_of_dev_judges_the_other():
    scores, labels = np.array([0.1, 0.2, 0.3, 0.8, 0.9, 0.7]), np.array([0, 0, 0, 1, 1, 1])
    found = fitted_threshold((scores, labels), None)
    assert found.judged_on == "halves of dev"
    assert found.value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("scores", "labels", "why"),
    [
        ([0.1, 0.9], [1, 1], "one label alone"),
        ([0.9, 0.8, 0.1, 0.2], [0, 0, 1, 0], "no score does better than calling all pairs different"),
        ([0.9, 0.8, 0.1, 0.2], [0, 1, 1, 1], "no score does better than calling all pairs the same"),
    ],
)
def test_where_no_score_decides_there_is_no_threshold_and_a_reason(scores, labels, why):
    found = fitted_threshold((np.array(scores), np.array(labels)), None)
    assert found.value is None
    assert why in found.why
    json.dumps(vars(found), allow_nan=False)


def test_a_run_keeps_its_thresholds_in_its_result_and_beside_its_weights(runs):
    for run in runs:
        result = Result.read(run)
        kept = json.loads((run / "encoder" / "thresholds.json").read_text())
        assert kept["sets"] == {name: one.value for name, one in result.thresholds.items()}
        assert kept["default"] == "demo_qmc"
        assert kept["weights"] == result.weights
        for name, threshold in result.thresholds.items():
            if threshold.value is not None:
                assert threshold.accuracy == result.scores[f"test/{name}/accuracy"].value


def test_encoders_decide_in_the_shapes_of_their_scores(runs):
    for run, kind in zip(runs, (SentenceEncoder, CrossEncoder), strict=True):
        encoder = kind.load(run)
        scores = encoder.score(PAIRS)
        middle = float(np.median(scores))
        expected = (scores.astype(float) >= middle).tolist()
        assert encoder.is_same(PAIRS, threshold=middle).tolist() == expected
        assert encoder.is_same(PAIRS[0], threshold=middle) is expected[0]
        assert encoder.is_same(*PAIRS[0], threshold=middle) is expected[0]
        columns = map(list, zip(*PAIRS, strict=True))
        assert encoder.is_same(*columns, threshold=middle).tolist() == expected


def decide_by(run, folder, **changes):
    """The encoder of a run, with other thresholds beside it."""
    shutil.copytree(run / "encoder", folder)
    path = folder / "thresholds.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(content))
    return folder


def test_the_set_that_was_trained_on_decides_unless_another_is_named(runs, tmp_path):
    folder = decide_by(runs[0], tmp_path / "encoder", sets={"demo_qmc": -2.0, "demo_order": 2.0})
    encoder = SentenceEncoder.load(folder)
    assert encoder.is_same(PAIRS).all()
    assert not encoder.is_same(PAIRS, threshold="demo_order").any()


def deciding(f, **changes):
    sets = {"demo_qmc": 0.5, "demo_order": None}
    return SentenceEncoder.load(decide_by(f.runs[0], f.tmp_path / "encoder", **{"sets": sets} | changes))


def that_learnt(f):
    encoder = deciding(f)
    assert encoder.threshold() == 0.5
    with torch.no_grad():
        next(encoder.parameters()).add_(1)
    return encoder


REFUSED = [
    (
        lambda f: deciding(f).is_same(PAIRS, threshold="demo_qms"),
        "threshold=demo_qms: .*Did you mean demo_qmc",
    ),
    (lambda f: deciding(f, default=None).is_same(PAIRS), "name the set .*: demo_qmc, demo_order"),
    (lambda f: deciding(f).threshold("demo_order"), "threshold=demo_order"),
    (lambda f: that_learnt(f).threshold(), "has learnt since it was loaded"),
    (lambda f: deciding(f, weights="0").is_same(PAIRS), r"threshold=0\.7"),
]


@pytest.mark.parametrize(("call", "words"), rows({"a threshold": REFUSED}))
def test_thresholds_are_refused_where_they_are_not_of_these_weights(f, call, words):
    with pytest.raises(UserError, match=words):
        call(f)


def test_score_decides_pairs_and_files(runs, tmp_path, capsys):
    folder = decide_by(runs[0], tmp_path / "encoder", sets={"demo_qmc": -2.0, "demo_order": 2.0})
    assert main(["score", str(folder), *PAIRS[0], "--decide"]) == 0
    assert capsys.readouterr().out.endswith(" same (same from -2.0000 on)\n")
    assert main(["score", str(folder), *PAIRS[0], "--decide", "--threshold", "demo_order"]) == 0
    assert capsys.readouterr().out.endswith(" different (same from 2.0000 on)\n")
    table, out = tmp_path / "pairs.tsv", tmp_path / "scored.tsv"
    table.write_text("".join("\t".join(pair) + "\n" for pair in [("sentence1", "sentence2"), *PAIRS]))
    words = ["score", str(folder), "--decide", "--file", str(table), "--output", str(out)]
    assert main([*words, "--threshold", "0.5"]) == 0
    head, *lines = (line.split("\t") for line in out.read_text().splitlines())
    assert head == ["sentence1", "sentence2", "score", "same"]
    assert [line[3] == "1" for line in lines] == [float(line[2]) >= 0.5 for line in lines]
    assert main(["score", str(folder), *PAIRS[0], "--threshold", "0.5"]) == 0
    assert "0.5" in capsys.readouterr().out


@pytest.mark.parametrize("place", [0, 1])
def test_calibrate_says_the_threshold_of_the_run_and_score_decides_by_its_file(runs, place, tmp_path, capsys):
    run = runs[place]
    assert main(["calibrate", str(run), "--no-plot", "--sets", "demo_qmc", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    file = tmp_path / "calibration-demo_qmc.json"
    threshold = json.loads(file.read_text())["threshold"]
    assert threshold == vars(Result.read(run).thresholds["demo_qmc"])
    assert "same from" in printed
    limit = -math.inf if threshold["value"] is None else threshold["value"]
    if math.isfinite(limit):
        assert main(["score", str(run), *PAIRS[0], "--decide", "--calibration", str(file)]) == 0
        assert f"same from {limit:.4f} on" in capsys.readouterr().out
