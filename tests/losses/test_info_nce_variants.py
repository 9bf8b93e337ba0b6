"""Which negatives InfoNCE looks at, and NT-Xent: figures of the textbook example, repeated texts, by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_cases import Rows, assert_same, encoded_rows, expected_info_nce_own, expected_nt_xent, loss_of

from juzhen.core.examples import Kind
from juzhen.losses import InfoNCE, InfoNCEInBatch, InfoNCEOwn, InfoNCEPool, NTXent, SimCSENTXent


@pytest.fixture(scope="module")
def drawn():
    """Anchors, positives near them, and 63 random negatives of each, as rows of which every text is its own."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    anchors = normal(32, 128)
    columns = {"anchor": anchors, "positive": anchors + 0.1 * normal(32, 128)}
    negatives = normal(32, 63, 128)
    columns |= {f"negative_{place}": one for place, one in enumerate(negatives.unbind(dim=1), start=2)}
    ids = {name: torch.arange(32) + 32 * place for place, name in enumerate(columns)}
    return Rows(Kind.TRIPLET, columns, ids, None, None)


def test_the_three_forms_on_32_rows_with_63_negatives_each(drawn):
    """As plain matrices: the row's own negatives, the batch's positives both ways, and all together."""
    anchors, positives, *negatives = (F.normalize(one, dim=-1) for one in drawn.embeddings.values())
    first, rows = torch.zeros(32, dtype=torch.long), torch.arange(32)
    of_row = torch.einsum("nd,nkd->nk", anchors, torch.stack(negatives, dim=1))
    own = torch.cat([(anchors * positives).sum(dim=1, keepdim=True), of_row], dim=1)
    in_batch = anchors @ positives.T
    everything = torch.cat([in_batch, *(anchors @ one.T for one in negatives)], dim=1)

    def entropy(scores, places):
        return F.cross_entropy(scores / 0.07, places).item()

    found = {
        "own": loss_of(InfoNCEOwn(temperature=0.07), drawn)[0].item(),
        "in batch": loss_of(InfoNCEInBatch(temperature=0.07, symmetric=True), pairs_of(drawn))[0].item(),
        "all": loss_of(InfoNCE(temperature=0.07, symmetric=False), drawn)[0].item(),
    }
    expected = {
        "own": entropy(own, first),
        "in batch": (entropy(in_batch, rows) + entropy(in_batch.T, rows)) / 2,
        "all": entropy(everything, rows),
    }
    assert found == pytest.approx(expected, rel=1e-9)
    # An anchor meets 63 others here, 31 there, and 2,047 in the default: thirty times the loss of its own alone.
    assert {name: float(f"{one:.1g}") for name, one in found.items()} == {
        "own": 9e-5,
        "in batch": 5e-5,
        "all": 3e-3,
    }


def pairs_of(rows):
    names = ("anchor", "positive")
    return Rows(
        Kind.POSITIVE_PAIR,
        {name: rows.embeddings[name] for name in names},
        {name: rows.text_ids[name] for name in names},
        None,
        None,
    )


texts_of_rows = st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("build", "kind", "expected"),
    [
        (InfoNCEOwn, Kind.TRIPLET, expected_info_nce_own),
        (NTXent, Kind.POSITIVE_PAIR, expected_nt_xent),
    ],
)
@given(texts=texts_of_rows)
@settings(max_examples=30)
def test_equals_the_loop_whatever_repeats(build, kind, expected, texts):
    rows = encoded_rows(kind, count=len(texts), num_negatives=2 if kind is Kind.TRIPLET else 1)
    rows.text_ids = dict(zip(rows.text_ids, torch.tensor(texts).unbind(dim=1), strict=False))
    loss = build(temperature=0.2)
    assert_same(loss_of(loss, rows)[0], expected(loss, rows), list(rows.embeddings.values()))


def test_another_row_does_not_change_what_a_row_costs_by_its_own_negatives():
    rows = encoded_rows(Kind.TRIPLET, count=2)
    rows.text_ids["negative"] = rows.text_ids["positive"].flip(
        0
    )  # the other row's positive is no friend of ours
    logs = loss_of(InfoNCEOwn(temperature=0.05), rows)[1]
    anchors, _, negatives = rows.embeddings.values()
    expected = F.cosine_similarity(anchors, negatives).mean().item()
    assert logs["negative_score"].item() == pytest.approx(expected)


def test_simcse_over_both_passes_by_hand():
    """Two sentences at right angles, each seen the same way twice: e^1/τ against two others at e^0."""
    unit = torch.eye(2, dtype=torch.float64)
    same = {"text": torch.tensor([7, 8]), "text_again": torch.tensor([7, 8])}
    rows = Rows(Kind.SENTENCE, {"text": unit, "text_again": unit.clone()}, same, None, None)
    value, logs = loss_of(SimCSENTXent(temperature=0.5), rows)
    assert value.item() == pytest.approx(math.log(1 + 2 * math.exp(-2)))
    assert {name: one.item() for name, one in logs.items()} == {
        "accuracy": 1.0,
        "positive_score": 1.0,
        "negative_score": 0.0,
        "score_gap": 1.0,
    }


def test_one_pair_has_nothing_to_be_told_apart_from():
    value, _ = loss_of(NTXent(temperature=0.05), encoded_rows(Kind.POSITIVE_PAIR, count=1))
    value.backward()
    assert value.item() == 0


@pytest.mark.parametrize("other_anchors", [False, True])
def test_what_is_logged_is_of_the_candidates_of_anchors_whatever_is_added_to_the_sum(other_anchors):
    rows, sums = (
        encoded_rows(Kind.TRIPLET, count=6),
        ("positive_to_anchors", "other_positives", "positive_to_negatives"),
    )
    (plain, logs), (more, more_logs) = (
        loss_of(InfoNCEPool(other_anchors=other_anchors, **dict.fromkeys(sums, added)), rows)
        for added in (False, True)
    )
    assert more > plain
    assert more_logs == logs
