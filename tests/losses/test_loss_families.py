"""What the files of the room agree on: names, tensors, and sums of losses."""

import re
from pathlib import Path

import pytest
import torch

import juzhen.losses
from conf.own_classes import own_class
from juzhen import losses
from juzhen.core.aliases import current_target
from juzhen.core.batch import TENSORS
from juzhen.losses.loss import Contrast, Loss
from tools.archives import unpacked
from tools.loss_table import options

SCORES = torch.tensor([0.9, 0.1, 0.4, 0.6], dtype=torch.float64)
TARGETS = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)


def test_no_file_is_called_like_a_name_in_it():
    """`from juzhen.losses import name` would be the module once that was imported."""
    files = {path.stem for path in Path(juzhen.losses.__file__).parent.glob("*.py")}
    assert not files & set(juzhen.losses.__all__)


def test_every_tensor_that_a_loss_reads_is_in_the_table():
    exported = [getattr(losses, name) for name in losses.__all__]
    read = [
        one.inputs
        for one in exported
        if isinstance(one, type) and issubclass(one, Loss) and hasattr(one, "inputs")
    ]
    around = losses.NestedLayers(of=losses.CoSENT()).inputs  # it is known when it is made
    assert set().union(*read, around) == set(TENSORS)


def test_a_sum_is_the_sum_of_its_parts():
    loss, logs = losses.CoSENTAndBCE(temperature=0.1, entropy_temperature=0.5, entropy_weight=0.3).with_logs(
        SCORES, TARGETS
    )
    order = losses.cosent(SCORES, TARGETS, temperature=0.1)
    entropy = losses.binary_cross_entropy(SCORES / 0.5, TARGETS)
    assert torch.equal(loss, order + 0.3 * entropy)
    assert (logs["order"].item(), logs["entropy"].item()) == (order.item(), entropy.item())
    assert {"accuracy", "score_gap"} <= set(logs)
    numbers = {"temperature": 0.1, "entropy_temperature": 0.5, "entropy_weight": 0.3}
    assert torch.equal(losses.cosent_and_entropy(SCORES, TARGETS, **numbers), loss)
    error = losses.squared_error(SCORES, TARGETS, activation="sigmoid")
    expected = losses.binary_cross_entropy(SCORES, TARGETS) + 0.7 * error
    assert losses.cross_entropy_and_error(SCORES, TARGETS, error_weight=0.7).item() == pytest.approx(
        expected.item()
    )


@pytest.mark.parametrize(
    ("loss", "key", "with_it", "without"),
    [
        ("CoSENTAndBCE", "entropy_weight", Contrast.VALUES, Contrast.ORDER),
        ("CoSENTAndSoftmax", "entropy_weight", Contrast.CLASSES, Contrast.ORDER),
        ("Distill", "similarity_weight", Contrast.NONE, Contrast.NONE),
    ],
)
def test_a_sum_asks_of_rows_what_its_least_demanding_part_does(loss, key, with_it, without):
    build = getattr(losses, loss)
    head = {"dim": 2, "num_classes": 2} if build.has_parameters else {}
    assert build(**head).contrast is with_it
    assert build(**head, **{key: 0}).contrast is without


def test_committed_results_name_losses_that_are_there():
    pattern = re.compile(r'"_target_": "(juzhen\.losses\.[\w.]+)"')
    found = {one for path in unpacked().rglob("result.json") for one in pattern.findall(path.read_text())}
    assert len(found) > 20
    known = {one["_target_"] for one in options("loss").values() if "_target_" in one}
    assert {current_target(one) for one in found} <= known
    assert all(issubclass(own_class(one), Loss) for one in found)
