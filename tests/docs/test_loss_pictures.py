"""Every loss has its place in docs/concepts/losses.md: an equation, and a panel that is made from the loss itself."""

import re
from collections import Counter

import pytest
import torch

from juzhen.core.paths import ROOT
from tools.docs.loss_pictures import CANDIDATES, FAMILIES, TEMPERATURES, pulls, shares
from tools.loss_table import options

PAGE = ROOT / "docs" / "concepts" / "losses.md"
DRAWN = [(name, make) for make, names in FAMILIES.values() for name in names.split()]


def test_every_loss_is_drawn_once():
    assert Counter(name for name, _ in DRAWN) == Counter(
        name for name, one in options("loss").items() if "_target_" in one and "of" not in one
    )


def test_every_loss_has_a_heading_and_every_picture_a_place():
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"^##+ `(\w+)`", text, flags=re.MULTILINE)) == sorted(options("loss"))
    shown = re.findall(r"!\[[^\]]{40,}\]\(img/(loss_\w+)\.svg\)", text)
    assert sorted(shown) == sorted(f"loss_{family}" for family in FAMILIES)
    assert sorted(path.stem for path in (PAGE.parent / "img").glob("loss_*.svg")) == sorted(shown)


def test_a_temperature_is_drawn_and_its_numbers_are_those_of_the_page():
    text = PAGE.read_text(encoding="utf-8")
    assert "](img/temperature.svg)" in text
    assert (PAGE.parent / "img" / "temperature.svg").is_file()
    found, entropies = shares(torch.tensor(CANDIDATES), torch.tensor(TEMPERATURES))
    table = [line.strip("|").split("|") for line in text.partition("| τ | entropy |")[2].splitlines()[2:6]]
    for line, tau, share, entropy in zip(table, TEMPERATURES, found, entropies, strict=True):
        assert float(line[0]) == tau
        assert [float(cell) for cell in line[1:]] == pytest.approx(
            [entropy.item(), share[0].item()], abs=6e-4
        )
    assert entropies.diff().le(0).all()


@pytest.mark.parametrize(("name", "make"), DRAWN, ids=[name for name, _ in DRAWN])
@pytest.mark.sampled(8)
def test_the_example_of_a_loss_has_something_to_teach(name, make):
    moves = pulls(name, make())
    assert all(one.isfinite().all() for one in moves.values())
    assert max(float(one.abs().max()) for one in moves.values()) > 0.5
