"""Cheap dropout is dropout: the rate, the scale, the gradient, fresh masks, and the state of torch's generator."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from juzhen.encoders.forward import CheapDropout, drop, use_cheap_dropout

SIZE = 200_000


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_share_that_is_dropped_and_the_scale_of_the_rest(rate, dtype):
    torch.manual_seed(0)
    dropped = drop(torch.ones(SIZE, dtype=dtype), rate)
    deviation = (rate * (1 - rate) / SIZE) ** 0.5
    assert (dropped == 0).double().mean().item() == pytest.approx(rate, abs=5 * deviation)
    kept = dropped[dropped != 0]
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(1 / (1 - rate), rel=1e-2 if dtype is torch.bfloat16 else 1e-4)


def test_each_of_the_four_elements_of_a_draw_is_as_likely():
    torch.manual_seed(0)
    lanes = (drop(torch.ones(SIZE), 0.1) == 0).double().view(-1, 4)
    deviation = (0.1 * 0.9 / len(lanes)) ** 0.5
    assert lanes.mean(0).tolist() == pytest.approx([0.1] * 4, abs=5 * deviation)
    correlations = torch.corrcoef(lanes.T) - torch.eye(4)
    assert correlations.abs().max() < 5 / len(lanes) ** 0.5


def test_the_gradient_is_that_of_the_same_mask():
    states = torch.randn(37, 3, dtype=torch.float64, requires_grad=True)

    def masked(values):
        torch.manual_seed(1)
        return drop(values, 0.3)

    assert torch.autograd.gradcheck(masked, states)


def test_masks_follow_torchs_generator():
    torch.manual_seed(3)
    first, second = drop(torch.ones(999), 0.5), drop(torch.ones(999), 0.5)
    torch.manual_seed(3)
    assert torch.equal(drop(torch.ones(999), 0.5), first)
    assert not torch.equal(first, second)


def test_gradient_checkpointing_draws_the_same_mask_again():
    layer, states = CheapDropout(0.5), torch.ones(999, requires_grad=True)
    output = checkpoint(lambda values: layer(values.exp()), states, use_reentrant=False)
    output.sum().backward()
    assert torch.equal(states.grad == 0, output == 0)


def test_evaluation_and_rate_zero_change_nothing_and_rate_one_drops_all():
    states = torch.randn(10)
    assert torch.equal(CheapDropout(0.5).eval()(states), states)
    assert torch.equal(CheapDropout(0.0).train()(states), states)
    assert drop(states, 1.0).count_nonzero() == 0


def test_every_dropout_of_a_module_is_replaced_in_place():
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.3)), nn.Dropout1d(0.3))
    names = list(module.state_dict())
    use_cheap_dropout(module)
    assert isinstance(module[1][0], CheapDropout)
    assert module[1][0].p == 0.3
    assert type(module[2]) is nn.Dropout1d, "it drops whole rows: another function"
    assert list(module.state_dict()) == names
