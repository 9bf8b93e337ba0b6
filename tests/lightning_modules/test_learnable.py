"""Training that could not learn is refused before it starts; what it can do only in part is said in a line."""

from dataclasses import replace

import numpy as np
import pytest
from jobs import typed_job
from test_broken_inputs import GOOD, OWN, Desk, says

from conf.job import SetConfig
from datamodules.datamodule import SentenceDataModule, only_stage
from juzhen.core.errors import UserError
from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
from juzhen.data.loading import JobData
from lightning_modules.biencoder import BiEncoder
from lightning_modules.loss_factory import Match
from lightning_modules.trainability import check_learnable
from tools.loss_table import losses_for, options

NAMES = {Kind.SCORED_PAIR: "demo_sts", Kind.LABELLED_PAIR: "demo_qmc", Kind.NLI_PAIR: "demo_nli"}


@pytest.fixture(scope="module")
def job():
    sets = f"dataset=[{','.join(NAMES.values())}]"
    return typed_job(sets, "benchmark=none", "training.batch_size=4", "training.duration=9 steps")


@pytest.fixture(scope="module")
def losses():
    return losses_for(options("model")["biencoder"])


def rows_of(kind, *, targets=None, count=8, name=None, split="train", **texts):
    """Rows of that kind whose texts all differ, except in columns that are given."""
    columns = {column: [f"{column} {row}" for row in range(count)] for column in TEXT_COLUMNS[kind]}
    columns |= {
        column: [value] * count if isinstance(value, str) else value for column, value in texts.items()
    }
    return Examples.from_texts(
        name or NAMES.get(kind, "demo_sts"),
        split,
        kind=kind,
        texts=columns,
        targets=None if targets is None else np.resize(np.asarray(targets, dtype=np.float32), count),
        lines=np.arange(2, count + 2, dtype=np.int32),
        num_classes=2,
    )


def told(job, losses, loss, *sets, dev=(0.0, 1.0), training=None, **groups):
    """The lines about a stage that learns from `sets` with one loss. `dev`: gold values of its dev split."""
    job = replace(job, training=replace(job.training, **training or {}), **groups)
    dev = [rows_of(Kind.SCORED_PAIR, targets=dev, name=one.name, split="dev") for one in sets] if dev else []
    data = JobData({one.name: one for one in sets}, dev)
    rows = SentenceDataModule(data, only_stage([one.name for one in sets]), job=job)
    return check_learnable(job, rows, {one.name: Match(one.kind, losses[loss]) for one in sets})


GRADED, BINARY, PAIRS, TRIPLETS = Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.POSITIVE_PAIR, Kind.TRIPLET

FINE = {
    "graded": ("cosent", rows_of(GRADED, targets=[0, 0.5, 1])),
    "0/1": ("contrastive", rows_of(BINARY, targets=[0, 1])),
    "positives": ("info_nce", rows_of(PAIRS)),
    "one text on one side": ("nt_xent", rows_of(PAIRS, positive="今天")),
    "triplets": ("triplet", rows_of(TRIPLETS)),
    "sentences": ("simcse", rows_of(Kind.SENTENCE)),
    "one positive for all, with negatives": ("info_nce", rows_of(TRIPLETS, positive="same")),
}


@pytest.mark.parametrize("name", FINE)
def test_nothing_is_said_of_rows_that_teach(job, losses, name):
    assert told(job, losses, *FINE[name]) == []


HOPELESS = {
    "a set that debug_rows cut down": (
        "cosent",
        rows_of(GRADED, targets=[1], count=1),
        {"debug_rows": 1},
        ["Raise debug_rows=1, or choose another loss"],
    ),
    "equal scores": (
        "cosent",
        rows_of(GRADED, targets=[0.6]),
        {},
        ["8 rows", "gold value 3", "cosent learns from"],
    ),
    "equal labels": (
        "cosent",
        rows_of(BINARY, targets=[1]),
        {},
        ["gold value 1", "dataset.demo_qmc.layouts"],
    ),
    "equal classes": ("cosent", rows_of(Kind.NLI_PAIR, targets=[2]), {}, ["gold value contradiction"]),
    "all positives, circle": ("circle", rows_of(BINARY, targets=[1]), {}, ["gold value 1"]),
    "all positives, contrastive": (
        "contrastive",
        rows_of(BINARY, targets=[1]),
        {},
        ["of one class, 1", "several"],
    ),
    "one class, softmax": ("softmax", rows_of(Kind.NLI_PAIR, targets=[1]), {}, ["of one class, neutral"]),
    "a single row": ("cosent", rows_of(GRADED, targets=[1], count=1), {}, ["1 row, no other"]),
    "a single pair": ("info_nce", rows_of(PAIRS, count=1), {}, ["1 row, no other"]),
    "a batch of one": (
        "cosent",
        rows_of(GRADED, targets=[0, 1]),
        {"batch_size": 1},
        ["training.batch_size=1", "16"],
    ),
    "a batch of one pair": (
        "info_nce",
        rows_of(PAIRS),
        {"batch_size": 1},
        ["training.batch_size=1", "other texts"],
    ),
    "one anchor": (
        "info_nce",
        rows_of(PAIRS, anchor="今天"),
        {},
        ["the anchor '今天'", "telling texts apart"],
    ),
    "one positive": ("info_nce", rows_of(PAIRS, positive="今天"), {}, ["the positive '今天'"]),
    "one text on each side": ("nt_xent", rows_of(PAIRS, anchor="今", positive="天"), {}, ["the anchor '今'"]),
    "one sentence": ("simcse", rows_of(Kind.SENTENCE, text="今天"), {}, ["the text '今天'"]),
    "negatives that are positives": (
        "triplet",
        rows_of(TRIPLETS, positive="同", negative="同"),
        {},
        ["every negative is its row's positive"],
    ),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_training_that_cannot_learn_is_refused(job, losses, name):
    loss, rows, settings, parts = HOPELESS[name]
    settings = settings if "debug_rows" in settings else {"training": settings}
    with pytest.raises(UserError) as caught:
        told(job, losses, loss, rows, **settings)
    says(str(caught.value), *parts)
    assert "\n" not in str(caught.value)


DOUBTFUL = {
    "equal scores, regression": ("cosine", rows_of(GRADED, targets=[0.2]), {}, ["gold value 1", "one score"]),
    "a batch of one, in part": (
        "cosent_bce",
        rows_of(GRADED, targets=[0, 1]),
        {"batch_size": 1},
        ["training.batch_size=1: the part of loss=cosent_bce"],
    ),
    "a batch larger than the set": (
        "cosent",
        rows_of(GRADED, targets=[0, 1]),
        {"batch_size": 4096},
        ["training.batch_size=4096: demo_sts has 8 rows", "every batch holds 8"],
    ),
    "some negatives that are positives": (
        "triplet",
        rows_of(TRIPLETS, positive=["同", *"abcdefg"], negative=["同", *"hijklmn"]),
        {},
        ["1 with a negative that is the positive, first in line 2"],
    ),
    "less than a step": (
        "cosent",
        rows_of(GRADED, targets=[0, 1]),
        {"duration": "0.01 epochs"},
        ["training.duration=0.01 epochs is 0.02 of a step"],
    ),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_training_that_learns_less_than_was_meant_is_told_in_a_line(job, losses, name):
    loss, rows, training, parts = DOUBTFUL[name]
    (line,) = told(job, losses, loss, rows, training=training)
    says(line, *parts)


def test_the_size_of_a_set_of_its_own_is_named_by_its_own_key(job, losses):
    schedule = replace(job.schedule, sets={"demo_sts": SetConfig(batch_size=4096)})
    (line,) = told(job, losses, "cosent", rows_of(GRADED, targets=[0, 1]), schedule=schedule)
    assert line.startswith("schedule.sets.demo_sts.batch_size=4096: demo_sts has 8 rows")


def test_a_warmup_beyond_the_training_is_told(job, losses):
    optimizer = replace(job.optimizer, warmup="100 steps")
    (line,) = told(job, losses, "cosent", rows_of(GRADED, targets=[0, 1]), optimizer=optimizer)
    assert "optimizer.warmup=100 steps is longer than the training of 9 steps" in line


def test_a_training_that_is_never_validated_is_told(job, losses):
    rows = rows_of(GRADED, targets=[0, 1])
    (line,) = told(job, losses, "cosent", rows, dev=None)
    assert "no dev split is scored" in line
    assert "the weights of the last step are kept" in line
    (line,) = told(job, losses, "cosent", rows, dev=[0.5])
    assert "dev/demo_sts: all gold values are equal (8 rows)" in line


def test_one_class_in_a_mixture_may_be_told_from_the_other_set(job, losses):
    positive = rows_of(BINARY, targets=[1])
    (line,) = told(job, losses, "contrastive", positive, rows_of(BINARY, targets=[0, 1], name="demo_sts"))
    assert "demo_qmc/train: 8 rows: all are of one class, 1. Only other sets" in line


def test_a_job_says_it_before_it_loads_a_model(tmp_path, tiny_backbone, capsys, monkeypatch):
    desk = Desk(tmp_path, tiny_backbone, capsys)
    monkeypatch.setattr(
        BiEncoder, "load_encoder", lambda *given, **options: pytest.fail("a model was loaded")
    )
    told = desk.refuses(*OWN, "training.batch_size=1")
    says(
        told, "training.batch_size=1: loss=cosent compares a row with rows of other gold values in its batch"
    )
    desk.write("train.tsv", GOOD.replace("4.0", "1.0").replace("5.0", "1.0").encode())
    says(desk.refuses(*OWN), "demo_sts/train: 3 rows, all of them have the gold value 1")
