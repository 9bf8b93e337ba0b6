"""Jobs with a token cache end as jobs without one; sharing sentences changes dropout and nothing else."""

import pytest
from jobs import interrupt, key_of, logged, run_job, weights

from juzhen.core.array_cache import read_arrays
from juzhen.encoders.sentence_encoder import SentenceEncoder

LARGE = ("debug_rows=1500", "training.duration=12 steps", "training.checkpoint_every=2 steps")
"""More sentences than are tokenised each time."""


@pytest.mark.slow
def test_a_killed_run_continues_from_the_cache_to_the_same_weights(tmp_path, tiny_backbone, monkeypatch):
    whole = run_job(tmp_path / "whole", tiny_backbone, *LARGE, "cache_dir=null")
    kept = f"cache_dir={tmp_path / 'cache'}"
    assert interrupt(tmp_path / "cut", tiny_backbone, 5, "SIGKILL", *LARGE, kept, "resume=auto") == -9
    (kept_table,) = (tmp_path / "cache" / "tokens").glob("*.safetensors")
    num_sentences = len(read_arrays(kept_table)["offsets"]) - 1
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
            found[dropout, shares] = logged(run_job(tmp_path, tiny_backbone, *steps, *words))
    assert found["0.0", "true"] == pytest.approx(found["0.0", "false"], rel=1e-3)
    assert found["0.3", "true"] != pytest.approx(found["0.3", "false"], rel=1e-3)


def test_what_is_part_of_the_run_key():
    assert key_of("cache_dir=null", "sweep_row=a") == key_of("cache_dir=/elsewhere") == key_of()
    assert key_of("training.share_sentences=false") != key_of()
