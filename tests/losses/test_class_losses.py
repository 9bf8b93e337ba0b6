"""Losses of classes and of embeddings: what is known of them without a formula."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from class_cases import MIX
from loss_cases import DIM, encoded_rows, loss_of

from juzhen.core.examples import Kind
from juzhen.losses import AnglE, ArcFace, Bilinear, Circle, Clustering, CoSENTAndSoftmax, Prototype
from juzhen.losses.classes import arcface, clustering, prototype_entropy, with_margin
from juzhen.losses.pairs import circle
from juzhen.losses.pairwise_ranking import cosent
from juzhen.losses.sums import angle_scores, batch_search


def test_angle_scores_by_hand():
    """1 against itself, i, −1 and (1 + i)/√2, each with one complex component: |Re + Im| of 1/w."""
    one = torch.tensor([[1.0, 0.0]]).expand(4, 2)
    other = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [math.sqrt(0.5), math.sqrt(0.5)]])
    assert angle_scores(one, other).tolist() == pytest.approx([1, 1, 1, 0], abs=1e-6)
    assert angle_scores(other, one).tolist() == pytest.approx([1, 1, 1, math.sqrt(2)], abs=1e-6)


def test_an_odd_dimension_is_one_with_a_zero_more():
    first, second = torch.randn(2, 6, 5)
    padded = [torch.cat([values, torch.zeros(6, 1)], dim=1) for values in (first, second)]
    assert angle_scores(first, second).tolist() == pytest.approx(angle_scores(*padded).tolist())


def test_the_batch_part_leaves_out_other_positives_of_the_same_text():
    """Rows 0 and 1 have the same first sentence: their second sentences are no negatives of it."""
    rows = encoded_rows(Kind.LABELLED_PAIR, count=3)
    rows.text_ids["text_a"][1] = rows.text_ids["text_a"][0]
    rows.embeddings["text_a"] = rows.embeddings["text_a"].detach()[[0, 0, 2]]
    is_positive = torch.tensor([True, True, False])
    ids = torch.stack(list(rows.text_ids.values()), dim=1)
    value = batch_search(*rows.embeddings.values(), ids, is_positive, temperature=0.1)
    moved = rows.embeddings["text_b"].detach()[[0, 1, 2]]
    (a, _, c), (x, y, z) = rows.embeddings["text_a"], moved

    def cost(anchor, own, *others):
        logits = torch.stack([F.cosine_similarity(anchor, one, dim=0) for one in (own, *others)]) / 0.1
        return logits.logsumexp(0) - logits[0]

    costs = [cost(a, x, c, z), cost(a, y, c, z), cost(x, a, y, c, z), cost(y, a, x, c, z)]
    assert value.item() == pytest.approx(torch.stack(costs).mean().item(), rel=1e-9)


def test_angle_without_positives_still_ranks():
    rows = replace(encoded_rows(Kind.SCORED_PAIR), targets=torch.linspace(0, 0.7, 9).double())
    shared = {"temperature": 0.05, "angle_temperature": 0.1}
    alone = loss_of(AnglE(**shared, **(MIX | {"batch_weight": 0})), rows)[0]
    assert loss_of(AnglE(**shared, **MIX), rows)[0].item() == pytest.approx(alone.item())


def test_circle_with_even_weights_would_be_cosent():
    """At m = 0 the weights are 1 − s_p and s_n: with positives at 0 and negatives at 1 all weights are 1."""
    scores, labels = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([1.0, 1.0, 0.0])
    value = circle(scores, labels, positive_goal=1.0, negative_goal=0.0, weighted=True, temperature=0.5)
    # (0 − (1 − 0)) and (1 − 0): the goals 1 and 0 shift every exponent by one unit of score.
    assert value.item() == pytest.approx(math.log(1 + 2 * math.exp((1 + 1) / 0.5)), rel=1e-6)
    shifted = cosent(scores + labels * -1.0, labels, temperature=0.5)
    assert value.item() == pytest.approx(shifted.item(), rel=1e-6)


@pytest.mark.parametrize(("positive_goal", "negative_goal"), [(0.0, 0.0), (0.3, 0.3), (0.4, -0.1)])
def test_the_plain_circle_is_cosent_with_the_goals_between_the_two_sides(positive_goal, negative_goal):
    """Only the distance of the goals counts then: positives must lead by it."""
    scores, labels = torch.rand(20).double() * 2 - 1, torch.arange(20) % 2.0
    plain = {"positive_goal": positive_goal, "negative_goal": negative_goal, "weighted": False}
    value = circle(scores, labels, **plain, temperature=0.05)
    expected = cosent(scores - labels * (positive_goal - negative_goal), labels, temperature=0.05)
    assert value.item() == pytest.approx(expected.item(), rel=1e-9)


@pytest.mark.parametrize("weighted", [True, False])  # weighted, goals of 0.8 and 1.2 give one value
def test_one_margin_stands_for_the_goals_of_the_paper(weighted):
    rows = encoded_rows(Kind.LABELLED_PAIR)
    shared = {"weighted": weighted, "temperature": 0.0125}
    one = loss_of(Circle(margin=0.2, positive_goal=None, negative_goal=None, **shared), rows)[0]
    both = loss_of(Circle(margin=None, positive_goal=0.8, negative_goal=0.2, **shared), rows)[0]
    assert one.item() == pytest.approx(both.item(), rel=1e-12)


def test_circle_needs_both_sides():
    scores = torch.tensor([0.3, -0.2], requires_grad=True)
    value = circle(
        scores, torch.ones(2), positive_goal=0.75, negative_goal=0.25, weighted=True, temperature=0.0125
    )
    value.backward()
    assert value.item() == 0
    assert scores.grad.tolist() == [0, 0]


def test_the_margin_is_an_angle_and_always_lowers_the_cosine():
    angles = torch.linspace(0.01, math.pi - 0.01, 300).double()
    moved = with_margin(angles.cos(), margin=0.5)
    near = angles + 0.5 < math.pi
    torch.testing.assert_close(moved[near], (angles[near] + 0.5).cos())
    assert (moved < angles.cos()).all()
    assert (moved.diff() < 0).all()


def test_arcface_without_a_margin_is_the_prototype_loss():
    cosines, classes = torch.rand(20, 4) * 2 - 1, torch.randint(4, (20,)).float()
    one = arcface(cosines, classes, margin=0.0, temperature=0.1)
    assert one.item() == pytest.approx(prototype_entropy(cosines, classes, temperature=0.1).item(), rel=1e-5)
    assert arcface(cosines, classes, margin=0.5, temperature=0.1) > one


def test_all_in_one_point_is_perfect_only_without_separation():
    same, classes = torch.ones(6, 4), torch.tensor([0.0, 0, 1, 1, 2, 2])
    apart = torch.eye(4)[classes.long()]
    costs = {
        (weight, name): clustering(values, classes, separation_weight=weight, separation_margin=0.0).item()
        for weight in (0.0, 1.0)
        for name, values in (("same", same), ("apart", apart))
    }
    assert costs[0.0, "same"] == pytest.approx(costs[0.0, "apart"], abs=1e-6)
    assert costs[1.0, "same"] == pytest.approx(1, abs=1e-6)
    assert costs[1.0, "apart"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda: Prototype(temperature=0.1, dim=DIM, num_classes=3), Kind.LABELLED_TEXT),
        (lambda: ArcFace(margin=0.3, temperature=0.1, dim=DIM, num_classes=3), Kind.LABELLED_TEXT),
        (lambda: Bilinear(objective="bce", dim=DIM, num_classes=2), Kind.LABELLED_PAIR),
        (lambda: CoSENTAndSoftmax(temperature=0.1, entropy_weight=1, dim=DIM, num_classes=3), Kind.NLI_PAIR),
    ],
)
@pytest.mark.sampled(2)
def test_heads_learn_and_travel_in_the_state_dict(build, kind):
    torch.manual_seed(0)
    loss, rows = build(), encoded_rows(kind, count=9, dtype=torch.float32)
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.1)
    untrained = loss_of(loss, rows)[0].item()
    for _ in range(100):
        optimizer.zero_grad()
        loss_of(loss, rows)[0].backward()
        optimizer.step()
    value = loss_of(loss, rows)[0].item()
    assert value < untrained - 0.2
    copy = build()
    copy.load_state_dict(loss.state_dict())
    assert loss_of(copy, rows)[0].item() == value


@pytest.mark.slow
def test_clusters_form():
    """Gradient steps on free embeddings: texts of a class meet, centres part."""
    torch.manual_seed(0)
    rows = encoded_rows(Kind.LABELLED_TEXT, count=12, dtype=torch.float32)
    loss, text = Clustering(separation_weight=1.0, separation_margin=0.0), rows.embeddings["text"]
    optimizer = torch.optim.Adam([text], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss_of(loss, rows)[0].backward()
        optimizer.step()
    first, second = torch.triu_indices(12, 12, offset=1)
    is_same = rows.targets[first] == rows.targets[second]
    cosines = F.cosine_similarity(text[first], text[second], dim=-1)
    assert cosines[is_same].min() > 0.95
    assert cosines[~is_same].max() < 0.2
