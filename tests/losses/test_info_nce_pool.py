"""InfoNCE over the whole batch, as a plain loop in float64 reads it."""

import pytest
import torch
from loop_oracles import cosine
from loss_cases import assert_same_gradients, encoded_rows

from juzhen.core.examples import Kind
from juzhen.losses import InfoNCE, InfoNCEExtended, InfoNCEPool
from lightning_modules.base import loss_of

TAU = 0.1


def build(*, other_anchors=False, positive_to_negatives=False):
    return InfoNCEPool(
        temperature=TAU, other_anchors=other_anchors, positive_to_negatives=positive_to_negatives
    )


def by_loops(rows, *, other_anchors, positive_to_negatives):
    """Row by row: its own positive, everything of the batch with another text, and what the options add."""
    texts = {name: ids.tolist() for name, ids in rows.text_ids.items()}
    vectors = rows.embeddings
    extra = [name for name in vectors if name.startswith("negative")]
    count = len(vectors["anchor"])
    known = set(zip(texts["anchor"], texts["positive"], strict=True))
    total = 0
    for i in range(count):
        anchor, positive = vectors["anchor"][i], vectors["positive"][i]
        own = (cosine(anchor, positive) / TAU).exp()
        pool = ["positive", *extra, *(["anchor"] if other_anchors else [])]
        denominator = own
        for name in pool:
            for j in range(count):
                text = texts[name][j]
                if name == "positive" and j == i:
                    continue
                if text == texts["anchor"][i] or (texts["anchor"][i], text) in known:
                    continue
                denominator = denominator + (cosine(anchor, vectors[name][j]) / TAU).exp()
        for name in extra if positive_to_negatives else []:
            for j in range(count):
                if texts[name][j] not in (texts["anchor"][i], texts["positive"][i]):
                    denominator = denominator + (cosine(positive, vectors[name][j]) / TAU).exp()
        total = total - (own / denominator).log()
    return total / count


@pytest.mark.parametrize("kind", [Kind.TRIPLET, Kind.POSITIVE_PAIR])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("other_anchors", [False, True])
@pytest.mark.parametrize("positive_to_negatives", [False, True])
@pytest.mark.parametrize("count", [1, 7])
def test_value_and_gradient_equal_the_loop(kind, repeats, other_anchors, positive_to_negatives, count):
    options = {"other_anchors": other_anchors, "positive_to_negatives": positive_to_negatives}
    rows = encoded_rows(kind, count=count, seed=3)
    if repeats and count > 1:  # one sentence twice, in all its views, and a negative that contradicts
        for ids in rows.text_ids.values():
            ids[4] = ids[1]
        if kind is Kind.TRIPLET:
            rows.text_ids["negative"][5] = rows.text_ids["positive"][2]
    loss = build(**options)
    value, expected = loss_of(loss, rows)[0], by_loops(rows, **options)
    assert value.item() == pytest.approx(expected.item(), rel=1e-9, abs=1e-9)
    assert_same_gradients(value, expected, list(rows.embeddings.values()))


def test_the_seeds_pool_has_every_other_text_of_the_batch():
    """With all cosines equal the loss is the logarithm of the number of candidates: 3 (N − 1) + 2."""
    rows = encoded_rows(Kind.TRIPLET, count=5)
    for values in rows.embeddings.values():
        values.data[:] = 1.0
    value = loss_of(build(other_anchors=True), rows)[0]
    assert value.exp().item() == pytest.approx(3 * 4 + 2)
    assert loss_of(build(positive_to_negatives=True), rows)[0].exp().item() == pytest.approx(5 + 5 + 5)


def test_the_extended_one_is_the_pool_with_its_term():
    rows = encoded_rows(Kind.TRIPLET, count=6)
    expected = loss_of(build(positive_to_negatives=True), rows)[0]
    assert torch.equal(loss_of(InfoNCEExtended(temperature=TAU), rows)[0], expected)
    assert expected > loss_of(build(), rows)[0]


def test_without_options_it_is_info_nce():
    rows = encoded_rows(Kind.TRIPLET, count=6)
    plain = loss_of(InfoNCE(temperature=TAU, symmetric=False), rows)
    pooled = loss_of(build(), rows)
    assert pooled[0].item() == pytest.approx(plain[0].item(), rel=1e-12)
    assert {name: value.item() for name, value in pooled[1].items()} == {
        name: value.item() for name, value in plain[1].items()
    }
