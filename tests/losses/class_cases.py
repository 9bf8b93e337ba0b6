"""Cases of the losses that read embeddings: classes of texts, forms over pairs, complex angles, two views."""

from collections.abc import Callable
from functools import wraps

import loop_oracles as oracle
import torch
from loss_cases import DIM, Case, Rows, case, expected_info_nce, expected_nt_xent
from score_cases import GRADED, grades
from torch import Tensor

from juzhen import losses
from juzhen.core.examples import Kind

NO_MIX = {"angle_weight": 1, "cosine_weight": 0, "batch_weight": 0, "positive_from": 1.0}
MIX = {"angle_weight": 0.5, "cosine_weight": 0.2, "batch_weight": 0.7, "positive_from": 0.8}


def seeded(build: Callable[..., losses.Loss]) -> Callable[..., losses.Loss]:
    """Builds the loss with the same random head every time."""

    @wraps(build, updated=())
    def built(**options: object) -> losses.Loss:
        torch.manual_seed(7)
        return build(dim=DIM, **options).double()

    return built


def cosines(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack([oracle.cosine(u, v) for u, v in zip(first, second, strict=True)])


def expected_angle(loss: losses.AnglE, rows: Rows) -> Tensor:
    first, second = rows.embeddings.values()
    targets = grades(rows)
    total = oracle.cosent(oracle.angle_scores(first, second), targets, loss.angle_temperature)
    total = loss.angle_weight * total
    total = total + loss.cosine_weight * oracle.cosent(cosines(first, second), targets, loss.temperature)
    first_texts, second_texts = (ids.tolist() for ids in rows.text_ids.values())
    is_positive = [target >= loss.positive_from for target in targets]
    search = oracle.batch_search(first, second, first_texts, second_texts, is_positive, loss.temperature)
    return total + loss.batch_weight * search


def expected_bilinear(loss: losses.Bilinear, rows: Rows) -> Tensor:
    logits = oracle.bilinear_logits(*rows.embeddings.values(), loss.head.weight, loss.head.bias)
    if loss.objective == "ce":
        return oracle.class_entropy(logits, rows.targets, 0.0, 0.0)
    return oracle.binary_entropy([logit for (logit,) in logits], rows.targets)


def expected_cosent_softmax(loss: losses.CoSENTAndSoftmax, rows: Rows) -> Tensor:
    first, second = rows.embeddings.values()
    head = loss.losses["entropy"].head
    entropy = oracle.softmax(
        first, second, rows.targets, head.weight, head.bias, use_difference=True, use_product=False
    )
    order = oracle.cosent(cosines(first, second), grades(rows), loss.temperature)
    return order + loss.entropy_weight * entropy


def expected_prototypes(loss: losses.Prototype | losses.ArcFace, rows: Rows) -> Tensor:
    margin = getattr(loss, "margin", 0.0)
    return oracle.prototypes(rows.embeddings["text"], loss.prototypes, rows.targets, loss.temperature, margin)


def expected_clustering(loss: losses.Clustering, rows: Rows) -> Tensor:
    texts = rows.embeddings["text"]
    return oracle.clustering(texts, rows.targets, loss.separation_weight, loss.separation_margin)


def embedding_cases() -> list[Case]:
    shared = {"temperature": 0.05, "angle_temperature": 0.1}
    cases = [
        case(losses.AnglE, kind, expected_angle, **shared, **mix) for mix in (NO_MIX, MIX) for kind in GRADED
    ]
    text, sentence, pair, nli = Kind.LABELLED_TEXT, Kind.SENTENCE, Kind.LABELLED_PAIR, Kind.NLI_PAIR
    for kind, count in ((pair, 2), (nli, 3)):
        both = {"temperature": 0.05, "entropy_weight": 0.5, "num_classes": count}
        cases += [case(seeded(losses.CoSENTAndSoftmax), kind, expected_cosent_softmax, **both)]
    for kind, count, objective in ((pair, 2, "bce"), (pair, 2, "ce"), (nli, 3, "ce")):
        form = {"objective": objective, "num_classes": count}
        cases += [case(seeded(losses.Bilinear), kind, expected_bilinear, **form)]
    cases += [case(seeded(losses.Prototype), text, expected_prototypes, temperature=0.07, num_classes=4)]
    for margin, temperature, count in ((0.5, 0.05, 4), (2.0, 0.3, 3)):
        arc = {"margin": margin, "temperature": temperature, "num_classes": count}
        cases += [case(seeded(losses.ArcFace), text, expected_prototypes, **arc)]
    for weight, margin in ((1.0, -0.5), (0.0, 0.0)):
        push = {"separation_weight": weight, "separation_margin": margin}
        cases += [case(losses.Clustering, text, expected_clustering, **push)]
    return [
        *cases,
        case(losses.SimCSE, sentence, expected_info_nce, 0, temperature=0.05, symmetric=False),
        case(losses.SimCSENTXent, sentence, expected_nt_xent, 0, temperature=0.05),
    ]


CLASS_CASES = embedding_cases()
