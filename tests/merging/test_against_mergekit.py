"""Each method gives what mergekit gives, tensor by tensor, to 1e-6. MERGEKIT=FOLDER: where it is installed alone."""

import os
import sys

import pytest
import torch

from juzhen.merging.methods import METHODS

pytestmark = pytest.mark.oracle
SHAPES = {"matrix": (17, 13), "bias": (13,), "table": (40, 8)}
THEIRS = {"dare": "dare_linear", "greedy_soup": "linear"}
WEIGHTS = [0.2, 0.5, 0.3]


@pytest.fixture(scope="module")
def mergekit():
    if folder := os.environ.get("MERGEKIT"):
        sys.path.append(folder)
    return pytest.importorskip("mergekit.merge_methods", reason="mergekit is not installed")


def states(count: int) -> list[dict[str, torch.Tensor]]:
    """Models that have moved a little from one start."""
    draw = torch.Generator().manual_seed(3)
    start = {name: torch.randn(shape, generator=draw) for name, shape in SHAPES.items()}
    return [
        {name: values + 0.3 * torch.randn(values.shape, generator=draw) for name, values in start.items()}
        for _ in range(count + 1)
    ]


@pytest.mark.parametrize("name", METHODS)
def test_it_is_mergekits(name, mergekit, monkeypatch):
    method = METHODS[name]
    base, *models = states(2 if name == "slerp" else 3)
    weights = WEIGHTS[: len(models)]
    parameters: dict = {"weight": dict(enumerate(weights))} if method.is_weighted else {}
    if name == "slerp":
        parameters = {"t": weights[1] / sum(weights)}
    if method.takes:
        parameters["density"] = dict.fromkeys(range(len(models)), 0.6)
    inputs, place = dict(enumerate(models)), 0 if name == "slerp" else None
    if method.of_vectors:
        inputs[len(models)], place = base, len(models)
    their, ours = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    draw = torch.bernoulli
    for key in SHAPES:
        with monkeypatch.context() as patched:  # DARE draws from the generator that ours is given
            patched.setattr(torch, "bernoulli", lambda shares, generator=None: draw(shares, generator=their))
            expected = mergekit.merge_state_dicts(
                {number: {key: state[key].clone()} for number, state in inputs.items()},
                mergekit.get(THEIRS.get(name, name)),
                base=place,
                parameters=parameters,
                dtype=torch.float32,
            )[key]
        found = method.merge(
            [state[key] for state in models],
            base[key] if method.of_vectors else None,
            weights,
            density=0.6,
            generator=ours,
        )
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
