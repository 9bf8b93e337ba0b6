"""Batches that compare nothing are told before training, move no weight, and raise no alarm about the temperature."""

from dataclasses import replace

import numpy as np
import pytest
from jobs import run_job, typed_job, weights
from test_learnable import rows_of

from callbacks.health import READINGS
from datamodules.datamodule import SentenceDataModule, only_stage
from juzhen.core.examples import Kind
from juzhen.data.loading import JobData
from launch import curriculum
from lightning_modules.loss_factory import Match, build_loss
from lightning_modules.trainability import check_learnable, comparisons
from tools.loss_table import losses_for, options

LOSSES = losses_for(options("model")["biencoder"])
LABELLED = rows_of(Kind.LABELLED_PAIR, targets=[1, 1, 0, 1], text_a=["a", "a", "b", "c"] * 2)
TRIPLETS = rows_of(Kind.TRIPLET, positive=["p", "q"] * 4, negative=["p", "r"] * 4)
SENTENCES = rows_of(Kind.SENTENCE, text=["s", "s", "t", "u"] * 2)
PAIRS = rows_of(Kind.POSITIVE_PAIR, anchor=["a", "a", "b", "c"] * 2)


def served(examples, **training):
    job = typed_job(f"dataset=[{examples.name}]", "benchmark=none", "training.duration=20 steps")
    for key, value in training.items():
        setattr(job.training, key, value)
    return job, SentenceDataModule(
        JobData({examples.name: examples}, []), only_stage([examples.name]), job=job
    )


@pytest.mark.parametrize(
    ("loss", "examples", "full", "empty"),
    [
        *(
            (name, LABELLED, [1, 2], [0, 1])
            for name in ("cosent", "margin_ranking", "circle", "cosent_weighted")
        ),
        *((name, PAIRS, [0, 2], [0, 1]) for name in ("info_nce", "info_nce_in_batch", "triplet_online")),
        ("nt_xent", PAIRS, [0, 1], [0]),
        *(
            (name, TRIPLETS, [0, 1], [0, 2])
            for name in ("triplet", "info_nce_own", "lambda_loss", "list_mle")
        ),
        ("info_nce", TRIPLETS, [1], []),
        ("simcse", SENTENCES, [0, 2], [0, 1]),
        ("contrastive", LABELLED, [0, 1], []),
        ("online_contrastive", LABELLED, [0, 1], []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.sampled(4)
def test_a_loss_compares_rows_that_differ_in_what_it_reads(loss, examples, full, empty):
    _, rows = served(examples)
    (compares,) = comparisons(rows, {examples.name: build_loss(LOSSES[loss], dim=4, num_classes=2)}).values()
    assert compares(np.array(full))
    assert not (empty and compares(np.array(empty)))


def test_lists_whose_teacher_knows_no_order_compare_nothing():
    scores = np.array([[1.0, 1.0], [1.0, 2.0]] * 4, dtype=np.float32)
    examples = replace(rows_of(Kind.TRIPLET), teacher_scores=scores)
    _, rows = served(examples)
    (compares,) = comparisons(
        rows, {examples.name: build_loss(LOSSES["list_mle"], dim=4, num_classes=2)}
    ).values()
    assert [compares(np.array(one)) for one in ([0, 2], [0, 1])] == [False, True]


@pytest.mark.parametrize(
    ("loss", "count", "zeros", "size", "words"),
    [
        (
            "cosent",
            60,
            1,
            2,
            ["29 of 30 batches (96.7 %)", "loss=cosent compares nothing", "label (96.7 %) cannot help"],
        ),
        (
            "cosent",
            60,
            10,
            6,
            ["batches (", "Type training.stratify_by=label (0.0 %), or raise training.batch_size=6"],
        ),
        ("online_contrastive", 60, 10, 2, ["the part of loss=online_contrastive that compares rows"]),
        ("cosent", 60, 30, 30, []),
        ("bce", 60, 1, 2, []),
    ],
)
def test_the_share_of_empty_batches_is_said_and_what_helps(loss, count, zeros, size, words):
    examples = rows_of(Kind.LABELLED_PAIR, targets=[0] * zeros + [1] * (count - zeros), count=count)
    job, rows = served(examples, batch_size=size)
    lines = [
        line
        for line in check_learnable(job, rows, {examples.name: Match(examples.kind, LOSSES[loss])})
        if "do not differ" in line
    ]
    assert len(lines) == bool(words)
    assert all(word in lines[0] for word in words)


QUICK = (
    *("evaluation.splits=[test]", "logger.every_steps=1", "debug_rows=24", "training.batch_size=8"),
    *("optimizer.decay=constant", "optimizer.warmup=0 steps"),
)


@pytest.fixture
def trained(tmp_path, tiny_backbone, monkeypatch):
    """Weights after a training of which the first `compare` batches compare something."""

    def run(compare, *words):
        drawn = {}  # a batch is drawn more than once: for its memory, for its text, to learn from it
        chosen = {"demo_sts": lambda rows: drawn.setdefault(tuple(rows), len(drawn)) < compare}
        monkeypatch.setattr(curriculum, "comparisons", lambda rows, losses: chosen)
        return weights(run_job(tmp_path / str(len(list(tmp_path.iterdir()))), tiny_backbone, *QUICK, *words))

    return run


@pytest.mark.slow
def test_steps_that_compare_nothing_move_no_weight(trained):
    """Neither by decay nor by the momentum of the steps before."""
    one = trained(1, "training.duration=1 steps")
    assert trained(1, "training.duration=6 steps") == one
    assert trained(0, "training.duration=3 steps") == trained(
        0, "training.duration=2 steps", "optimizer.lr=0.1"
    )


@pytest.mark.slow
def test_gathered_batches_make_a_step_where_one_compares(trained):
    gathered = ("training.accumulate=2", "training.duration=2 steps")
    assert (
        len({str(trained(compare, *gathered)) for compare in (0, 1, 2, 3)}) == 3
    )  # 1 and 2 make the first step


def test_the_temperature_is_not_blamed_for_them(trained, caplog):
    trained(0, f"training.duration={READINGS + 2} steps")
    assert "the gradient of the loss" not in caplog.text
