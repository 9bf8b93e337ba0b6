"""Texts of the batch that are left out as likely positives, and the sums of the pool: as plain loops read them."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_cases import assert_same, encoded_rows, value_of

from juzhen.core.examples import Kind
from juzhen.losses import InfoNCE, InfoNCEExtended, InfoNCEGTE, InfoNCEGuided, InfoNCEPool
from juzhen.losses.in_batch_negatives import likely_positives

SUMS = ("other_anchors", "positive_to_anchors", "other_positives", "positive_to_negatives")
TAU = 0.2

texts_of_rows = st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=1, max_size=5)
margins = st.sampled_from([None, -0.3, 0.0, 0.2])


def rows_with(texts, num_negatives):
    """Random rows in which texts come several times."""
    kind = Kind.TRIPLET if num_negatives else Kind.POSITIVE_PAIR
    rows = encoded_rows(kind, count=len(texts), seed=len(texts), num_negatives=num_negatives)
    rows.text_ids = dict(zip(rows.text_ids, torch.tensor(texts).unbind(dim=1), strict=False))
    return rows


def cosines(columns):
    """Of every text with every other: (column, row, column, row)."""
    unit = F.normalize(torch.stack(list(columns)), dim=-1)
    return torch.einsum("cid,kjd->cikj", unit, unit)


def entropy(own, others):
    """−log of the share that the row's own exponential has, `others` beside it."""
    return torch.cat([own[None], others]).div(TAU).logsumexp(0) - own / TAU


def expected_pool(texts, scores, guide, sums, margin, relative=0.0):
    """As the formula of InfoNCEPool reads. A place is (column, row); by the scores of `guide` places are masked."""
    count, columns, guide = len(texts), range(2, len(scores)), guide.tolist()
    known = {(row[0], row[1]) for row in texts}
    total = 0
    for i in range(count):
        here = [(0, 1, j) for j in range(count) if j != i]
        here += [(0, column, j) for column in columns for j in range(count)]
        if "other_anchors" in sums:
            here += [(0, 0, j) for j in range(count) if j != i]
        if "positive_to_anchors" in sums:
            here += [(1, 0, j) for j in range(count)]
        if "other_positives" in sums:
            here += [(1, 1, j) for j in range(count) if j != i]
        if "positive_to_negatives" in sums:
            here += [(1, column, j) for column in columns for j in range(count)]
        others = []
        for side, column, j in here:
            text = texts[j][column]
            if side == 1 and column == 0:
                is_same = j != i and ((text, texts[i][1]) in known or text == texts[i][1])
            elif side == 1 and column > 1:
                is_same = text in texts[i][:2]
            else:
                is_same = text == texts[i][0] or (texts[i][0], text) in known
            own = guide[0][i][1][i]
            bar = torch.inf if margin is None else own + margin - relative * abs(own)
            is_likely = j != i and guide[side][i][column][j] > bar
            if not is_same and not is_likely:
                others.append((side, i, column, j))
        places = torch.tensor(others, dtype=torch.long).reshape(-1, 4)
        total = total + entropy(scores[0, i, 1, i], scores[places.unbind(dim=1)])
    return total / count


def check(loss, rows, expected):
    value, logs = value_of(loss, rows)
    assert_same(value, expected, list(rows.embeddings.values()))
    return logs


@given(texts_of_rows, st.integers(0, 2), st.sets(st.sampled_from(SUMS)), margins)
@settings(max_examples=60)
def test_every_sum_of_the_pool(texts, num_negatives, sums, margin):
    rows = rows_with(texts, num_negatives)
    scores = cosines(rows.embeddings.values())
    loss = InfoNCEPool(temperature=TAU, false_negative_margin=margin, **{name: name in sums for name in SUMS})
    check(loss, rows, expected_pool(texts, scores, scores, sums, margin))


@given(texts_of_rows, st.integers(0, 2), margins)
@settings(max_examples=20)
def test_gte_has_all_four_terms(texts, num_negatives, margin):
    rows = rows_with(texts, num_negatives)
    scores = cosines(rows.embeddings.values())
    loss = InfoNCEGTE(temperature=TAU, false_negative_margin=margin)
    check(loss, rows, expected_pool(texts, scores, scores, SUMS, margin))


@given(texts_of_rows, st.integers(0, 2), st.sampled_from([-0.3, 0.0, 0.2]), st.sampled_from([0.0, 0.05, 0.5]))
@settings(max_examples=30)
def test_a_guide_says_what_is_left_out(texts, num_negatives, margin, relative):
    rows = rows_with(texts, num_negatives)
    scores = cosines(rows.embeddings.values())
    guide = cosines(rows.guide.unbind(dim=1))
    loss = InfoNCEGuided(temperature=TAU, false_negative_margin=margin, relative_margin=relative)
    sums = ("other_anchors", "other_positives")
    check(loss, rows, expected_pool(texts, scores, guide, sums, margin, relative))


@given(texts_of_rows, st.integers(0, 2), margins, st.booleans())
@settings(max_examples=40)
def test_each_direction_has_its_own_bar(texts, num_negatives, margin, symmetric):
    rows = rows_with(texts, num_negatives)
    scores = cosines(rows.embeddings.values())
    expected = expected_pool(texts, scores, scores, (), margin)
    if symmetric:
        known, back = {(row[0], row[1]) for row in texts}, 0
        for i, row in enumerate(texts):
            own, others = scores[0, i, 1, i], []
            for j, other in enumerate(texts):
                is_same = other[0] == row[1] or (other[0], row[1]) in known
                if j != i and not is_same and (margin is None or scores[0, j, 1, i] <= own + margin):
                    others.append(j)
            back = back + entropy(own, scores[0, others, 1, i]) / len(texts)
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


def plain_pool(*, other_anchors=False, **sums):
    return InfoNCEPool(temperature=TAU, other_anchors=other_anchors, **sums)


def test_the_seeds_pool_has_every_other_text_of_the_batch():
    """With all cosines equal the loss is the logarithm of the number of candidates: 3 (N − 1) + 2."""
    rows = encoded_rows(Kind.TRIPLET, count=5)
    for values in rows.embeddings.values():
        values.data[:] = 1.0
    value = value_of(plain_pool(other_anchors=True), rows)[0]
    assert value.exp().item() == pytest.approx(3 * 4 + 2)
    assert value_of(plain_pool(positive_to_negatives=True), rows)[0].exp().item() == pytest.approx(5 + 5 + 5)


def test_the_extended_one_is_the_pool_with_its_term():
    rows = encoded_rows(Kind.TRIPLET, count=6)
    expected = value_of(plain_pool(positive_to_negatives=True), rows)[0]
    assert torch.equal(value_of(InfoNCEExtended(temperature=TAU), rows)[0], expected)
    assert expected > value_of(plain_pool(), rows)[0]


def test_without_options_it_is_info_nce():
    rows = encoded_rows(Kind.TRIPLET, count=6)
    plain = value_of(InfoNCE(temperature=TAU, symmetric=False), rows)
    pooled = value_of(plain_pool(), rows)
    assert pooled[0].item() == pytest.approx(plain[0].item(), rel=1e-12)
    assert {name: value.item() for name, value in pooled[1].items()} == {
        name: value.item() for name, value in plain[1].items()
    }
