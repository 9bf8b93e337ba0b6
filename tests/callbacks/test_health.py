"""The health of the space: what is measured, when the alarm goes, and that a run is not changed by it."""

import json
import logging

import numpy as np
import pytest
import torch
from jobs import run_job, tiny_encoder, weights

from callbacks.health import SpaceHealth, SpaceMeter
from juzhen.core.examples import Examples, Kind
from juzhen.data.loading import Probe
from juzhen.metrics.geometry import alignment, mean_cosine, uniformity

QUICK = ("training.duration=6 steps", "training.validate_every=3 steps", "evaluation.splits=[dev]")


def pairs(name="some", count=30):
    texts = {
        "text_a": [f"今天{row}" for row in range(count)],
        "text_b": [f"天气{row}" for row in range(count)],
    }
    targets = np.linspace(0, 1, count)
    return Examples.from_texts(name, "dev", kind=Kind.SCORED_PAIR, texts=texts, targets=targets)


@pytest.fixture
def encoder(tiny_backbone):
    return tiny_encoder(tiny_backbone)


def test_a_probe_is_a_share_of_each_set_and_the_same_for_a_seed():
    sets = [pairs("one"), pairs("two", count=100)]
    probe = Probe.drawn(sets, num_sentences=40, seed=1)
    assert probe.pairs.shape == (2, 20)
    assert len(probe.sentences) <= 40
    assert len(set(probe.sentences)) == len(probe.sentences)
    assert [probe.sentences[place][2:] for place in probe.pairs[0]] == [
        probe.sentences[place][2:] for place in probe.pairs[1]
    ]
    again, other = (Probe.drawn(sets, num_sentences=40, seed=seed) for seed in (1, 2))
    assert again.sentences == probe.sentences
    assert other.sentences != probe.sentences
    texts = Examples("text", "dev", Kind.SENTENCE, ["a"], {"text": np.zeros(1, np.int32)}, None)
    assert Probe.drawn([texts], num_sentences=40, seed=1) is None


def test_numbers_are_those_of_the_embeddings_and_dropout_is_off(encoder):
    probe = Probe.drawn([pairs()], num_sentences=60, seed=0)
    meter = SpaceMeter(encoder.train(), probe, batch_tokens=64)
    found, again = meter.measure(), meter.measure()
    assert found == again
    assert encoder.training
    embeddings = encoder.encode(probe.sentences, batch_tokens=64, show_progress=False)
    assert found["uniformity"] == pytest.approx(uniformity(embeddings), abs=1e-4)
    assert found["mean_cosine"] == pytest.approx(mean_cosine(embeddings), abs=1e-4)
    close = probe.grades >= 0.8
    first, second = embeddings[probe.pairs]
    assert found["alignment"] == pytest.approx(alignment(first[close], second[close]), abs=1e-4)
    histogram = meter.histogram()
    assert sum(histogram["positives"]) == int((probe.grades > 0.5).sum())
    assert sum(histogram["positives"]) + sum(histogram["negatives"]) == probe.pairs.shape[1]


def judged(found, *, on_collapse="warn"):
    numbers = {"probe_sentences": 10, "collapse_cosine": 0.98, "collapse_rank": 2.0}
    SpaceHealth(**numbers, on_collapse=on_collapse)._judge(7, found)


def test_the_alarm_goes_for_a_collapsed_encoder_and_for_no_other(encoder, caplog):
    meter = SpaceMeter(encoder, Probe.drawn([pairs()], num_sentences=60, seed=0), batch_tokens=64)
    with torch.no_grad():
        last = encoder.backbone.encoder.layer[-1].output.LayerNorm
        last.weight.mul_(1e-3)  # all that is left is the bias, the same for every sentence
        last.bias.fill_(1.0)
    collapsed = meter.measure()
    with caplog.at_level(logging.WARNING):
        judged(collapsed)
    assert "collapsed at step 7" in caplog.text
    caplog.clear()
    judged({"mean_cosine": 0.4, "effective_rank": 11.0}, on_collapse="stop")
    assert not caplog.text


@pytest.mark.slow
def test_a_job_logs_its_health_and_learns_the_same_without(tmp_path, tiny_backbone):
    watched = run_job(tmp_path / "a", tiny_backbone, *QUICK)
    lines = [json.loads(line) for line in (watched / "health.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [3, 6]
    for name in (
        "alignment",
        "uniformity",
        "mean_cosine",
        "effective_rank",
        "isotropy",
        "neighbour_similarity",
        "first_component_isotropy",
        "norm_mean",
        "norm_deviation",
    ):
        assert isinstance(lines[0][name], float), name
    assert 0 < lines[0]["gradient_norm"] <= lines[0]["largest_gradient_norm"]
    header = (watched / "metrics" / "0" / "metrics.csv").read_text().splitlines()[0]
    assert "health/uniformity" in header
    alone = run_job(tmp_path / "b", tiny_backbone, *QUICK, "callbacks.space_health=null")
    assert not (alone / "health.jsonl").exists()
    assert alone.name == watched.name  # the same run, as far as numbers go
    assert weights(watched) == weights(alone)
