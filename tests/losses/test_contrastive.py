import loop_oracles as oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_cases import assert_same, encoded_rows, loss_of

from juzhen.core.examples import Kind
from juzhen.losses import Contrastive, OnlineContrastive
from juzhen.losses.pairs import hard_rows, online_contrastive

labelled_scores = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([-1.0, -0.2, 0.3, 0.5, 0.7, 0.71, 1.0])),
    min_size=1,
    max_size=12,
)


@given(rows=labelled_scores, reduction=st.sampled_from(["mean", "sum"]))
@settings(max_examples=60)
def test_equals_the_loop_whatever_the_labels(rows, reduction):
    labels, scores = torch.tensor(rows, dtype=torch.float64).unbind(dim=1)
    scores = scores.clone().requires_grad_()
    value = online_contrastive(scores, labels, margin=0.5, reduction=reduction)
    expected = oracle.online_contrastive(scores, labels, 0.5, reduction)
    assert_same(value, expected, [scores])


def test_only_disputed_rows_are_hard():
    """Positives at 0.1 and 0.4, negatives at 0.3 and 0.8: the far positive and the close negative."""
    distances = torch.tensor([0.1, 0.4, 0.3, 0.8])
    is_positive = torch.tensor([True, True, False, False])
    assert hard_rows(distances, is_positive).tolist() == [False, True, True, False]


def test_separated_batch_costs_nothing():
    scores, labels = torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1.0, 1.0, 0.0, 0.0])
    assert online_contrastive(scores, labels, margin=0.5, reduction="mean").item() == 0


@pytest.mark.parametrize(("label", "expected"), [(1.0, 0.04), (0.0, 0.09)])
def test_a_single_pair_still_teaches(label, expected):
    """At distance 0.2 a positive costs 0.2², a negative (0.5 − 0.2)²; no other row sets a threshold."""
    scores = torch.tensor([0.8], requires_grad=True)
    value = online_contrastive(scores, torch.tensor([label]), margin=0.5, reduction="mean")
    value.backward()
    assert value.item() == pytest.approx(expected, rel=1e-5)
    assert scores.grad.item() != 0


def test_mean_does_not_grow_with_the_batch_and_sum_does():
    rows = encoded_rows(Kind.LABELLED_PAIR, count=32)
    scores, labels = rows.scores.detach(), rows.targets
    values = {
        (reduction, times): online_contrastive(
            scores.repeat(times), labels.repeat(times), margin=0.5, reduction=reduction
        ).item()
        for reduction in ("mean", "sum")
        for times in (1, 8)
    }
    assert values["mean", 8] == pytest.approx(values["mean", 1])
    assert values["sum", 8] == pytest.approx(8 * values["sum", 1])
    assert values["sum", 1] == pytest.approx(32 * values["mean", 1])


def test_logs_by_hand():
    rows = encoded_rows(Kind.LABELLED_PAIR, count=4)
    rows.scores, rows.targets = torch.tensor([0.9, 0.6, 0.7, 0.2]), torch.tensor([1.0, 1.0, 0.0, 0.0])
    logs = loss_of(OnlineContrastive(margin=0.5, reduction="mean"), rows)[1]
    assert logs["hard_share"].item() == 0.5
    assert logs["positive_score"].item() == pytest.approx(0.75)
    assert logs["negative_score"].item() == pytest.approx(0.45)
    assert logs["score_gap"].item() == pytest.approx(0.3)


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
