"""Batches by length: nothing lost, like lengths together, every label in every batch, the order reproducible."""

from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sampler import assert_late_start_is_the_tail

from juzhen.data.sampler import BatchStream, Shape, arrange, fifths, strata, stratified


def made(lengths, classes=None, *, batch_size=8, window=4, seed=0):
    lengths = np.asarray(lengths)
    made = BatchStream({"a": len(lengths)}, batch_size=batch_size, num_batches=60, seed=seed)
    made.shapes = {"a": Shape(lengths, strata(classes, len(lengths)))}
    made.window = window
    return made


@given(st.lists(st.integers(1, 60), min_size=1, max_size=300), st.integers(1, 9), st.integers(0, 3))
@settings(max_examples=60)
def test_each_row_is_seen_once_per_epoch(lengths, window, epoch):
    rows = np.concatenate([rows for _, rows in made(lengths, window=window).epoch(epoch)])
    assert sorted(rows) == list(range(len(lengths)))


def test_rows_of_a_batch_are_of_like_length():
    lengths = np.random.default_rng(0).integers(3, 64, size=4096)

    def padding(window):
        batches = made(lengths, batch_size=64, window=window).epoch(0)
        return np.mean([1 - lengths[rows].mean() / lengths[rows].max() for _, rows in batches])

    assert padding(1) > 0.4
    assert padding(16) < 0.08


def test_every_batch_has_its_share_of_each_label_even_when_one_label_has_the_longer_rows():
    classes = (np.arange(1024) % 4 == 0).astype(np.float32)
    lengths = np.where(classes == 1, 40, 10) + np.random.default_rng(0).integers(0, 5, 1024)
    stream = made(lengths, classes, batch_size=32, window=32)
    shares = [classes[rows].mean() for _, rows in stream.epoch(0)]
    assert min(shares) > 0.2
    assert max(shares) < 0.3


def test_graded_targets_are_balanced_by_fifths():
    groups = strata(np.linspace(0, 1, 1000, dtype=np.float32), 1000)
    assert np.bincount(groups).tolist() == [200] * 5
    assert strata(np.array([0, 5, 3, 5], dtype=np.float32), 4).tolist() == [0, 2, 1, 2]
    assert strata(None, 3).tolist() == [0, 0, 0]
    assert strata(np.arange(10.0), 10).tolist() == [*range(10)]  # classes, and one more are grades
    assert strata(np.arange(11.0), 11).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4]


def test_rows_stay_inside_their_window():
    order, lengths = np.random.default_rng(1).permutation(100), np.arange(100)
    arranged = arrange(order, Shape(lengths, np.zeros(100, dtype=int)), window_rows=30)
    for start in range(0, 100, 30):
        assert arranged[start : start + 30].tolist() == sorted(order[start : start + 30])


@given(st.integers(0, 59))
@settings(max_examples=20)
def test_a_stream_started_late_equals_the_tail_of_the_whole(start):
    lengths = np.random.default_rng(2).integers(1, 30, 100)
    assert_late_start_is_the_tail(lambda: made(lengths), start)


def test_epochs_and_seeds_differ():
    lengths = np.full(64, 9)
    first, second = made(lengths).epoch(0), made(lengths).epoch(1)
    other = made(lengths, seed=1).epoch(0)
    assert any(not np.array_equal(x[1], y[1]) for x, y in zip(first, second, strict=True))
    assert any(not np.array_equal(x[1], y[1]) for x, y in zip(first, other, strict=True))


def of_strata(by, targets, lengths, *, batch_size=16, seed=0):
    """A stream whose batches hold what `by` says in proportion."""
    stream = BatchStream({"a": len(lengths)}, batch_size=batch_size, num_batches=0, seed=seed)
    stream.shapes = {"a": stratified(by, targets, lambda: lengths, len(lengths))}
    stream.window = max(stream.batches_of.values())
    stream.num_batches = 3 * stream.batches_per_epoch
    return stream


def most_off(stream, groups):
    """By how many rows at most a batch holds more or less of a group than its share, over an epoch."""
    shares = np.bincount(groups) / len(groups)
    return max(
        np.abs(np.bincount(groups[rows], minlength=len(shares)) - shares * len(rows)).max()
        for _, rows in stream.epoch(0)
    )


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60)), min_size=1, max_size=300),
    st.sampled_from(["label", "length", "label_length"]),
    st.integers(0, 2),
)
@settings(max_examples=60)
def test_strata_lose_no_row_and_a_late_start_is_the_tail(rows, by, epoch):
    labels, lengths = np.array(rows).T
    make = partial(of_strata, by, labels.astype(np.float32), lengths)
    stream = make()
    seen = np.concatenate([rows for _, rows in stream.epoch(epoch)])
    assert sorted(seen) == list(range(len(lengths)))
    assert_late_start_is_the_tail(make, len(stream) // 2)


def test_every_batch_holds_labels_or_lengths_in_proportion():
    generator = np.random.default_rng(3)
    labels = (generator.random(1000) < 0.1).astype(np.float32)
    lengths = generator.integers(4, 60, 1000)
    groups = {"label": labels.astype(int), "length": fifths(lengths)}
    groups["label_length"] = 5 * groups["label"] + groups["length"]
    chance = BatchStream({"a": 1000}, batch_size=16, num_batches=0, seed=0)
    for by, kept in (("label", ["label"]), ("length", ["length"]), ("label_length", ["label", "length"])):
        stream = of_strata(by, labels, lengths)
        for name, members in groups.items():
            assert (most_off(stream, members) <= 2) >= (name in kept), (by, name)
        for name in kept:
            assert most_off(chance, groups[name]) > 2
    grades = np.linspace(0, 1, 1000, dtype=np.float32)
    assert most_off(of_strata("label", grades, lengths), fifths(grades)) <= 2


def test_strata_leave_the_rest_to_chance():
    """Two epochs put other rows of a class together, and lengths are looked at only where they are asked for."""
    labels = np.tile([0.0, 1.0], 64).astype(np.float32)
    stream = of_strata("label", labels, np.ones(128))
    first, second = ([sorted(rows) for _, rows in stream.epoch(epoch)] for epoch in (0, 1))
    assert first != second
    stratified("label", labels, lambda: 1 / 0, 128)
