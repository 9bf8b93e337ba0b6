import pytest
import torch
from loss_cases import DIM, encoded_rows, loss_of, seeded_head

from juzhen.core.examples import Kind
from juzhen.losses import SoftmaxClassifier
from juzhen.losses.classes import pair_features


@pytest.mark.parametrize(
    ("difference", "product", "expected"),
    [
        (False, False, [1.0, 3.0, 2.0, -1.0]),
        (True, False, [1.0, 3.0, 2.0, -1.0, 1.0, 4.0]),
        (False, True, [1.0, 3.0, 2.0, -1.0, 2.0, -3.0]),
        (True, True, [1.0, 3.0, 2.0, -1.0, 1.0, 4.0, 2.0, -3.0]),
    ],
)
def test_features_by_hand(difference, product, expected):
    first, second = torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, -1.0]])
    features = pair_features(first, second, use_difference=difference, use_product=product)
    assert features.tolist() == [expected]
    head = SoftmaxClassifier(use_difference=difference, use_product=product, dim=2, num_classes=3).head
    assert head.in_features == len(expected)
    assert head.out_features == 3


def test_premise_and_hypothesis_are_not_interchangeable():
    rows = encoded_rows(Kind.NLI_PAIR)
    loss = seeded_head(3, use_difference=True, use_product=False)
    value = loss_of(loss, rows)[0].item()
    rows.embeddings = dict(zip(rows.embeddings, reversed(rows.embeddings.values()), strict=True))
    assert abs(loss_of(loss, rows)[0].item() - value) > 1e-3


def test_the_head_learns_and_travels_in_the_state_dict():
    rows = encoded_rows(Kind.NLI_PAIR, count=12)
    loss = seeded_head(3, use_difference=True, use_product=False)
    untrained = loss_of(loss, rows)[0].item()
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss_of(loss, rows)[0].backward()
        optimizer.step()
    value, logs = loss_of(loss, rows)
    assert value.item() < untrained / 10
    assert logs["accuracy"].item() == 1
    copy = SoftmaxClassifier(use_difference=True, use_product=False, dim=DIM, num_classes=3).double()
    copy.load_state_dict(loss.state_dict())
    assert loss_of(copy, rows)[0].item() == value.item()
