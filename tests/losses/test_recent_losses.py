"""Hardness, a memory, spread, two passes, ranks and soft labels, each by its closed form."""

import math

import pytest
import torch
from loss_cases import encoded_rows, loss_of

from juzhen import losses
from juzhen.core.examples import Kind
from juzhen.losses.scores import all_cosines, row_cosine

DIM = 5


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("hardness_mode", ["own", "others", "all"])
def test_hardness_multiplies_negatives(hardness_mode):
    """By numbers: w = exp(α s), of the row's own negatives, of others' texts, or of both; the weight is a constant."""
    texts = drawn(3, 4, DIM).requires_grad_()
    anchors, positives, negatives = texts
    loss = losses.InfoNCEWeighted(temperature=0.1, hardness_strength=2.0, hardness_mode=hardness_mode)
    value = loss(anchors, positives, negatives[:, None])
    cosines = all_cosines(anchors, torch.cat([positives, negatives]))
    total = 0
    for row in range(4):
        weights = [
            1 if c == row or (hardness_mode != "all" and (c == row + 4) != (hardness_mode == "own")) else
            math.exp(2 * cosines[row, c].item())
            for c in range(8)
        ]  # fmt: skip
        terms = torch.stack([w * (s / 0.1).exp() for w, s in zip(weights, cosines[row], strict=True)])
        total = total - (terms[row] / terms.sum()).log() / 4
    assert value.item() == pytest.approx(total.item(), rel=1e-12)
    ours, expected = (torch.autograd.grad(each, texts, retain_graph=True)[0] for each in (value, total))
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


def test_without_hardness_it_is_info_nce():
    rows = encoded_rows(Kind.TRIPLET)
    plain = loss_of(losses.InfoNCE(), rows)[0]
    torch.testing.assert_close(loss_of(losses.InfoNCEWeighted(hardness_strength=0), rows)[0], plain)


def queue(size=8):
    return losses.InfoNCEQueue(dim=DIM, num_classes=0, size=size, temperature=0.1).double()


def test_the_queue_adds_texts_of_earlier_steps_and_drops_the_oldest():
    loss, (a, p) = queue(size=5), drawn(2, 9, DIM)
    ids = torch.arange(18).view(2, 9).T  # anchors 0 to 8, positives 9 to 17
    for rows in (range(3), range(3, 6), range(6, 9)):
        kept = [*range(3, 6), *range(3)][:5] if rows.start == 6 else [*range(rows.start)]
        candidates = torch.cat([p[list(rows)], p[kept]])
        scores = all_cosines(a[list(rows)], candidates) / 0.1
        expected = torch.nn.functional.cross_entropy(scores, torch.arange(3))
        value, logs = loss.with_logs(a[list(rows)], p[list(rows)], text_ids=ids[list(rows)])
        assert value.item() == pytest.approx(expected.item(), rel=1e-12)
        assert logs["queue_share"].item() == pytest.approx(len(kept) / 5)


def test_copies_of_a_positive_are_left_out_of_the_queue():
    """A kept text counts once, for no anchor that it is a positive of, and not where the batch has it again."""
    loss = queue()
    a, p, other = drawn(3, 2, DIM)
    first = torch.tensor([[0, 10], [1, 11]])
    loss(a, p, text_ids=first)
    assert loss.text_numbers[:2].tolist() == [10, 11]
    # Text 0 has another positive now, 20: its kept one, 10, is left out for it, and is a negative of anchor 2.
    value = loss(torch.stack([a[0], other[1]]), other, text_ids=torch.tensor([[0, 20], [2, 21]]))
    scores = all_cosines(torch.stack([a[0], other[1]]), torch.cat([other, p])) / 0.1
    scores[0, 2] = -torch.inf
    expected = torch.nn.functional.cross_entropy(scores, torch.arange(2))
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    loss(a, p, text_ids=first)  # again: the older copies do not count any more
    assert loss.is_newest.sum() == 4
    assert loss.text_numbers[loss.is_newest].tolist() == [10, 11, 20, 21]


def test_the_queue_is_in_the_state_and_rests_in_evaluation():
    loss, again = queue(), queue()
    loss(*drawn(2, 3, DIM))
    again.load_state_dict(loss.state_dict())
    batch = drawn(2, 4, DIM, seed=1)
    ids = torch.arange(20, 28).view(4, 2)
    assert loss(*batch, text_ids=ids) == again(*batch, text_ids=ids)
    before = {name: values.clone() for name, values in loss.state_dict().items()}
    loss.eval()(*batch)
    assert all(torch.equal(values, before[name]) for name, values in loss.state_dict().items())


def test_spread_of_orthogonal_and_of_equal_texts():
    mean, square = losses.spread_out(torch.eye(4, dtype=torch.float64))
    assert (mean.item(), square.item()) == (0, 0)
    mean, square = losses.spread_out(torch.ones(3, 4, dtype=torch.float64))
    assert (mean.item(), square.item()) == pytest.approx((1, 1 - 1 / 4))
    mean, square = losses.spread_out(torch.ones(3, 4, dtype=torch.float64), torch.tensor([7, 7, 7]))
    assert (mean.item(), square.item()) == (0, 0), "copies of one text need not be apart"
    u, v = torch.tensor([[1.0, 0], [0.6, 0.8]], dtype=torch.float64)
    mean, square = losses.spread_out(torch.stack([u, v, u]), torch.tensor([1, 2, 1]))
    assert (mean.item(), square.item()) == pytest.approx((0.36, 0))  # 0.36 − 1/2 is below 0


@pytest.mark.parametrize(
    "inner", [losses.CoSENT(), losses.SoftmaxClassifier(dim=DIM, num_classes=3).double()]
)
def test_spread_is_added_to_a_loss_of_scores_and_to_one_with_a_head(inner):
    rows = encoded_rows(Kind.NLI_PAIR)
    rows.scores = row_cosine(*rows.embeddings.values())
    loss = losses.SpreadOut(of=inner, mean_weight=2.0, square_weight=3.0)
    parts = [losses.spread_out(column) for column in rows.embeddings.values()]
    mean, square = (sum(part) / 2 for part in zip(*parts, strict=True))
    expected = loss_of(inner, rows)[0] + 2 * mean + 3 * square
    assert loss_of(loss, rows)[0].item() == pytest.approx(expected.item(), rel=1e-12)


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def test_two_passes_are_pulled_together_by_what_the_loss_consumes():
    first, second = drawn(2, 4, 3)
    classes = torch.tensor([0.0, 1, 2, 1])
    loss = losses.RDrop(of=losses.CrossEntropy(), weight=0.5)
    value = loss(logits=first, classes=classes, again={"logits": second, "classes": classes})
    p, q = first.softmax(1).tolist(), second.softmax(1).tolist()
    divergence = sum(kl(a, b) + kl(b, a) for a, b in zip(p, q, strict=True)) / 2 / 4
    entropy = sum(losses.cross_entropy(each, classes) for each in (first, second)) / 2
    assert value.item() == pytest.approx(entropy.item() + 0.5 * divergence, rel=1e-12)

    targets = torch.tensor([0.0, 1, 0, 1], dtype=torch.float64)
    scores, others = first[:, 0], second[:, 0]
    value = losses.RDrop(of=losses.SquaredError(), weight=2.0)(
        scores=scores, targets=targets, again={"scores": others, "targets": targets}
    )
    errors = ((scores - targets).square().mean() + (others - targets).square().mean()) / 2
    assert value.item() == pytest.approx((errors + 2 * (scores - others).square().mean()).item(), rel=1e-12)

    texts, twice = {"anchors": first, "positives": second}, {"anchors": second, "positives": first}
    value = losses.RDrop(of=losses.InfoNCE())(**texts, again=twice)
    contrast = (losses.InfoNCE()(first, second) + losses.InfoNCE()(second, first)) / 2
    distance = 1 - row_cosine(first, second).mean()
    assert value.item() == pytest.approx((contrast + distance).item(), rel=1e-12)


@pytest.mark.parametrize("grades", [[[3.0, 1.0, 2.0]], [[1.0, 0.0, 0.0]]])
def test_ranks_are_held_to_ranks(grades):
    scores = drawn(1, 3)
    total = 0
    for k in range(3):
        rank = sum(g > grades[0][k] for g in grades[0]) + (1 + grades[0].count(grades[0][k])) / 2
        gaps = [(scores[0, m] - scores[0, k]).item() for m in range(3) if m != k]
        smooth = 1 + sum(1 / (1 + math.exp(-gap)) for gap in gaps)
        total += (rank - smooth) ** 2 / math.log2(1 + rank) / 3
    assert losses.adr_mse(scores, torch.tensor(grades)).item() == pytest.approx(total, rel=1e-12)
    right = 1e3 * torch.tensor(grades, dtype=torch.float64)  # equal scores reach the mean rank
    assert losses.adr_mse(right, torch.tensor(grades)).item() == pytest.approx(0, abs=1e-12)


def test_soft_labels_of_a_classifier():
    """Grades 0 and 1 are the classes; those between are shares. Smoothing moves the target to the middle."""
    first, second = drawn(2, 6, DIM)
    torch.manual_seed(0)
    graded = losses.SoftmaxGraded(dim=DIM, num_classes=0).double()
    plain = losses.SoftmaxClassifier(dim=DIM, num_classes=2).double()
    plain.load_state_dict(graded.state_dict())
    classes = torch.tensor([0.0, 1, 1, 0, 1, 0], dtype=torch.float64)
    torch.testing.assert_close(graded(first, second, classes), plain(first, second, classes))
    log_p = graded.logits(first, second).log_softmax(dim=1)
    shares = torch.tensor([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], dtype=torch.float64)
    expected = -((1 - shares) * log_p[:, 0] + shares * log_p[:, 1]).mean()
    torch.testing.assert_close(graded(first, second, shares), expected)
    smooth = losses.SoftmaxClassifier(dim=DIM, num_classes=2, label_smoothing=0.2).double()
    smooth.load_state_dict(graded.state_dict())
    graded_so = graded(first, second, 0.1 + 0.8 * classes)
    torch.testing.assert_close(smooth(first, second, classes), graded_so)
