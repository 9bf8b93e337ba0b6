"""Triplets given and found: which negative a pair is held against, and how large a margin that follows the batch is."""

import pytest
import torch
from loss_cases import encoded_rows, loss_of

from juzhen.core.examples import Kind
from juzhen.losses import TripletMargin, TripletOnline
from juzhen.losses.triplets import adapted_margin, mined, triplet_margin

SCORES = torch.tensor([[0.6, 0.9, 0.5, 0.1], [0.7, 0.4, 0.8, 0.5], [0.2, 0.3, 0.9, 0.4]])
NEGATIVE = ~torch.eye(3, 4, dtype=torch.bool)


@pytest.mark.parametrize(
    ("mining", "expected"), [("batch_hard", [0.9, 0.8, 0.4]), ("semi_hard", [0.5, 0.5, 0.4])]
)
def test_the_negative_by_hand(mining, expected):
    """Row 0: 0.9 is nearer than its positive at 0.6, 0.5 is not. Row 1 has none that is farther: the farthest."""
    assert mined(SCORES, NEGATIVE, mining=mining).tolist() == pytest.approx(expected)
    none = mined(SCORES, torch.zeros_like(NEGATIVE), mining=mining)
    assert none.tolist() == [-torch.inf] * 3


def rows_on_a_circle(degrees, kind=Kind.POSITIVE_PAIR):
    """Rows whose texts lie at these angles, column by column."""
    rows = encoded_rows(kind, count=len(degrees[0]), num_negatives=len(degrees) - 2)
    angles = [torch.tensor(column).deg2rad() for column in degrees]
    rows.embeddings = {
        name: torch.stack([one.cos(), one.sin()], dim=1)
        for name, one in zip(rows.embeddings, angles, strict=True)
    }
    return rows


def test_a_known_positive_is_no_negative():
    """Rows 0 and 1 have one anchor text: each other's positives are known. Row 2's positive is all they have."""
    rows = rows_on_a_circle([[0.0, 0.0, 90.0], [0.0, 60.0, 90.0]])
    loss = TripletOnline(mining="batch_hard", margin=0.2, adaptive_margin=0)
    apart, logs_apart = loss_of(loss, rows)
    ids = rows.text_ids["anchor"]
    rows.text_ids["anchor"] = torch.where(ids == 1, 0, ids)
    known, logs_known = loss_of(loss, rows)
    # Row 0: positive at 1.0, nearest other text at 0.5. Row 1: positive at 0.5, nearest other text at 1.0.
    # Row 2: positive at 1.0, nearest other text at cos 30°.
    row_2 = 0.2 + 3**0.5 / 2 - 1.0
    assert apart.item() == pytest.approx((0 + 0.7 + row_2) / 3, abs=1e-6)
    assert known.item() == pytest.approx((0 + 0 + row_2) / 3, abs=1e-6)
    assert logs_apart["violating_share"].item() == pytest.approx(2 / 3)
    assert logs_known["violating_share"].item() == pytest.approx(1 / 3)


def test_all_negatives_of_the_batch_are_candidates():
    """Of row 0 its own negative is far, that of row 1 is near; the losses of given triplets do not see that."""
    rows = rows_on_a_circle([[0.0, 180.0], [0.0, 180.0], [90.0, 60.0]], Kind.TRIPLET)
    assert loss_of(TripletMargin(margin=0.6, distance="cosine"), rows)[0].item() == pytest.approx(0)
    for mining in ("batch_hard", "semi_hard"):
        loss = TripletOnline(mining=mining, margin=0.6, adaptive_margin=0)
        assert loss_of(loss, rows)[0].item() == pytest.approx(0.1 / 2, abs=1e-6)


def test_a_margin_that_follows_the_batch():
    gap = torch.tensor([0.5, -0.5, torch.nan])
    found = [adapted_margin(one, margin=0.1, share=0.6).item() for one in gap]
    assert found == pytest.approx([0.3, 0.1, 0.1])
    rows = rows_on_a_circle([[0.0, 180.0], [0.0, 180.0], [90.0, 90.0]], Kind.TRIPLET)
    loss = TripletMargin(margin=0.2, distance="cosine", adaptive_margin=1.5)
    value, logs = loss_of(loss, rows)
    assert (value.item(), logs["margin"].item()) == pytest.approx((0.5, 1.5))
    assert loss.is_batchwise
    assert not TripletMargin(margin=0.2, distance="cosine").is_batchwise


def test_violations_by_hand():
    """Margin 0.2: the first negative is 0.3 too far up, the second keeps 0.1 more than asked."""
    value = triplet_margin(torch.tensor([0.5]), torch.tensor([[0.6, 0.2]]), margin=0.2)
    assert value.item() == pytest.approx(0.3 / 2)


@pytest.mark.parametrize(
    ("distance", "expected", "scores"), [("cosine", 0.8, (1.0, 0.8)), ("euclidean", 3.0, (-3.0, -1.0))]
)
def test_distance_by_hand(distance, expected, scores):
    """By angle the positive is 0 away, the negative 0.2; by length the positive is 3 away, the negative 1."""
    rows = encoded_rows(Kind.TRIPLET, count=1)
    rows.embeddings = {
        "anchor": torch.tensor([[1.0, 0.0]]),
        "positive": torch.tensor([[4.0, 0.0]]),
        "negative": torch.tensor([[1.0, 0.75]]) if distance == "cosine" else torch.tensor([[1.0, 1.0]]),
    }
    value, logs = loss_of(TripletMargin(margin=1.0, distance=distance), rows)
    assert value.item() == pytest.approx(expected)
    assert logs["violating_share"].item() == 1
    assert (logs["positive_score"].item(), logs["negative_score"].item()) == pytest.approx(scores)


def test_other_rows_are_no_negatives():
    """Rows with negatives far away cost nothing, however close other rows' positives are."""
    anchor = torch.tensor([[1.0, 0.0], [0.99, 0.01]])
    rows = encoded_rows(Kind.TRIPLET, count=2)
    rows.embeddings = {"anchor": anchor, "positive": anchor, "negative": -anchor}
    assert loss_of(TripletMargin(margin=0.2, distance="cosine"), rows)[0].item() == 0


def test_coinciding_points_have_a_gradient():
    """The Euclidean distance has no derivative at 0; the sub-gradient 0 is used, not NaN."""
    rows = encoded_rows(Kind.TRIPLET, count=2)
    rows.embeddings["positive"] = rows.embeddings["anchor"].detach().clone().requires_grad_()
    loss_of(TripletMargin(margin=5.0, distance="euclidean"), rows)[0].backward()
    assert all(values.grad.isfinite().all() for values in rows.embeddings.values())
