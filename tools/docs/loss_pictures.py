"""Draws what each loss pulls together and pushes apart: python -m tools.docs.loss_pictures docs/concepts/img

A panel is the gradient of one loss, with its numbers of conf/loss for cosines, at the example of its family: bars say
where the score of each pair is moved to, arrows where each text is.
"""

import argparse
import sys
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from benchmarks.report import COLOURS, MARKERS, STYLE
from juzhen.cli.program import run_program
from juzhen.core.examples import Kind
from juzhen.losses.loss import Loss
from juzhen.report.picture import save_picture
from lightning_modules.loss_factory import build_loss
from tools.docs.loss_examples import FAMILIES, Example
from tools.loss_numbers import losses_for, options

COLUMNS = 2
CANDIDATES, TEMPERATURES = (0.9, 0.8, 0.6, 0.3, 0.0), (1.0, 0.2, 0.05, 0.01)
"""Cosines of five candidates, and the temperatures at which their shares are drawn."""

PANEL = {True: (3.3, 2.1), False: (3.3, 3.3)}
"""Width and height in inches, of bars and of circles: two of them can be read on a phone."""

TEXT = {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
"""Text stays text: it can be read by a screen reader, and takes less room than its outlines."""

LONGEST_ARROW = 0.55
HEAD_STEPS, HEAD_RATE = 200, 0.5
"""A classifier that a loss brings along is fitted to the example first; then it is asked where texts should go."""


def loss_named(name: str, example: Example) -> Loss:
    """A loss with the numbers of conf/loss, its classifier fitted, its class directions where the example has them."""
    torch.manual_seed(0)
    loss = build_loss(losses_for(options("model")["biencoder"])[name], dim=2, num_classes=2)
    if "prototypes" in example.fixed and hasattr(loss, "prototypes"):
        loss.prototypes.data = example.fixed["prototypes"].clone()
    elif list(loss.parameters()):
        fitted = torch.optim.SGD(loss.parameters(), lr=HEAD_RATE)
        for _ in range(HEAD_STEPS):
            fitted.zero_grad()
            value_of(loss, example).backward()
            fitted.step()
    return loss


def value_of(loss: Loss, example: Example) -> Tensor:
    names = [name for name in loss.inputs if name in example.tensors]
    if Kind.TRIPLET not in loss.input_kinds:
        names = [name for name in names if name != "negatives"]  # it refuses what it would not read
    return loss(**{name: example.tensors[name] for name in names})


def pulls(name: str, example: Example) -> dict[str, Tensor]:
    """Name of a free tensor → where each of its values is moved to, −∂loss/∂value; the longest move is 1."""
    loss = loss_named(name, example)
    gradients = torch.autograd.grad(
        value_of(loss, example), list(example.free.values()), allow_unused=True, materialize_grads=True
    )
    lengths = [gradient.norm(dim=1) if gradient.ndim > 1 else gradient.abs() for gradient in gradients]
    longest = torch.cat(lengths).max().clamp(min=torch.finfo(torch.float32).tiny)
    return {key: -gradient / longest for key, gradient in zip(example.free, gradients, strict=True)}


def draw_bars(axes: Axes, example: Example, moves: dict[str, Tensor]) -> None:
    colours = LinearSegmentedColormap.from_list("targets", [COLOURS[1], "#999999", COLOURS[0]])
    scores, targets = example.free["scores"].detach().numpy(), example.marks.numpy()
    axes.vlines(scores, 0, moves["scores"], colors=colours(targets), linewidth=3)
    for marker, chosen in zip(MARKERS, (targets >= 0.5, targets < 0.5), strict=False):
        axes.scatter(scores[chosen], 0 * scores[chosen], marker=marker, color=colours(targets[chosen]), s=24)
    axes.set(
        xlim=(-0.2, 1.08),
        ylim=(-1.15, 1.15),
        xticks=[0, 0.5, 1],
        yticks=[-1, 0, 1],
        yticklabels=["push", "0", "pull"],
    )
    axes.set_xlabel("score")


def draw_circle(axes: Axes, example: Example, moves: dict[str, Tensor], *, has_directions: bool) -> None:
    colours = [COLOURS[mark] for mark in example.marks.tolist()]
    axes.add_patch(Circle((0, 0), 1, fill=False, color="#cccccc"))
    positions = {key: points.detach().T.numpy() for key, points in example.free.items()}
    if example.are_pairs:
        axes.plot(*np.stack(list(positions.values()), axis=1), ":", color="#999999", zorder=0)
    for marker, (key, (x, y)) in zip(MARKERS, positions.items(), strict=False):
        axes.scatter(x, y, marker=marker, color=colours, s=44)
        along = LONGEST_ARROW * moves[key].T.numpy()
        axes.quiver(x, y, *along, color=colours, angles="xy", scale_units="xy", scale=1, width=0.012)
    if has_directions or "teacher" in example.fixed:
        for x, y in (points.T.numpy() for points in example.fixed.values()):
            axes.scatter(
                x, y, marker="*", s=130, edgecolors=[COLOURS[mark] for mark in range(len(x))], c="white"
            )
    axes.set(xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect="equal", xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def picture(family: str) -> Figure:
    make, names = FAMILIES[family]
    of_scores = "scores" in make().free
    width, height = PANEL[of_scores]
    rows = -(-len(names) // COLUMNS)
    figure = Figure(figsize=(COLUMNS * width, rows * height))
    panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(panels, names, strict=False):
        example = make()
        moves = pulls(name, example)
        if of_scores:
            draw_bars(axes, example, moves)
        else:
            has_parameters = any(True for _ in loss_named(name, example).parameters())
            draw_circle(axes, example, moves, has_directions=has_parameters)
        axes.set_title(name)
    return figure


def shares(cosines: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(cosines / τ) at each τ, (temperatures, candidates), and its entropy in nats, (temperatures)."""
    logs = (cosines / temperatures[:, None]).log_softmax(dim=1)
    return logs.exp(), -(logs.exp() * logs).sum(dim=1)


def temperature_picture() -> Figure:
    """What a temperature makes of CANDIDATES: the share of each at some temperatures, and the entropy at all."""
    figure = Figure(figsize=(COLUMNS * 3.3, 2.6))
    bars, line = figure.subplots(1, COLUMNS)
    cosines, positions = torch.tensor(CANDIDATES), np.arange(len(CANDIDATES))
    width = 0.8 / len(TEMPERATURES)
    for number, (tau, share) in enumerate(
        zip(TEMPERATURES, shares(cosines, torch.tensor(TEMPERATURES))[0], strict=True)
    ):
        bars.bar(
            positions + (number - 1.5) * width, share, width, color=COLOURS[number], label=f"τ = {tau:g}"
        )
    bars.set(xticks=positions, xticklabels=CANDIDATES, xlabel="cosine of a candidate", ylabel="share")
    bars.legend(frameon=False)
    grid = torch.logspace(-3, 1, 200)
    line.plot(grid, shares(cosines, grid)[1], color="#555555")
    line.scatter(
        TEMPERATURES, shares(cosines, torch.tensor(TEMPERATURES))[1], color=COLOURS[: len(TEMPERATURES)]
    )
    line.axhline(np.log(len(CANDIDATES)), color="#999999", linestyle=":")
    line.set(xscale="log", xlabel="τ", ylabel="entropy, nats", ylim=(0, None))
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m tools.docs.loss_pictures", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path, help="where the pictures are written")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE | TEXT):
        for family in FAMILIES:
            save_picture(picture(family), folder / f"loss_{family}.svg")
        save_picture(temperature_picture(), folder / "temperature.svg")


if __name__ == "__main__":
    sys.exit(run_program(main))
