"""The batch stream: each row once per epoch, one dataset per batch, the same order for the same seed."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juzhen.data.sampler import BatchStream, TokenBudget, apportion

sizes = st.dictionaries(st.sampled_from("abc"), st.integers(1, 200), min_size=1)


def stream(size_of, *, batch_size=8, num_batches=None, seed=0, **more):
    made = BatchStream(size_of, batch_size=batch_size, num_batches=0, seed=seed, **more)
    made.num_batches = made.batches_per_epoch if num_batches is None else num_batches
    return made


def assert_late_start_is_the_tail(make, start):
    """A stream that begins with batch `start` goes on as the whole one does."""
    late = make()
    late.start = start
    for left, right in zip(list(make())[start:], late, strict=True):
        assert (left.number, left.task) == (right.number, right.task)
        assert np.array_equal(left.rows, right.rows)


@given(sizes, st.integers(1, 40), st.integers(0, 5))
@settings(max_examples=60)
def test_every_row_is_seen_once_per_epoch(size_of, batch_size, epoch):
    batches = stream(size_of, batch_size=batch_size).epoch(epoch)
    seen = Counter((task, row) for task, rows in batches for row in rows)
    assert seen == Counter((task, row) for task, size in size_of.items() for row in range(size))


@given(st.integers(1, 500), st.integers(2, 64))
@settings(max_examples=100)
def test_no_batch_is_larger_than_asked_and_no_tail_is_tiny(size, batch_size):
    lengths = [len(rows) for _, rows in stream({"a": size}, batch_size=batch_size).epoch(0)]
    assert max(lengths) <= batch_size
    assert len(lengths) == -(-size // batch_size)
    if size > batch_size:
        assert min(lengths) >= batch_size // 2


def test_order_depends_on_seed_and_epoch():
    base = stream({"a": 100}).epoch(0)
    again = stream({"a": 100}).epoch(0)
    assert all(np.array_equal(x[1], y[1]) for x, y in zip(base, again, strict=True))
    for other in (stream({"a": 100}).epoch(1), stream({"a": 100}, seed=1).epoch(0)):
        assert any(not np.array_equal(x[1], y[1]) for x, y in zip(base, other, strict=True))


@given(sizes, st.integers(0, 60))
@settings(max_examples=40)
def test_a_stream_started_late_equals_the_tail_of_the_whole(size_of, start):
    assert_late_start_is_the_tail(lambda: stream(size_of, num_batches=60), start)


def test_processes_share_each_batch_without_overlap():
    parts = [list(stream({"a": 70, "b": 33}, rank=rank, world=3)) for rank in range(3)]
    whole = list(stream({"a": 70, "b": 33}))
    for position, batch in enumerate(whole):
        together = np.concatenate([part[position].rows for part in parts])
        assert {part[position].task for part in parts} == {batch.task}
        assert sorted(together) == sorted(batch.rows)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=200), st.integers(1, 300))
@settings(max_examples=60)
def test_token_budget_is_kept_and_nothing_is_lost(lengths, max_tokens):
    lengths = np.array(lengths)
    batches = list(TokenBudget(lengths, max_tokens=max_tokens))
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) == 1 or lengths[rows].max() * len(rows) <= max_tokens


@pytest.mark.parametrize("world", [1, 2, 5])
def test_token_budget_is_shared_without_padding(world):
    lengths = np.arange(1, 40)
    parts = [
        batch
        for rank in range(world)
        for batch in TokenBudget(lengths, max_tokens=64, rank=rank, world=world)
    ]
    assert sorted(np.concatenate(parts)) == list(range(39))


def test_shares_decide_how_often_a_set_comes():
    made = stream({"a": 80, "b": 40, "c": 8}, shares={"a": 1, "b": 1, "c": 2})
    assert made.batches_per_epoch == 16  # as many as without shares
    assert Counter(task for task, _ in made.epoch(0)) == {"a": 4, "b": 4, "c": 8}
    own = stream({"a": 80, "b": 40}, batch_size={"a": 8, "b": 20})
    assert Counter((task, len(rows)) for task, rows in own.epoch(0)) == {("a", 8): 10, ("b", 20): 2}


def test_sets_come_in_turn():
    made = stream({"a": 80, "b": 40, "c": 8}, order="in_turn", num_batches=40)
    assert made.batches_per_epoch == 18  # as many as else, in whole turns
    assert [batch.task for batch in made] == (14 * ["a", "b", "c"])[:40]
    rows = [row for batch in made if batch.task == "a" for row in batch.rows.tolist()]
    assert sorted(rows[:80]) == list(range(80))
    assert_late_start_is_the_tail(
        lambda: stream({"a": 80, "b": 40, "c": 8}, order="in_turn", num_batches=40), 23
    )


@given(st.integers(0, 3), st.integers(0, 90))
@settings(max_examples=20)
@pytest.mark.slow
def test_sets_are_drawn_by_their_shares(seed, start):
    """The four tasks of weights 2, 1, 1 and 0.5."""
    weights = {"retrieval": 2.0, "sts": 1.0, "classes": 1.0, "clusters": 0.5}
    size_of = {"retrieval": 800, "sts": 100, "classes": 80, "clusters": 30}

    def made():
        return stream(size_of, seed=seed, shares=weights, order="drawn", num_batches=4000)

    drawn = Counter(batch.task for batch in made())
    for name, weight in weights.items():
        share = weight / 4.5
        assert abs(drawn[name] / 4000 - share) < 4 * (share * (1 - share) / 4000) ** 0.5
    seen = Counter(row for batch in made() if batch.task == "sts" for row in batch.rows.tolist())
    assert max(seen.values()) - min(seen.values()) <= 1
    late, whole = made(), list(made())[3900 + start :]
    late.start = 3900 + start
    for left, right in zip(whole, late, strict=True):
        assert (left.number, left.task) == (right.number, right.task)
        assert np.array_equal(left.rows, right.rows)


@given(sizes, st.lists(st.floats(0.01, 100), min_size=3, max_size=3), st.integers(0, 80))
@settings(max_examples=40)
def test_with_shares_no_row_comes_again_before_all_others_have(size_of, shares, start):
    chosen = dict(zip(size_of, shares, strict=False))
    whole = stream(size_of, num_batches=120, shares=chosen)
    seen = {task: Counter() for task in size_of}
    for epoch in range(4):
        batches = whole.epoch(epoch)
        assert {task for task, _ in batches} == set(size_of)
        for task, rows in batches:
            seen[task].update(rows.tolist())
        for task, size in size_of.items():
            counts = [seen[task][row] for row in range(size)]
            assert max(counts) - min(counts) <= 1
    assert_late_start_is_the_tail(lambda: stream(size_of, num_batches=120, shares=chosen), start)


HALVES = {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("how", "batches", "expected"),
    [
        ({}, {"a": 3, "b": 2}, "a13 b02 a0 b31 a42 a14 b23 b01 a02 a3"),
        ({"shares": HALVES}, {"a": 2, "b": 3}, "b12 b32 a40 b01 a13 a24 b21 a2 b03 b03"),
        (
            {"shares": HALVES, "order": "drawn"},
            {"a": 5 / 3, "b": 10 / 3},
            "b32 b01 a13 b12 b03 b03 b21 a40 a2 b32",
        ),
        ({"order": "in_turn"}, {"a": 3, "b": 3}, "a13 b32 a40 b01 a2 b12 a24 b03 a30 b03 a1 b21"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_run_of_before_goes_on_with_the_rows_that_it_would_have_had(how, batches, expected):
    """Rows of two epochs: what is drawn is part of what a checkpoint counts on."""
    made = stream({"a": 5, "b": 4}, batch_size=2, seed=3, **how)
    made.num_batches = 2 * made.batches_per_epoch
    assert dict(made.mean_batches) == pytest.approx(batches)
    assert made.mean_batch_size == 2
    assert " ".join(f"{one.task}{''.join(map(str, one.rows))}" for one in made) == expected
    assert [one.number for one in made] == list(range(len(made)))


@given(st.integers(1, 60), st.dictionaries(st.sampled_from("abcde"), st.integers(1, 50), min_size=1))
def test_whole_parts_are_within_one_of_the_exact_ones(total, shares):
    counts = apportion(total, shares)
    exact = {name: total * share / sum(shares.values()) for name, share in shares.items()}
    assert all(count == max(1, count) and abs(count - exact[name]) < 1 for name, count in counts.items())
    assert sum(counts.values()) >= total
    assert sum(counts.values()) == total or min(exact.values()) < 1


def test_the_longest_texts_come_first_and_processes_that_wait_have_as_many_batches():
    lengths = np.array([3, 9, 1, 9, 5])
    assert [rows.tolist() for rows in TokenBudget(lengths, max_tokens=18)] == [[1, 3], [4, 0, 2]]
    parts = [TokenBudget(lengths, max_tokens=9, rank=rank, world=3, even=True) for rank in range(3)]
    assert [[rows.tolist() for rows in part] for part in parts] == [
        [[1], [0, 2]],
        [[3], [0, 2]],
        [[4], [0, 2]],
    ]
    assert [len(part) for part in parts] == [2, 2, 2]
