"""What a loss is called with: a column is a row of numbers, nothing else is made to fit; ties are right by chance."""

import itertools
import math

import pytest
import torch
from loss_cases import encoded_rows, read_by

from conf.own_classes import own_class
from juzhen import losses
from juzhen.core.errors import CallError, UserError
from juzhen.core.examples import Kind
from juzhen.losses.arguments import GOLD
from juzhen.losses.scores import choice_accuracy, sign_accuracy
from lightning_modules.loss_factory import build_loss
from tools.loss_table import options

NAMES = [name for name in options("loss") if name != "by_kind"]
AROUND = {name for name in NAMES if "of" in options("loss")[name]}
"""Losses around another one, which is handed what they are handed."""
LABELLED = [
    name
    for name in NAMES
    if name not in AROUND
    and set(own_class(options("loss")[name]["_target_"]).inputs) & {"targets", "classes"}
]


def bare(config):
    """The class of a loss alone, and of the one that it is made around."""
    inner = {"of": bare(config["of"])} if "of" in config else {}
    return {"_target_": config["_target_"]} | inner


def call(name):
    """The loss by its class defaults, and tensors that fit it by name."""
    config = options("loss")[name]
    target = own_class(config["_target_"])
    sizes = {"dim": 5, "num_classes": 3} if target.has_parameters else {}
    loss = build_loss(bare(config), **({"dim": 5, "num_classes": 3} | sizes))
    kind = loss.input_kinds[0]
    negatives = 3 if kind is Kind.TRIPLET else 1
    encoded = encoded_rows(
        kind, dtype=torch.float32, num_negatives=negatives, num_layers=len(loss.depths) or 2
    )
    return loss, read_by(loss, encoded)


def seeded(loss, tensors):
    torch.manual_seed(0)
    return loss(**tensors).item()


@pytest.mark.parametrize("name", LABELLED)
def test_labels_in_a_column_are_labels_and_all_else_is_refused(name):
    loss, tensors = call(name)
    for gold in {"targets", "classes"} & set(tensors):
        values = tensors[gold]
        assert seeded(loss, tensors | {gold: values[:, None]}) == seeded(loss, tensors)
        for wrong in (values[:1], values[0], values[None], values[:-1], values[:, None, None], values[:0]):
            with pytest.raises(UserError, match=f"{gold} has the shape|expected 1 batch"):
                loss(**tensors | {gold: wrong})
        with pytest.raises(UserError, match=f"{gold}: expected a tensor"):
            loss(**tensors | {gold: 1.0})
        with pytest.raises(UserError, match=f"{gold}: 1 of 9 are NaN"):
            loss(**tensors | {gold: values.index_fill(0, torch.tensor([4]), math.nan)})


@pytest.mark.parametrize("name", NAMES)
def test_no_tensor_of_a_loss_is_broadcast(name):
    loss, tensors = call(name)
    for argument, values in tensors.items():
        if len(tensors) == 1:
            continue
        with pytest.raises(UserError, match="has the shape"):
            loss(**tensors | {argument: values[:1]})
    with pytest.raises(UserError, match="Expected 1 batch or more"):
        loss(**{argument: values[:0] for argument, values in tensors.items()})


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_call_is_refused_by_the_name_of_the_loss_and_by_the_right_form(name):
    loss, tensors = call(name)
    own = type(loss).__name__
    with pytest.raises(TypeError, match=rf"^{own}: .* Type {own}\(|'(odd|dim)'$"):  # typeguards bind first
        type(loss)(odd=1)
    for wrong in ((), (*tensors.values(),) * 20):
        with pytest.raises(CallError, match=rf"^{own}\(\): .* Type {own}\(\)\("):
            loss(*wrong)
    with pytest.raises(CallError, match="'odd'"):
        loss(**tensors, odd=tensors[next(iter(tensors))])
    first, *others = tensors
    if not hasattr(loss, "inner"):
        with pytest.raises(UserError, match=rf"^{own}\(\): {first}: expected a tensor"):
            loss(**tensors | {first: tensors[first].tolist()})
    for other in others:
        with pytest.raises(UserError, match=f"{other} .*on meta|on meta. Type"):
            loss(**tensors | {other: tensors[other].to("meta")})


def test_labels_of_true_and_false_and_vectors_of_two_precisions_have_their_numbers():
    scores, targets = torch.tensor([0.9, 0.2, 0.4]), torch.tensor([1.0, 0.0, 1.0])
    for loss in (losses.CoSENT(), losses.Contrastive(), losses.BinaryCrossEntropy()):
        assert loss(scores, targets.bool()) == loss(scores, targets)
    vectors = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    mixed = losses.InfoNCE()(vectors.double(), vectors + 1)
    assert mixed.item() == pytest.approx(losses.InfoNCE()(vectors, vectors + 1).item(), abs=1e-5)


def test_functions_are_as_strict_as_modules():
    scores, column = torch.tensor([0.9, 0.2, 0.4]), torch.tensor([[1.0], [0.0], [1.0]])
    assert losses.BinaryCrossEntropy()(scores, column).item() == pytest.approx(0.5508, abs=1e-4)
    assert losses.binary_cross_entropy(scores, column).item() == pytest.approx(0.5508, abs=1e-4)
    strict = [
        name
        for name in losses.__all__
        if name[0].islower()
        and set(getattr(getattr(losses, name), "__annotations__", ())) & set(GOLD)
        and "return" in getattr(losses, name).__annotations__
    ]
    told = [name for name in strict if hasattr(getattr(losses, name), "__wrapped__")]
    assert {"cosent", "contrastive", "online_contrastive", "list_kl", "huber", "cross_entropy"} <= set(told)


def test_an_excluded_document_leaves_the_row_to_the_others():
    generator = torch.Generator().manual_seed(3)
    scores, teacher = torch.randn(2, 4, 3, dtype=torch.float64, generator=generator)
    whole = scores.clone().requires_grad_()
    padded = torch.cat([whole, torch.full((4, 1), -torch.inf, dtype=torch.float64)], dim=1)
    for others in (torch.full((4, 1), -torch.inf), torch.zeros(4, 1)):
        value = losses.ListKL()(padded, torch.cat([teacher, others.double()], dim=1))
        (gradient,) = torch.autograd.grad(value, whole, retain_graph=True)
        assert value.item() == pytest.approx(losses.list_kl(scores, teacher).item())
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0
    certain = teacher.masked_fill(torch.tensor([False, True, False]), -torch.inf)
    expected = torch.nn.functional.kl_div(scores.log_softmax(1), certain.softmax(1), reduction="batchmean")
    assert losses.list_kl(scores, certain).item() == pytest.approx(expected.item())


@pytest.mark.parametrize("name", ["list_kl", "list_mle", "margin_mse", "lambda_loss"])
def test_constant_scores_are_right_by_chance(name):
    loss, tensors = call(name)
    *_, logs = loss.with_logs(**tensors | {"document_scores": torch.full((9, 4), 0.7)})
    assert logs["accuracy"].item() == 0.25


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(2)
def test_a_collapsed_encoder_is_right_by_chance(name):
    """All texts in one point: candidates are equal, or differ by an ulp."""
    loss, tensors = call(name)
    point = torch.rand(5, generator=torch.Generator().manual_seed(1))
    same = {
        argument: point.expand_as(values).contiguous()
        if values.shape[-1] == 5 and argument != "text_ids"
        else values
        for argument, values in tensors.items()
    }
    same |= {"logits": torch.zeros_like(tensors["logits"])} if "logits" in tensors else {}
    same |= {"scores": torch.zeros_like(tensors["scores"])} if "scores" in tensors else {}
    same |= {"document_scores": torch.full((9, 4), 0.3)} if "document_scores" in tensors else {}
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.fill_(0.1)
        _, logs = loss.with_logs(**same)
        _, turned = loss.with_logs(**{argument: values.flip(0) for argument, values in same.items()})
    if "accuracy" in logs:
        assert 0 < logs["accuracy"] <= 0.5
        assert logs["accuracy"].item() == pytest.approx(turned["accuracy"].item())


def test_accuracy_is_the_mean_over_orders_of_equals():
    scores = torch.tensor([[0.5, 0.5, 0.1, 0.5], [0.2, 0.3, 0.3, 0.1], [1.0, 1.0 - 1e-7, 0.0, 1.0]])
    right = torch.tensor([0, 3, 1])
    orders = [list(order) for order in itertools.permutations(range(4))]
    rounded = scores.round(decimals=5)
    mean = sum(
        (rounded[row, order].argmax() == order.index(int(right[row]))).float().item()
        for order in orders
        for row in range(3)
    ) / (3 * len(orders))
    assert choice_accuracy(scores, right).item() == pytest.approx(mean)
    assert (
        sign_accuracy(torch.tensor([0.0, 0.0, 2.0, -1.0]), torch.tensor([1.0, 0.0, 1.0, 1.0])).item() == 0.5
    )
