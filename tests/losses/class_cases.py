"""Cases of the losses that read embeddings: classes of texts, forms over pairs, complex angles, two views."""

from collections.abc import Callable
from functools import partial

import loop_oracles as oracle
import torch
from loss_cases import DIM, Case, expected_info_nce, expected_nt_xent
from score_cases import GRADED, grades
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses import (
    AnglE,
    ArcFace,
    Bilinear,
    Clustering,
    CoSENTAndSoftmax,
    Loss,
    Prototype,
    SimCSE,
    SimCSENTXent,
)

NO_MIX = {"angle_weight": 1, "cosine_weight": 0, "batch_weight": 0, "positive_from": 1.0}
MIX = {"angle_weight": 0.5, "cosine_weight": 2, "batch_weight": 0.7, "positive_from": 0.8}


def seeded(build: Callable[..., Loss], **options: object) -> Callable[[], Loss]:
    """Builds the loss with the same random head every time."""

    def built() -> Loss:
        torch.manual_seed(7)
        return build(dim=DIM, **options).double()

    return built


def cosines(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack([oracle.cosine(u, v) for u, v in zip(first, second, strict=True)])


def expected_angle(loss: AnglE, rows: Encoded) -> Tensor:
    first, second = rows.embeddings.values()
    targets = grades(rows)
    total = oracle.cosent(oracle.angle_scores(first, second), targets, loss.angle_temperature)
    total = loss.angle_weight * total
    total = total + loss.cosine_weight * oracle.cosent(cosines(first, second), targets, loss.temperature)
    first_texts, second_texts = (ids.tolist() for ids in rows.text_ids.values())
    is_positive = [target >= loss.positive_from for target in targets]
    search = oracle.batch_search(first, second, first_texts, second_texts, is_positive, loss.temperature)
    return total + loss.batch_weight * search


def expected_bilinear(loss: Bilinear, rows: Encoded) -> Tensor:
    logits = oracle.bilinear_logits(*rows.embeddings.values(), loss.head.weight, loss.head.bias)
    if loss.objective == "ce":
        return oracle.class_entropy(logits, rows.targets, 0.0, 0.0)
    return oracle.binary_entropy([logit for (logit,) in logits], rows.targets)


def expected_cosent_softmax(loss: CoSENTAndSoftmax, rows: Encoded) -> Tensor:
    first, second = rows.embeddings.values()
    entropy = oracle.softmax(
        first,
        second,
        rows.targets,
        loss.head.weight,
        loss.head.bias,
        use_difference=True,
        use_product=False,
    )
    order = oracle.cosent(cosines(first, second), grades(rows), loss.temperature)
    return order + loss.entropy_weight * entropy


def expected_prototypes(loss: Prototype | ArcFace, rows: Encoded) -> Tensor:
    margin = getattr(loss, "margin", 0.0)
    return oracle.prototypes(rows.embeddings["text"], loss.prototypes, rows.targets, loss.temperature, margin)


def expected_clustering(loss: Clustering, rows: Encoded) -> Tensor:
    texts = rows.embeddings["text"]
    return oracle.clustering(texts, rows.targets, loss.separation_weight, loss.separation_margin)


def angle_cases() -> list[Case]:
    shared = {"temperature": 0.05, "angle_temperature": 0.1}
    return [
        Case(f"angle-{kind}-{name}", partial(AnglE, **shared, **weights), kind, expected_angle)
        for name, weights in (("alone", NO_MIX), ("mix", MIX))
        for kind in GRADED
    ]


def head_cases() -> list[Case]:
    kinds = {Kind.LABELLED_PAIR: 2, Kind.NLI_PAIR: 3}
    cases = [
        Case(
            f"cosent_softmax-{kind}",
            seeded(CoSENTAndSoftmax, temperature=0.05, entropy_weight=0.5, num_classes=count),
            kind,
            expected_cosent_softmax,
        )
        for kind, count in kinds.items()
    ]
    cases += [
        Case(
            f"bilinear-{kind}-{objective}",
            seeded(Bilinear, objective=objective, num_classes=kinds[kind]),
            kind,
            expected_bilinear,
        )
        for kind, objective in (
            (Kind.LABELLED_PAIR, "bce"),
            (Kind.LABELLED_PAIR, "ce"),
            (Kind.NLI_PAIR, "ce"),
        )
    ]
    return cases


def text_cases() -> list[Case]:
    text = Kind.LABELLED_TEXT
    cases = [
        Case("prototype", seeded(Prototype, temperature=0.07, num_classes=4), text, expected_prototypes),
        Case(
            "arcface",
            seeded(ArcFace, margin=0.5, temperature=0.05, num_classes=4),
            text,
            expected_prototypes,
        ),
        Case(
            "arcface-wide",
            seeded(ArcFace, margin=2.0, temperature=0.3, num_classes=3),
            text,
            expected_prototypes,
        ),
    ]
    cases += [
        Case(
            f"clustering-{weight}-{margin}",
            partial(Clustering, separation_weight=weight, separation_margin=margin),
            text,
            expected_clustering,
        )
        for weight, margin in ((1.0, -0.5), (0.0, 0.0))
    ]
    return cases


CLASS_CASES = [
    *angle_cases(),
    *head_cases(),
    *text_cases(),
    Case("simcse", partial(SimCSE, temperature=0.05, symmetric=False), Kind.SENTENCE, expected_info_nce, 0),
    Case("simcse_nt_xent", partial(SimCSENTXent, temperature=0.05), Kind.SENTENCE, expected_nt_xent, 0),
]
