import math

import loop_oracles as oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_cases import assert_same, encoded_rows, expected_info_nce, loss_of

from juzhen.core.examples import Kind
from juzhen.losses import InfoNCE
from juzhen.losses.in_batch_negatives import false_negatives, info_nce

NO, YES = False, True


def numbers(texts: str) -> torch.Tensor:
    """Text numbers from letters: equal letters, equal texts."""
    return torch.tensor([ord(letter) for letter in texts])


@pytest.mark.parametrize(
    ("anchors", "positives", "candidates", "expected"),
    [
        # every text its own: nothing to mask, and the own positive is never masked
        ("ab", "xy", "xy", [[NO, NO], [NO, NO]]),
        # two rows with the same positive text: neither is the other's negative
        ("ab", "xx", "xx", [[NO, YES], [YES, NO]]),
        # the same pair twice
        ("aa", "xx", "xx", [[NO, YES], [YES, NO]]),
        # two rows with the same anchor: the other's positive is a known positive
        ("aa", "xy", "xy", [[NO, YES], [YES, NO]]),
        # row 0's anchor is row 1's positive: for row 0 it is the anchor itself, for row 1 its own positive
        ("ab", "xa", "xa", [[NO, YES], [NO, NO]]),
        # an explicit negative that is row 0's own positive; for row 1 it is a negative twice
        ("ab", "xy", "xyxz", [[NO, NO, YES, NO], [NO, NO, NO, NO]]),
        # an explicit negative that is row 1's anchor
        ("ab", "xy", "xybz", [[NO, NO, NO, NO], [NO, NO, YES, NO]]),
        # an explicit negative of row 2 that is a positive of anchor a, known from row 1 only
        ("aab", "xyz", "xyzpqy", [[NO, YES, NO, NO, NO, YES], [YES, NO, NO, NO, NO, YES], [NO] * 6]),
        # anchor equals own positive (the same sentence twice): its own place still counts
        ("ab", "ay", "ay", [[NO, NO], [NO, NO]]),
    ],
)
def test_masked_duplicates_by_hand(anchors, positives, candidates, expected):
    assert false_negatives(numbers(anchors), numbers(positives), numbers(candidates)).tolist() == expected


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_large_text_numbers_do_not_collide(dtype):
    """In 32 bits the pairs of anchor 65,536 would wrap around to those of anchor 0."""
    anchors, positives = torch.tensor([0, 2**16], dtype=dtype), torch.tensor([5, 2**16 - 1], dtype=dtype)
    candidates = torch.cat([positives, torch.tensor([7], dtype=dtype)])
    assert not false_negatives(anchors, positives, candidates).any()


# Three texts for up to six rows: duplicates of every sort are the rule.
texts_of_rows = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=6)


@given(texts=texts_of_rows, symmetric=st.booleans(), has_negatives=st.booleans())
@settings(max_examples=60)
@pytest.mark.slow
def test_equals_the_loop_whatever_repeats(texts, symmetric, has_negatives):
    kind = Kind.TRIPLET if has_negatives else Kind.POSITIVE_PAIR
    rows = encoded_rows(kind, count=len(texts), num_negatives=int(has_negatives))
    rows.text_ids = dict(zip(rows.text_ids, torch.tensor(texts).unbind(dim=1), strict=False))
    loss = InfoNCE(temperature=0.2, symmetric=symmetric)
    assert_same(loss_of(loss, rows)[0], expected_info_nce(loss, rows), list(rows.embeddings.values()))


def test_a_repeated_row_changes_nothing_but_its_weight():
    """A batch of the same pair twice has no negatives at all: loss 0, and finite gradients."""
    rows = encoded_rows(Kind.POSITIVE_PAIR, count=1)
    rows.embeddings = {name: values.repeat(2, 1) for name, values in rows.embeddings.items()}
    rows.text_ids = {name: values.repeat(2) for name, values in rows.text_ids.items()}
    value, logs = loss_of(InfoNCE(temperature=0.05, symmetric=True), rows)
    value.backward()
    assert value.item() == 0
    assert logs["accuracy"].item() == 1
    assert logs["negative_score"].isnan()


def test_two_rows_by_hand():
    """Cosines 0.8 for the positives, 0.2 and 0.4 for the negatives, at temperature 0.1."""
    scores = torch.tensor([[0.8, 0.2], [0.4, 0.8]])
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    forth = info_nce(scores, nothing, temperature=0.1, symmetric=False)
    assert forth.item() == pytest.approx((math.log1p(math.exp(-6)) + math.log1p(math.exp(-4))) / 2, rel=1e-5)
    both = info_nce(scores, nothing, temperature=0.1, symmetric=True)
    assert both.item() == pytest.approx(forth.item(), rel=1e-5)  # both ways meet the same two negatives


def test_length_of_embeddings_does_not_matter():
    rows = encoded_rows(Kind.TRIPLET)
    loss = InfoNCE(temperature=0.05, symmetric=False)
    value = loss_of(loss, rows)[0].item()
    rows.embeddings = {name: 3 * values for name, values in rows.embeddings.items()}
    assert loss_of(loss, rows)[0].item() == pytest.approx(value, rel=1e-12)


def test_logs_by_hand():
    """Row 0 finds its positive, row 1 prefers the other's; the masked candidate would have beaten both."""
    rows = encoded_rows(Kind.TRIPLET, count=2)
    unit = torch.eye(2)
    rows.embeddings = {
        "anchor": unit,
        "positive": torch.tensor([[1.0, 0.0], [0.8, 0.6]]),
        "negative": torch.tensor([[0.6, 0.8], [0.0, 1.0]]),
    }
    rows.text_ids = {"anchor": numbers("ab"), "positive": numbers("xy"), "negative": numbers("pb")}
    logs = loss_of(InfoNCE(temperature=0.05, symmetric=False), rows)[1]
    assert logs["accuracy"].item() == 0.5
    assert logs["positive_score"].item() == pytest.approx((1 + 0.6) / 2)
    # Row 0: 0.8, 0.6, 0.0 · row 1: 0.0, 0.8; the negative b is row 1's anchor and does not count.
    assert logs["negative_score"].item() == pytest.approx((0.8 + 0.6 + 0.0 + 0.0 + 0.8) / 5)


def test_oracle_sees_explicit_negatives():
    """The loop oracle itself: one row, one negative at right angles to everything."""
    axes = torch.eye(2, dtype=torch.float64)
    value = oracle.info_nce(axes[:1], [axes[:1], axes[1:]], [0], [[1], [2]], 1.0, False)
    assert value.item() == pytest.approx(math.log(1 + math.exp(-1)))
