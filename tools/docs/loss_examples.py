"""Small examples by which losses are drawn: a batch that a reader can follow with the eye.

Each gives tensors under the names that losses ask for (`juzhen.losses.loss`), and which of them are free to move.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


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
FAMILIES: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "order": (
        grades,
        (
            "cosent",
            "cosent_weighted",
            "cosent_adaptive",
            "cosent_sampled",
            "cosent_extremes",
            "cosent_layers",
            "margin_ranking",
        ),
    ),
    "values": (grades, ("cosine", "mse", "mse_signed", "huber", "quantile")),
    "labels": (
        labels,
        ("contrastive", "online_contrastive", "circle", "bce", "ce", "ce_mse", "cosent_bce"),
    ),
    "pairs": (
        pairs,
        ("cosine_embedding", "softmax", "softmax_graded", "bilinear", "cosent_softmax", "angle"),
    ),
    "search": (
        rows,
        (
            "info_nce",
            "info_nce_in_batch",
            "info_nce_own",
            "nt_xent",
            "info_nce_pool",
            "info_nce_extended",
            "info_nce_gte",
            "info_nce_guided",
            "info_nce_weighted",
            "info_nce_queue",
        ),
    ),
    "triplets": (rows, ("triplet", "triplet_online")),
    "sentences": (views, ("simcse", "simcse_nt_xent")),
    "documents": (
        documents,
        (
            "margin_mse",
            "list_kl",
            "list_mle",
            "p_list_mle",
            "rank_net",
            "lambda_loss",
            "adr_mse",
            "info_nce_drawn",
        ),
    ),
    "classes": (
        classes,
        (
            "prototype",
            "text_softmax",
            "arcface",
            "clustering",
            "sup_con",
            "multi_similarity",
            "triplet_batch_all",
            "triplet_soft_margin",
        ),
    ),
    "teacher": (students, ("distill", "distill_cosine", "distill_mse", "distill_similarity")),
}
"""Picture → the example of its losses, and their names in conf/loss; `by_kind` is a choice among them."""
