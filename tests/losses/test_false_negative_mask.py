"""Texts of the batch that are left out as likely positives, and the sums of the pool: as plain numpy reads them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_cases import encoded_rows, gradients, value_of

from juzhen.core.examples import Kind
from juzhen.losses import InfoNCE, InfoNCEGTE, InfoNCEGuided, InfoNCEPool
from juzhen.losses.info_nce import likely_positives

SUMS = ("other_anchors", "positive_to_anchors", "other_positives", "positive_to_negatives")
TAU = 0.2

texts_of_rows = st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=1, max_size=5)
margins = st.sampled_from([None, -0.3, 0.0, 0.2])


def rows_with(texts, num_negatives):
    """Random rows in which texts come several times, and their vectors as numpy arrays (columns, rows, dim)."""
    kind = Kind.TRIPLET if num_negatives else Kind.POSITIVE_PAIR
    rows = encoded_rows(kind, count=len(texts), seed=len(texts), num_negatives=num_negatives)
    rows.text_ids = dict(zip(rows.text_ids, torch.tensor(texts).unbind(dim=1), strict=False))
    return rows, np.stack([one.detach().numpy() for one in rows.embeddings.values()])


def cosine(first, second):
    return first @ second / np.linalg.norm(first) / np.linalg.norm(second)


def entropy(own, others):
    """−log of the share that the row's own exponential has, `others` beside it."""
    return -own / TAU + np.log(np.exp(own / TAU) + sum(np.exp(one / TAU) for one in others))


def expected_pool(texts, vectors, guide, sums, margin):
    """As the formula of InfoNCEPool reads. A place is (column, row); `guide` gives the scores that are masked by."""
    count, columns = len(texts), range(2, len(vectors))
    known = {(row[0], row[1]) for row in texts}
    total = 0
    for i in range(count):
        here = [(0, i, 1, j) for j in range(count) if j != i]
        here += [(0, i, column, j) for column in columns for j in range(count)]
        if "other_anchors" in sums:
            here += [(0, i, 0, j) for j in range(count) if j != i]
        if "positive_to_anchors" in sums:
            here += [(1, i, 0, j) for j in range(count)]
        if "other_positives" in sums:
            here += [(1, i, 1, j) for j in range(count) if j != i]
        if "positive_to_negatives" in sums:
            here += [(1, i, column, j) for column in columns for j in range(count)]
        others = []
        for side, _, column, j in here:
            text = texts[j][column]
            if side == 1 and column == 0:
                is_same = j != i and ((text, texts[i][1]) in known or text == texts[i][1])
            elif side == 1 and column > 1:
                is_same = text in texts[i][:2]
            else:
                is_same = text == texts[i][0] or (texts[i][0], text) in known
            bar = np.inf if margin is None else cosine(guide[0, i], guide[1, i]) + margin
            is_likely = j != i and cosine(guide[side, i], guide[column, j]) > bar
            if not is_same and not is_likely:
                others.append(cosine(vectors[side, i], vectors[column, j]))
        total += entropy(cosine(vectors[0, i], vectors[1, i]), others)
    return total / count


def check(loss, rows, expected):
    value, logs = value_of(loss, rows)
    assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert all(one.isfinite().all() for one in gradients(value, list(rows.embeddings.values())))
    return logs


@given(texts_of_rows, st.integers(0, 2), st.sets(st.sampled_from(SUMS)), margins)
@settings(max_examples=60)
def test_every_sum_of_the_pool(texts, num_negatives, sums, margin):
    rows, vectors = rows_with(texts, num_negatives)
    loss = InfoNCEPool(temperature=TAU, false_negative_margin=margin, **{name: name in sums for name in SUMS})
    check(loss, rows, expected_pool(texts, vectors, vectors, sums, margin))


@given(texts_of_rows, st.integers(0, 2), margins)
@settings(max_examples=20)
def test_gte_has_all_four_terms(texts, num_negatives, margin):
    rows, vectors = rows_with(texts, num_negatives)
    loss = InfoNCEGTE(temperature=TAU, false_negative_margin=margin)
    check(loss, rows, expected_pool(texts, vectors, vectors, SUMS, margin))


@given(texts_of_rows, st.integers(0, 2), st.sampled_from([-0.3, 0.0, 0.2]))
@settings(max_examples=30)
def test_a_guide_says_what_is_left_out(texts, num_negatives, margin):
    rows, vectors = rows_with(texts, num_negatives)
    guide = rows.guide.numpy().transpose(1, 0, 2)
    loss = InfoNCEGuided(temperature=TAU, false_negative_margin=margin)
    check(loss, rows, expected_pool(texts, vectors, guide, ("other_anchors", "other_positives"), margin))


@given(texts_of_rows, st.integers(0, 2), margins, st.booleans())
@settings(max_examples=40)
def test_each_direction_has_its_own_bar(texts, num_negatives, margin, symmetric):
    rows, vectors = rows_with(texts, num_negatives)
    expected = expected_pool(texts, vectors, vectors, (), margin)
    if symmetric:
        known, back = {(row[0], row[1]) for row in texts}, 0
        for i, row in enumerate(texts):
            own, others = cosine(vectors[0, i], vectors[1, i]), []
            for j, other in enumerate(texts):
                score = cosine(vectors[0, j], vectors[1, i])
                is_same = other[0] == row[1] or (other[0], row[1]) in known
                if j != i and not is_same and (margin is None or score <= own + margin):
                    others.append(score)
            back += entropy(own, others) / len(texts)
        expected = (expected + back) / 2
    loss = InfoNCE(temperature=TAU, symmetric=symmetric, false_negative_margin=margin)
    check(loss, rows, expected)


def test_what_a_row_has_brought_along_is_never_left_out():
    """Row 0's own negative scores above its positive, as the positive of row 1 does: only the latter goes."""
    scores = torch.tensor([[0.5, 0.8, 0.9, 0.1], [0.2, 0.6, 0.65, 0.7]])
    expected = [[False, True, False, False], [False, False, True, False]]
    assert likely_positives(scores, 0.0).tolist() == expected
    assert likely_positives(scores, 0.1).tolist() == [[False, True, False, False], [False] * 4]


def test_the_share_that_is_left_out_is_logged():
    rows = encoded_rows(Kind.TRIPLET, count=6)
    assert "likely_positive_share" not in value_of(InfoNCE(), rows)[1]
    for loss, share in (
        (InfoNCE, -2),
        (InfoNCEPool, -2),
        (InfoNCEGuided, -2),
        (InfoNCE, 2),
        (InfoNCEGuided, 2),
    ):
        logs = value_of(loss(false_negative_margin=share), rows)[1]
        assert logs["likely_positive_share"].item() == (share < 0)


def test_a_copy_as_guide_is_the_mask_of_ones_own_scores():
    rows = encoded_rows(Kind.TRIPLET, count=9)
    rows.guide = torch.stack([one.detach() for one in rows.embeddings.values()], dim=1)
    own = InfoNCEPool(temperature=0.01, other_positives=True, false_negative_margin=0.0)
    assert value_of(InfoNCEGuided(), rows)[0].item() == value_of(own, rows)[0].item()
