import pytest
import torch
from loss_cases import encoded_rows

from juzhen.core.examples import Kind
from juzhen.losses import Contrastive
from lightning_modules.base import loss_of


def labelled(scores, labels):
    rows = encoded_rows(Kind.LABELLED_PAIR, count=len(scores))
    rows.scores, rows.targets = torch.tensor(scores), torch.tensor(labels)
    return rows


@pytest.mark.parametrize(
    ("score", "label", "expected"),
    [
        (0.4, 1.0, 0.18),  # positive at distance 0.6: half its square
        (0.8, 0.0, 0.045),  # negative at distance 0.2, 0.3 inside the margin: half its square
        (0.5, 0.0, 0.0),  # negative on the margin
        (-1.0, 0.0, 0.0),  # negative far beyond it
        (1.0, 1.0, 0.0),
    ],
)
def test_one_pair_by_hand(score, label, expected):
    assert loss_of(Contrastive(margin=0.5), labelled([score], [label]))[0].item() == pytest.approx(
        expected, abs=1e-7
    )


def test_logs_of_a_batch_without_negatives_are_missing_not_zero():
    logs = loss_of(Contrastive(margin=0.5), labelled([0.4, 0.6], [1.0, 1.0]))[1]
    assert logs["positive_score"].item() == pytest.approx(0.5)
    assert logs["negative_score"].isnan()
    assert logs["score_gap"].isnan()
