"""Rows with different numbers of negatives: what a row lacks contributes nothing, in every loss that takes triplets."""

from dataclasses import replace

import pytest
import torch
from loss_cases import CASES, assert_same, configured_cases, gradients, leaves, rows_of, value_of

from juzhen import losses
from juzhen.core.examples import Kind

NEGATIVES = 4
COUNTS = torch.tensor([4, 1, 2, 3, 1, 4, 2, 2, 1])
MISSING = torch.arange(NEGATIVES)[None] >= COUNTS[:, None]

TRIPLETS = [
    replace(case, num_negatives=NEGATIVES)
    for case in {case.name: case for case in [*configured_cases(), *CASES]}.values()
    if case.kind is Kind.TRIPLET and {"negatives", "document_scores"} & {*case.build().inputs}
]
each_loss = pytest.mark.parametrize("case", TRIPLETS, ids=lambda case: case.name)


def with_missing(rows, missing):
    """The rows without these negatives: −1 in the numbers of texts, −∞ in the scores of documents."""
    names = [*rows.text_ids][2:]
    ids = {name: rows.text_ids[name].masked_fill(missing[:, place], -1) for place, name in enumerate(names)}
    documents = torch.cat([torch.zeros(len(missing), 1, dtype=torch.bool), missing], dim=1)
    return replace(
        rows,
        text_ids=rows.text_ids | ids,
        document_scores=rows.document_scores.masked_fill(documents, -torch.inf),
    )


def shortened(rows, count):
    """Rows that have `count` negatives and no places for more."""
    names = [*rows.text_ids][: 2 + count]
    return replace(
        rows,
        embeddings={name: rows.embeddings[name] for name in names},
        text_ids={name: rows.text_ids[name] for name in names},
        document_scores=rows.document_scores[:, : 1 + count],
        teacher_scores=rows.teacher_scores[:, : 1 + count],
        guide=rows.guide[:, : 2 + count],
    )


@each_loss
@pytest.mark.sampled(3)
def test_places_that_all_rows_lack_change_nothing(case):
    """Neither the value, nor a gradient, nor what is logged."""
    rows, loss = case.rows(), case.build()
    missing = torch.arange(NEGATIVES).expand(len(COUNTS), -1) >= 2
    (value, logs), (expected, expected_logs) = (
        value_of(case.build(), each) for each in (with_missing(rows, missing), shortened(rows, 2))
    )
    inputs = leaves(loss, rows)[: -len([*loss.parameters()]) or None]
    assert_same(value, expected, inputs)
    for name, number in expected_logs.items():
        assert logs[name].item() == pytest.approx(number.item(), rel=1e-6, nan_ok=True), name


@each_loss
@pytest.mark.sampled(3)
def test_what_fills_the_places_does_not_matter(case):
    rows, loss = case.rows(), case.build()
    other = replace(
        rows,
        embeddings={
            name: values
            if place < 2
            else torch.where(MISSING[:, place - 2, None], values.detach() * -7 + 3, values)
            for place, (name, values) in enumerate(rows.embeddings.items())
        },
        teacher_scores=rows.teacher_scores.where(
            ~torch.nn.functional.pad(MISSING, (1, 0)), torch.tensor(1e3).double()
        ),
    )
    inputs = leaves(loss, rows)[: -len([*loss.parameters()]) or None]
    value = value_of(case.build(), with_missing(rows, MISSING))[0]
    assert_same(value, value_of(case.build(), with_missing(other, MISSING))[0], inputs)
    if loss.input_type == "embeddings":
        value = value_of(case.build(), with_missing(rows, MISSING))[0]
        for place, gradient in enumerate(gradients(value, [*rows.embeddings.values()][2:])):
            assert not gradient[MISSING[:, place]].any()


@pytest.mark.parametrize(
    "case", [case for case in TRIPLETS if not case.build().is_batchwise], ids=lambda c: c.name
)
@pytest.mark.sampled(3)
def test_a_loss_that_does_not_couple_is_the_mean_of_the_lists(case):
    rows = case.rows()
    value = value_of(case.build(), with_missing(rows, MISSING))[0]
    alone = [
        value_of(case.build(), shortened(rows_of(rows, torch.tensor([row])), int(count)))[0]
        for row, count in enumerate(COUNTS)
    ]
    loss = case.build()
    assert_same(value, torch.stack(alone).mean(), leaves(loss, rows)[: -len([*loss.parameters()]) or None])


@pytest.mark.parametrize(
    "build",
    [
        lambda: losses.Nested(of=losses.ListMLE(), dims=[2, 5]),
        lambda: losses.Nested(of=losses.InfoNCE(), dims=[3]),
        lambda: losses.SpreadOut(of=losses.TripletMargin()),
        lambda: losses.SpreadOut(of=losses.LambdaLoss()),
        lambda: losses.NestedLayers(of=losses.TripletMargin(), depths=[0.5], depths_per_step=None),
    ],
)
def test_losses_around_another_one_leave_the_places_out_too(build):
    rows = TRIPLETS[0].rows()
    loss, missing = build(), torch.arange(NEGATIVES).expand(len(COUNTS), -1) >= 3
    read = [{**with_missing(rows, missing).tensors}, {**shortened(rows, 3).tensors}]
    states = torch.randn(len(COUNTS), 2 + NEGATIVES, 2, 5, dtype=torch.float64)
    for each in read:
        each["layer_embeddings"] = states[:, : each["text_ids"].shape[1]]
    values = [
        loss.with_logs(**{name: each[name] for name in loss.inputs if name in each})[0] for each in read
    ]
    assert values[0].item() == pytest.approx(values[1].item(), rel=1e-9)


@pytest.mark.parametrize("name", ["document_scores", "embeddings"])
def test_two_passes_agree_on_what_a_row_has(name):
    rows = TRIPLETS[0].rows()
    loss = losses.RDrop(of=losses.ListMLE() if name == "document_scores" else losses.InfoNCEOwn())
    again = TRIPLETS[0].rows(seed=1)
    missing = torch.arange(NEGATIVES).expand(len(COUNTS), -1) >= 2

    def value(change):
        first, second = ({**change(each).tensors} for each in (rows, again))
        read = {key: first[key] for key in loss.inputs if key in first and key != "teacher_scores"}
        return loss.with_logs(**read, again={key: second[key] for key in read})[0]

    expected = value(lambda each: shortened(each, 2))
    assert value(lambda each: with_missing(each, missing)).item() == pytest.approx(expected.item(), rel=1e-9)


def test_a_queue_keeps_texts_that_rows_have():
    rows = TRIPLETS[0].rows()
    queue = losses.InfoNCEQueue(dim=5, num_classes=2, size=64).double()
    missing = with_missing(rows, MISSING)
    queue.with_logs(**{name: missing.tensors[name] for name in queue.inputs if name in missing.tensors})
    assert int((queue.text_numbers >= 0).sum()) == len(COUNTS) + int(COUNTS.sum())
