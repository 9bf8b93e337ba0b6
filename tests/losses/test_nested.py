"""Losses around another loss: the sum over prefixes and over layers, and what they refuse."""

import pytest
import torch
import torch.nn.functional as F
from loss_cases import assert_same, encoded_rows, loss_of

from juzhen import losses
from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast


def vectors(*shape: int, seed: int = 0):
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    ).requires_grad_()


def test_a_loss_of_scores_is_summed_over_prefixes():
    first, second, targets = vectors(6, 8), vectors(6, 8, seed=1), torch.arange(6.0) % 3
    nested = losses.Nested(of=losses.CoSENT(), dims=[8, 2, 4], weights=[1, 0.5, 2])
    assert nested.inputs == ("first", "second", "targets")
    assert (nested.input_kinds, nested.is_batchwise, nested.is_ranking) == (
        losses.CoSENT.input_kinds,
        True,
        True,
    )
    value, logs = nested.with_logs(first, second, targets)
    parts = {
        dim: losses.cosent(F.cosine_similarity(first[:, :dim], second[:, :dim]), targets) for dim in (2, 4, 8)
    }
    assert_same(value, 0.5 * parts[2] + 2 * parts[4] + parts[8], [first, second])
    assert {f"loss_{dim}d": part.item() for dim, part in parts.items()} == pytest.approx(
        {name: logs[name].item() for name in logs if name.startswith("loss_")}
    )


def test_without_weights_the_largest_size_weighs_1_and_the_others_a_quarter():
    first, second, targets = vectors(6, 8), vectors(6, 8, seed=1), torch.arange(6.0) % 3
    plain, weighed = (
        losses.Nested(of=losses.CoSENT(), dims=[2, 8, 4], weights=weights)
        for weights in (None, [0.25, 1, 0.25])
    )
    assert plain(first, second, targets).item() == weighed(first, second, targets).item()


def test_documents_of_a_row_are_scored_by_prefixes():
    anchors, positives, negatives = vectors(4, 6), vectors(4, 6, seed=1), vectors(4, 3, 6, seed=2)
    value = losses.Nested(of=losses.LambdaLoss(), dims=[3])(anchors, positives, negatives)
    documents = torch.cat([positives[:, None], negatives], dim=1)
    scores = F.cosine_similarity(anchors[:, None, :3], documents[..., :3], dim=-1)
    assert_same(value, losses.LambdaLoss()(scores), [anchors, positives, negatives])
    ids = torch.tensor([[8, 9, 0, 1, 2], [8, 9, 3, -1, -1], [8, 9, 4, 5, -1], [8, 9, 6, 7, 0]])
    value = losses.Nested(of=losses.LambdaLoss(), dims=[3])(anchors, positives, negatives, text_ids=ids)
    held = losses.LambdaLoss()(scores.masked_fill(ids[:, 1:] == -1, -torch.inf))
    assert value.item() == pytest.approx(held.item(), rel=1e-9)


def test_the_mean_of_one_way_info_nce_over_64_to_768_numbers():
    """As the variant of that name: cross entropy of cosines / 0.07 with the diagonal, averaged over five sizes."""
    query, document = vectors(5, 768), vectors(5, 768, seed=1)
    value, logs = losses.NestedInfoNCE().with_logs(query, document)
    expected = []
    for dim in (64, 128, 256, 512, 768):
        logits = F.normalize(query[:, :dim], dim=1) @ F.normalize(document[:, :dim], dim=1).T / 0.07
        expected.append(F.cross_entropy(logits, torch.arange(5)))
        assert logs[f"loss_{dim}d"].item() == pytest.approx(expected[-1].item())
        right = (logits.argmax(dim=1) == torch.arange(5)).double().mean()
        assert logs[f"acc_{dim}d"].item() == pytest.approx(right.item())
    assert_same(value, sum(expected) / 5, [query, document])


def test_a_guide_stays_whole_and_a_teacher_is_cut_with_what_is_held_to_it():
    rows = encoded_rows(Kind.TRIPLET)
    whole = losses.Nested(of=losses.InfoNCEGuided(), dims=[5])
    assert whole.input_type == "guide"
    assert loss_of(whole, rows)[0].item() == pytest.approx(loss_of(losses.InfoNCEGuided(), rows)[0].item())
    student, teacher = vectors(5, 6), vectors(5, 6, seed=1).detach()
    nested = losses.Nested(of=losses.DistillMSE(), dims=[2, 6], smaller_weight=1)
    expected = F.mse_loss(student[:, :2], teacher[:, :2]) + F.mse_loss(student, teacher)
    assert_same(nested(projected=student, teacher=teacher), expected, [student])


def test_a_step_draws_some_sizes_and_repeats_them_with_the_generator():
    first, second, targets = vectors(6, 64), vectors(6, 64, seed=1), torch.arange(6.0)
    nested = losses.Nested(of=losses.CoSENT(), smallest=2, dims_per_step=2)
    drawn = []
    for seed in (0, 0, 1, 2, 3):
        torch.manual_seed(seed)
        logs = nested.with_logs(first, second, targets)[1]
        drawn.append(tuple(name for name in logs if name.startswith("loss_")))
    assert drawn[0] == drawn[1]
    assert {len(names) for names in drawn} == {2}
    assert len(set(drawn)) > 1


def test_layers_are_held_to_the_last_one():
    states, targets = vectors(6, 2, 3, 8), torch.arange(6.0) % 4
    nested = losses.NestedLayers(
        of=losses.CoSENT(), depths=[0.5, 0.75], depths_per_step=None, layer_weight=0.8, divergence_weight=0.5
    )
    assert nested.depths == (0.5, 0.75, 1.0)
    assert nested.inputs == ("layer_embeddings", "targets")
    assert nested.contrast is Contrast.NONE

    def at(layer: int):
        return losses.cosent(F.cosine_similarity(states[:, 0, layer], states[:, 1, layer]), targets)

    expected = at(2) + 0.8 * (at(0) + at(1)) / 2
    final = (states[:, :, 2].detach() / 0.3).softmax(-1)
    for layer in (0, 1):
        ratio = final.log() - (states[:, :, layer] / 0.3).log_softmax(-1)
        expected = expected + 0.5 * 0.3 * (final * ratio).sum() / 12
    assert_same(nested(states, targets), expected, [states])
    both = losses.NestedLayers(of=losses.Nested(of=losses.CoSENT(), dims=[8]), divergence_weight=0)
    plain = losses.NestedLayers(of=losses.CoSENT(), divergence_weight=0)
    assert both.contrast is Contrast.ORDER
    torch.manual_seed(0)
    value = both(vectors(6, 2, 4, 8), targets)
    torch.manual_seed(0)
    assert value.item() == pytest.approx(plain(vectors(6, 2, 4, 8), targets).item())
