"""What must hold for each loss, whatever its formula."""

import pytest
import torch
from class_cases import CLASS_CASES
from expected_losses import EXPECTED
from loss_cases import CASES, Case, Rows, assert_same, configured_cases, gradients, leaves, rows_of, value_of
from score_cases import SCORE_CASES

from juzhen.core.aliases import LOSS_FLAGS
from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss
from lightning_modules.loss_factory import NEEDS
from tools.loss_table import options

SETTINGS = [*CASES, *SCORE_CASES, *CLASS_CASES]
CONFIGURED = configured_cases()
TRIED = {type(case.build()) for case in SETTINGS}
REST = [case for case in CONFIGURED if type(case.build()) not in TRIED]
"""Losses that have no settings above are tried with the numbers of conf/loss."""
each_case = pytest.mark.parametrize("case", [*REST, *SETTINGS], ids=lambda case: case.name)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_value_is_the_expected_one(name: str):
    """Of nine rows of the first kind that it takes, with the numbers of conf/loss; a plain loop gave the value."""
    case = next(case for case in CONFIGURED if case.loss == name)
    value = value_of(case.build(), case.rows())[0]
    assert value.item() == pytest.approx(EXPECTED[name].value, rel=1e-6)


def test_every_loss_is_expected():
    assert set(EXPECTED) == set(options("loss")) - {"by_kind"}


def test_old_names_of_flags_stay_free():
    """A class of a user that has one would replace a method of that name."""
    kinds = {type(case.build()) for case in CONFIGURED}
    assert [(kind.__name__, old) for kind in kinds for old in LOSS_FLAGS if hasattr(kind, old)] == []
    assert {type(kind.is_ranking) for kind in kinds} == {bool}


@pytest.mark.parametrize("count", [9, 1, 2])  # changes first: every case runs by default, with nine rows
@pytest.mark.parametrize("case", SETTINGS, ids=lambda case: case.name)
@pytest.mark.sampled(6)
def test_value_and_gradient_equal_the_loop(case: Case, count: int):
    loss, rows = case.build(), case.rows(count=count, seed=count)
    value, expected = value_of(loss, rows)[0], case.expected(loss, rows)
    assert value.shape == ()
    assert_same(value, expected, leaves(loss, rows))


@each_case
@pytest.mark.sampled(3)
def test_every_input_gets_a_gradient(case: Case):
    loss, rows = case.build(), case.rows(count=24, seed=1)
    inputs = leaves(loss, rows)
    assert inputs
    for gradient in torch.autograd.grad(value_of(loss, rows)[0], inputs):
        assert gradient.abs().max() > 0


@each_case
@pytest.mark.sampled(4)
def test_row_order_does_not_matter(case: Case):
    loss, rows = case.build(), case.rows(count=24, seed=2)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(3))
    (value, logs), (shuffled, shuffled_logs) = value_of(loss, rows), value_of(loss, rows_of(rows, order))
    assert shuffled.item() == pytest.approx(value.item(), rel=1e-12)
    for name, number in logs.items():
        assert shuffled_logs[name].item() == pytest.approx(number.item(), rel=1e-6), name


@each_case
@pytest.mark.sampled(4)
def test_couples_is_true_to_its_word(case: Case):
    """A loss that does not couple is the mean of its rows: a batch may be split. One that couples is not."""
    loss, rows = case.build(), case.rows(count=24, seed=4)
    parts = [rows_of(rows, torch.arange(0, 10)), rows_of(rows, torch.arange(10, 24))]
    split = sum(
        value_of(loss, part)[0].item() * share for part, share in zip(parts, (10 / 24, 14 / 24), strict=True)
    )
    if loss.is_batchwise:
        assert abs(split - value_of(loss, rows)[0].item()) > 1e-3
    else:
        assert split == pytest.approx(value_of(loss, rows)[0].item(), rel=1e-12)


@each_case
@pytest.mark.sampled(3)
def test_half_precision_inputs_are_computed_in_full(case: Case):
    """Only the rounding of the inputs is left: the same rounded numbers in float64 give the same loss."""
    loss, rows = case.build(), case.rows(count=24, seed=5, dtype=torch.bfloat16)
    value = value_of(loss.float(), rows)[0]
    assert value.dtype == torch.float32
    value.backward()
    assert all(leaf.grad is not None and leaf.grad.isfinite().all() for leaf in leaves(loss, rows))
    exact = rows_of(rows, torch.arange(24))
    exact.scores, exact.logits = exact.scores.double(), exact.logits.double()
    exact.layer_scores = exact.layer_scores.double()
    exact.projected, exact.teacher = exact.projected.double(), exact.teacher.double()
    exact.guide, exact.document_scores = exact.guide.double(), exact.document_scores.double()
    exact.teacher_scores = exact.teacher_scores.double()
    exact.more = {name: values.double() for name, values in exact.more.items()}
    exact.embeddings = {name: values.double() for name, values in exact.embeddings.items()}
    assert value.item() == pytest.approx(value_of(loss.double(), exact)[0].item(), rel=1e-5)


@each_case
@pytest.mark.sampled(3)
def test_autocast_does_not_round_the_loss(case: Case):
    loss, rows = case.build().float(), case.rows(count=24, seed=6, dtype=torch.float32)
    value = value_of(loss, rows)[0]
    with torch.autocast("cpu", torch.bfloat16):
        under_autocast = value_of(loss, rows)[0]
    tolerance = (
        2e-2 if loss.has_parameters else 1e-6
    )  # a head is a layer of the model and may run in half precision
    assert under_autocast.dtype == torch.float32
    assert under_autocast.item() == pytest.approx(value.item(), rel=tolerance)


@each_case
@pytest.mark.parametrize("size", [0.0, 1.0, 1e4])
@pytest.mark.sampled(6)
def test_extreme_scores_stay_finite(case: Case, size: float):
    """All scores equal, all at the ends of the cosine, and as large as a cross-encoder's worst logits."""
    loss, rows = case.build().float(), case.rows(count=8, seed=7, dtype=torch.float32)
    signs = torch.tensor([1.0, -1.0]).repeat(4)
    rows.scores = (size * signs).requires_grad_()
    rows.layer_scores = (size * signs[:, None] * torch.ones(rows.layer_scores.shape[1])).requires_grad_()
    ends = torch.linspace(-1, 1, rows.document_scores.shape[1])
    rows.document_scores = (size * signs[:, None] * ends).requires_grad_()
    rows.logits = (size * signs[:, None] * torch.arange(rows.logits.shape[1])).requires_grad_()
    rows.embeddings = {
        name: ((1 + size) * (signs if number % 2 else -signs)[:, None] * torch.ones(8, 5)).requires_grad_()
        for number, name in enumerate(rows.embeddings)
    }
    value, logs = value_of(loss, rows)
    value.backward()
    assert value.isfinite()
    assert all(leaf.grad.isfinite().all() for leaf in leaves(loss, rows))
    assert all(number.isfinite() for number in logs.values())


@each_case
@pytest.mark.sampled(3)
def test_logs_are_detached_scalars(case: Case):
    _, logs = value_of(case.build(), case.rows())
    assert logs
    for name, number in logs.items():
        assert number.shape == (), name
        assert not number.requires_grad, name


@each_case
def test_declaration(case: Case):
    loss = case.build()
    assert case.kind in loss.input_kinds
    assert loss.input_type in NEEDS
    assert loss.has_parameters == bool(loss.state_dict())


@each_case
@pytest.mark.sampled(3)
def test_contrast_is_true_to_its_word(case: Case):
    """What it names is what the gradient cannot do without: rows that do not differ in it teach nothing."""
    loss, rows = case.build(), case.rows(count=8, seed=8)
    one = rows_of(rows, torch.arange(1))
    if rows.targets is not None:
        closest = 0 if case.kind is Kind.NLI_PAIR else 1  # entailment
        rows.targets = torch.full_like(rows.targets, closest)
        assert _teaches(loss, rows) == (loss.contrast is not Contrast.ORDER)
    else:
        assert loss.contrast in (Contrast.TEXTS, Contrast.SOME_TEXTS, Contrast.NEGATIVES, Contrast.NONE)
    if loss.contrast is Contrast.NONE:
        assert _teaches(loss, one)
    of_batch = loss.contrast in (Contrast.TEXTS, Contrast.SOME_TEXTS) and not case.num_negatives
    if loss.contrast is Contrast.ORDER or of_batch:
        assert not _teaches(loss, one)
    if loss.contrast is Contrast.NEGATIVES and loss.input_type == "lists":
        same = rows.document_scores.detach()[:, :1].requires_grad_()  # equal texts have equal scores
        rows.document_scores = same.expand(rows.document_scores.shape)
        assert gradients(value_of(loss, rows)[0], [same])[0].abs().max() < 1e-12
    elif loss.contrast is Contrast.NEGATIVES:
        for column in [name for name in rows.embeddings if name.startswith("negative")]:
            rows.embeddings[column] = rows.embeddings["positive"]
        assert not _teaches(loss, rows)
    if of_batch and loss.input_type == "teacher":
        assert not _teaches(loss, rows_of(rows, torch.zeros(8, dtype=torch.long)))
    elif of_batch:
        rows.text_ids["positive"] = torch.zeros_like(rows.text_ids["positive"])
        if loss.contrast is Contrast.SOME_TEXTS:
            assert _teaches(loss, rows)
            rows.text_ids["anchor"] = torch.ones_like(rows.text_ids["anchor"])
        assert not _teaches(loss, rows)


def _teaches(loss: Loss, rows: Rows) -> bool:
    """Some input has a gradient that is more than rounding."""
    inputs = [values for values in leaves(loss, rows) if values.requires_grad]
    return max(one.abs().max().item() for one in gradients(value_of(loss, rows)[0], inputs)) > 1e-12
