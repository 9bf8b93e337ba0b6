import pytest
import torch
from loss_cases import encoded_rows

from juzhen.core.examples import Kind
from juzhen.losses import TripletMargin
from juzhen.losses.triplet import triplet_margin
from lightning_modules.base import loss_of


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
