"""Jobs with a token cache end as jobs without one; sharing sentences changes dropout and nothing else."""

import csv

import pytest
from jobs import compose_job, run_job
from omegaconf import OmegaConf
from test_resume import interrupt, weights

from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.token_cache import read_table
from launch.naming import run_key

LARGE = ("debug_rows=1500", "training.duration=12 steps", "training.checkpoint_every=2 steps")
"""More sentences than are tokenised each time."""


def losses(run):
    with (run / "metrics" / "0" / "metrics.csv").open() as file:
        return [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]


@pytest.mark.slow
def test_a_killed_run_continues_from_the_cache_to_the_same_weights(tmp_path, tiny_backbone, monkeypatch):
    whole = run_job(tmp_path / "whole", tiny_backbone, *LARGE, "cache_dir=null")
    kept = f"cache_dir={tmp_path / 'cache'}"
    done = interrupt(tmp_path / "cut", tiny_backbone, 5, "SIGKILL", *LARGE, kept, "resume=auto")
    assert done.returncode == -9, done.stderr
    (kept_table,) = (tmp_path / "cache" / "tokens").iterdir()
    num_sentences = len(read_table(kept_table))
    asked = []
    plain = SentenceEncoder.tokenize
    monkeypatch.setattr(
        SentenceEncoder,
        "tokenize",
        lambda self, texts, **more: asked.append(len(texts)) or plain(self, texts, **more),
    )
    finished = run_job(tmp_path / "cut", tiny_backbone, *LARGE, kept, "resume=auto")
    assert finished.name == whole.name, "where tokens are kept is no part of a run"
    assert weights(finished) == weights(whole)
    assert asked, "the evaluation sentences had not been needed before the kill"
    assert num_sentences not in asked, "the training sentences were tokenised again"


@pytest.mark.slow
def test_worker_processes_read_the_same_table(tmp_path, tiny_backbone):
    alone = run_job(tmp_path / "alone", tiny_backbone, *LARGE, "cache_dir=null")
    for turn in ("writes", "reads"):
        run = run_job(
            tmp_path / turn,
            tiny_backbone,
            *LARGE,
            f"cache_dir={tmp_path / 'cache'}",
            "hardware.num_workers=2",
        )
        assert weights(run) == weights(alone)


@pytest.mark.slow
def test_sentences_that_are_not_shared_change_nothing_but_dropout(tmp_path, tiny_backbone):
    steps = ("dataset=[demo_qmc]", "loss=info_nce", "training.duration=6 steps", "logger.every_steps=1")
    found = {}
    for dropout in ("0.0", "0.3"):
        for shares in ("true", "false"):
            words = (f"training.share_sentences={shares}", f"backbone.dropout={dropout}", "debug_rows=24")
            found[dropout, shares] = losses(run_job(tmp_path, tiny_backbone, *steps, *words))
    assert found["0.0", "true"] == pytest.approx(found["0.0", "false"], rel=1e-3)
    assert found["0.3", "true"] != pytest.approx(found["0.3", "false"], rel=1e-3)


def test_what_is_part_of_the_run_key():
    def key(*overrides):
        return run_key(OmegaConf.to_container(compose_job(*overrides), resolve=False))

    assert key("cache_dir=null", "sweep_row=a") == key("cache_dir=/elsewhere") == key()
    assert key("training.share_sentences=false") != key()
