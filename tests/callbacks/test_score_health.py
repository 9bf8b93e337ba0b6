"""What is watched of scores that are no cosines, and that the alarm goes when all are alike."""

import json
import logging

import numpy as np
import pytest
from jobs import logged, run_job, weights

from callbacks.health import ScoreHealth, score_summary

QUICK = ("training.duration=6 steps", "training.validate_every=3 steps", "evaluation.splits=[dev]")
JOINT = ("model=crossencoder", *QUICK)


def test_numbers_by_hand():
    scores, grades = np.array([2.0, 0.0, 1.0, -3.0]), np.array([1.0, 1.0, 0.0, 0.0])
    found = score_summary(scores, grades, called="score")
    assert found == {
        "score_mean": 0,
        "score_variance": 3.5,
        "score_ks": 0.5,
        "score_ks_p_value": pytest.approx(0.9639, abs=1e-3),
        "score_of_positives": 1,
        "score_of_negatives": -1,
        "score_gap": 2,
    }
    assert score_summary(scores, np.ones(4), called="score")["score_gap"] is None


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_backbone):
    """A watched cross-encoder and the same one unwatched."""
    folder = tmp_path_factory.mktemp("runs")
    watched = run_job(folder / "a", tiny_backbone, *JOINT)
    return watched, run_job(folder / "b", tiny_backbone, *JOINT, "callbacks.score_health=null")


@pytest.mark.slow
def test_scores_of_a_cross_encoder_are_watched(runs):
    lines = [json.loads(line) for line in (runs[0] / "scores.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [3, 6]
    for line in lines:
        assert line["score_variance"] > 0
        assert line["score_gap"] == pytest.approx(line["score_of_positives"] - line["score_of_negatives"])
        assert 0 <= line["score_ks"] <= 1
        assert 0 < line["gradient_norm"] <= line["largest_gradient_norm"]
        assert sum(line["scores"]["positives"] + line["scores"]["negatives"]) == 48
    assert logged(runs[0], "health/score_gap") == [pytest.approx(line["score_gap"]) for line in lines]
    logs = logged(runs[0], "dev/demo_sts/ks")[:2]  # the last one is that of the weights that were chosen
    assert logs == [pytest.approx(line["score_ks"]) for line in lines]
    assert not (runs[0] / "health.jsonl").exists()


@pytest.mark.slow
def test_watching_changes_nothing(runs):
    watched, alone = runs
    assert not (alone / "scores.jsonl").exists()
    assert watched.name == alone.name
    for name in ("model", "head"):
        assert weights(watched, name) == weights(alone, name)


@pytest.mark.slow
def test_a_bilinear_score_is_watched_beside_the_space(tmp_path, tiny_backbone):
    run = run_job(tmp_path, tiny_backbone, *QUICK, "model.score=bilinear")
    (scores, *_), (space, *_) = (
        [json.loads(line) for line in (run / name).read_text().splitlines()]
        for name in ("scores.jsonl", "health.jsonl")
    )
    assert scores["score_mean"] != space["cosine_mean"]
    cosine = run_job(tmp_path / "cosine", tiny_backbone, *QUICK)
    assert not (cosine / "scores.jsonl").exists()


def judged(variance):
    found = {"score_variance": variance, "score_mean": 0.5}
    ScoreHealth(collapse_spread=0.01, on_collapse="warn")._judge(7, found)


def test_the_alarm_goes_where_all_pairs_score_alike(caplog):
    with caplog.at_level(logging.WARNING):
        judged(1e-6)
    assert "the scores have collapsed at step 7: they deviate by 0.001" in caplog.text
    caplog.clear()
    judged(1e-3)
    assert not caplog.text
