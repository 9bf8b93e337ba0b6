import pytest
import torch
from loss_cases import encoded_rows, loss_of

from juzhen.core.examples import Kind
from juzhen.losses import CosineSimilarity


@pytest.mark.parametrize(
    ("target_range", "asked_for"),
    [([0, 1], [0, 0.5, 1]), ([-1, 1], [-1, 0, 1]), ([0.2, 0.8], [0.2, 0.5, 0.8])],
)
def test_targets_are_laid_out_over_the_range(target_range, asked_for):
    rows = encoded_rows(Kind.SCORED_PAIR, count=3)
    rows.targets = torch.tensor([0.0, 0.5, 1.0])
    rows.scores = torch.tensor(asked_for, dtype=torch.float32)
    value, logs = loss_of(CosineSimilarity(target_range=target_range), rows)
    assert value.item() == pytest.approx(0, abs=1e-12)
    assert logs["mean_absolute_error"].item() == pytest.approx(0, abs=1e-6)


def test_error_by_hand():
    """Errors of 0.1 and 0.3: mean square 0.05, mean size 0.2."""
    rows = encoded_rows(Kind.SCORED_PAIR, count=2)
    rows.targets, rows.scores = torch.tensor([1.0, 0.5]), torch.tensor([0.9, 0.2])
    value, logs = loss_of(CosineSimilarity(target_range=[0, 1]), rows)
    assert value.item() == pytest.approx(0.05)
    assert logs["mean_absolute_error"].item() == pytest.approx(0.2)
