"""Draws what each loss pulls together and pushes apart: python -m tools.docs.loss_pictures docs/concepts/img

A panel is the gradient of one loss, with its numbers of conf/loss for cosines, at the example of its family: bars say
where the score of each pair is moved to, arrows where each text is. An example is a batch that a reader can follow with
the eye: tensors under the names that losses ask for (`juzhen.losses.loss`), and which of them are free to move.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from tools.loss_table import losses_for, options


@dataclass(frozen=True)
class Example:
    """tensors  name → what a loss may ask for
    free     name → leaf whose gradient is drawn: scores (batch), or texts (batch, 2) on the plane
    marks    what each row is drawn as: its target from 0 to 1, or the number of its row or class
    fixed    name → places that are drawn and do not move
    are_pairs  a line joins the texts of a row
    """

    tensors: dict[str, Tensor]
    free: dict[str, Tensor]
    marks: Tensor
    fixed: dict[str, Tensor]
    are_pairs: bool = False


def at(degrees: Sequence[float], *, radius: float = 1.0) -> Tensor:
    """Places on a circle, (texts, 2)."""
    return torch.tensor([[math.cos(angle), math.sin(angle)] for angle in map(math.radians, degrees)]) * radius


def _free(**degrees: Sequence[float]) -> dict[str, Tensor]:
    """Names, with _ for a space → places on the circle that are free to move."""
    return {name.replace("_", " "): at(angles).requires_grad_() for name, angles in degrees.items()}


def _of_scores(scores: Sequence[float], targets: Sequence[float]) -> Example:
    free, gold = torch.tensor(scores, requires_grad=True), torch.tensor(targets)
    # Two nodes whose difference is the score / temperature.
    logits = torch.stack([-free / 2, free / 2], dim=1) / 0.05
    tensors = {"scores": free, "targets": gold, "layer_scores": torch.stack([free, free], dim=1)}
    tensors |= {"logits": logits, "classes": gold.round()}
    return Example(tensors, {"scores": free}, gold, {})


def grades() -> Example:
    """Ten pairs, two of each grade; some neighbours stand in the wrong order, one of grade 0 is high."""
    return _of_scores(
        [0.90, 0.60, 0.74, 0.66, 0.70, 0.44, 0.52, 0.48, 0.10, 0.56],
        [1.0, 1.0, 0.75, 0.75, 0.5, 0.5, 0.25, 0.25, 0.0, 0.0],
    )


def labels() -> Example:
    """Five pairs with label 1 and five with label 0, some of them on the wrong side."""
    return _of_scores([0.96, 0.84, 0.70, 0.58, 0.42, 0.62, 0.50, 0.34, 0.12, -0.10], [1.0] * 5 + [0.0] * 5)


def documents() -> Example:
    """One query: its answer at 0.55, five other documents, and what a teacher scores each."""
    free = torch.tensor([0.55, 0.80, 0.62, 0.40, 0.20, 0.00], requires_grad=True)
    teacher = torch.tensor([[6.0, 5.0, 0.0, 2.0, -2.0, -4.0]])
    tensors = {"document_scores": free[None], "teacher_scores": teacher}
    return Example(tensors, {"scores": free}, torch.tensor([1.0, 0, 0, 0, 0, 0]), {})


def rows() -> Example:
    """Three rows of anchor, positive and negative; a guide holds the positive of row 0 for an answer to anchor 1."""
    free = _free(anchor=[20, 62, 200], positive=[50, 95, 235], negative=[345, 130, 170])
    anchors, positives, negatives = free.values()
    guide = torch.stack([vectors.detach() for vectors in free.values()], dim=1)
    guide[0, 1] = anchors[1].detach()
    tensors = {"anchors": anchors, "positives": positives, "negatives": negatives[:, None], "guide": guide}
    tensors |= {"first": anchors, "second": positives}
    return Example(tensors, free, torch.arange(3), {})


def views() -> Example:
    """Three sentences, each encoded twice: dropout makes a difference of 12 degrees."""
    free = _free(first_view=[15, 85, 250], second_view=[27, 97, 262])
    first, second = free.values()
    tensors = {"anchors": first, "positives": second, "first": first, "second": second}
    return Example(tensors, free, torch.arange(3), {})


def pairs() -> Example:
    """Two pairs with label 1, two with label 0; one of each kind is where it should not be."""
    free = _free(first=[10, 100, 190, 280], second=[30, 165, 212, 345])
    classes = torch.tensor([1.0, 1.0, 0.0, 0.0])
    tensors = {**free, "classes": classes, "targets": classes}
    return Example(tensors, free, 1 - classes.long(), {}, are_pairs=True)


def classes() -> Example:
    """Six texts of two classes; where a loss learns a direction for each class, it is at 60 and at 190 degrees."""
    free = _free(embeddings=[20, 75, 150, 120, 215, 290])
    members = torch.tensor([0.0, 0, 0, 1, 1, 1])
    return Example({**free, "classes": members}, free, members.long(), {"prototypes": at([60, 190])})


def students() -> Example:
    """Four texts: where a student puts them, and where its teacher does, whose vectors are longer."""
    student, teacher = at([10, 80, 200, 300]).requires_grad_(), at([40, 95, 160, 310], radius=1.3)
    tensors = {"student": student, "projected": student, "teacher": teacher}
    return Example(tensors, {"student": student}, torch.arange(4), {"teacher": teacher})


Maker = Callable[[], Example]
FAMILIES: dict[str, tuple[Maker, str]] = {
    "order": (
        grades,
        "cosent cosent_weighted cosent_adaptive cosent_sampled cosent_extremes cosent_layers margin_ranking",
    ),
    "values": (grades, "cosine mse mse_signed huber quantile"),
    "labels": (labels, "contrastive online_contrastive circle bce ce ce_mse cosent_bce"),
    "pairs": (pairs, "cosine_embedding softmax softmax_graded bilinear cosent_softmax angle"),
    "search": (
        rows,
        "info_nce info_nce_in_batch info_nce_own nt_xent info_nce_pool info_nce_extended info_nce_gte "
        "info_nce_guided info_nce_weighted info_nce_queue",
    ),
    "triplets": (rows, "triplet triplet_online"),
    "sentences": (views, "simcse simcse_nt_xent"),
    "documents": (
        documents,
        "margin_mse list_kl list_mle p_list_mle rank_net lambda_loss adr_mse info_nce_drawn",
    ),
    "classes": (
        classes,
        "prototype text_softmax arcface clustering sup_con multi_similarity triplet_batch_all "
        "triplet_soft_margin",
    ),
    "teacher": (students, "distill distill_cosine distill_mse distill_similarity"),
}
"""Picture → the example of its losses, and their names in conf/loss; `by_kind` is a choice among them."""


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
    make, listed = FAMILIES[family]
    names = listed.split()
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
