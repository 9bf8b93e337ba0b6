"""Rows to feed a loss with, and cases: every loss of conf/loss with its numbers, and many with other settings."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import loop_oracles as oracle
import pytest
import torch
from torch import Tensor

from conf.own_classes import own_class
from juzhen import losses
from juzhen.core.batch import TENSORS, text_tensors
from juzhen.core.examples import NLI_GRADES, TEXT_COLUMNS, Kind
from juzhen.losses.loss import LossOutput
from lightning_modules.loss_factory import build_loss, declared_loss
from tools.loss_table import losses_for, options

DIM, TEACHER_DIM = 5, 7
NUM_CLASSES = {Kind.NLI_PAIR: 3, Kind.LABELLED_TEXT: 3}


@dataclass
class Rows:
    """What a loss may read of some rows. `targets` are as the set has them; `more` holds tensors without a field."""

    kind: Kind
    embeddings: dict[str, Tensor]
    text_ids: dict[str, Tensor]
    scores: Tensor | None = None
    targets: Tensor | None = None
    logits: Tensor | None = None
    layer_scores: Tensor | None = None
    projected: Tensor | None = None
    teacher: Tensor | None = None
    document_scores: Tensor | None = None
    teacher_scores: Tensor | None = None
    guide: Tensor | None = None
    more: dict[str, Tensor] = field(default_factory=dict)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """By the names of `juzhen.core.batch`."""
        found = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)} | self.more
        if self.targets is not None:
            found["classes"] = self.targets
            if self.kind is Kind.NLI_PAIR:
                found["targets"] = self.targets.new_tensor(NLI_GRADES)[self.targets.long()]
        ids = torch.stack(list(self.text_ids.values()), dim=1)
        return found | text_tensors(list(self.embeddings.values())) | {"text_ids": ids}


def loss_of(loss: losses.Loss, rows: Rows) -> LossOutput:
    """As the step of a job asks for it."""
    return loss.with_logs(**read_by(loss, rows))


def read_by(loss: losses.Loss, rows: Rows) -> dict[str, Tensor]:
    return {name: values for name, values in rows.tensors.items() if name in loss.inputs}


def encoded_rows(
    kind: Kind,
    *,
    count: int = 9,
    seed: int = 0,
    num_negatives: int = 1,
    num_layers: int = 3,
    dtype: torch.dtype = torch.float64,
) -> Rows:
    """Random rows of a kind, every text its own, with gradients; targets are of the kind and include ties."""
    generator = torch.Generator().manual_seed(seed)
    names = TEXT_COLUMNS[
        Kind.POSITIVE_PAIR if kind is Kind.SENTENCE else kind
    ]  # a sentence comes in two views
    columns = [*names, *(f"negative_{number}" for number in range(2, num_negatives + 1))]

    def leaf(values: Tensor) -> Tensor:
        return values.to(dtype).requires_grad_()

    choices = {Kind.SCORED_PAIR: 6, Kind.LABELLED_PAIR: 2, Kind.NLI_PAIR: 3, Kind.LABELLED_TEXT: 3}.get(kind)
    targets = (
        None
        if choices is None
        else (torch.arange(count) % choices)[torch.randperm(count, generator=generator)]
    )
    if kind is Kind.SCORED_PAIR:
        targets = targets / 5
    rows = Rows(
        kind=kind,
        embeddings={name: leaf(torch.randn(count, DIM, generator=generator)) for name in columns},
        # The first negative is the text 0, which is not a missing one.
        text_ids={
            name: torch.arange(count) + (number - 2) % len(columns) * count
            for number, name in enumerate(columns)
        },
        scores=leaf(torch.rand(count, generator=generator) * 2 - 1),
        targets=None
        if targets is None
        else targets.to(torch.float64 if dtype == torch.float64 else torch.float32),
        logits=leaf(torch.randn(count, choices or 2, generator=generator)),
        layer_scores=leaf(torch.rand(count, num_layers, generator=generator) * 2 - 1),
        projected=leaf(torch.randn(count, TEACHER_DIM, generator=generator)),
        teacher=torch.randn(count, TEACHER_DIM, generator=generator).to(dtype),
        document_scores=leaf(torch.rand(count, 1 + num_negatives, generator=generator) * 2 - 1),
        teacher_scores=torch.randn(count, 1 + num_negatives, generator=generator).to(dtype) * 4,
        guide=torch.randn(count, len(columns), TEACHER_DIM, generator=generator).to(dtype),
    )
    sizes = {
        "batch": count,
        "dim": DIM,
        "texts": len(columns),
        "negatives": num_negatives,
        "layers": num_layers,
    }
    sizes |= {"classes": choices or 2, "teacher": TEACHER_DIM, "documents": 1 + num_negatives}
    for name in sorted(
        set(TENSORS) - set(rows.tensors) - {"targets", "classes", "negatives", "second", "positives"}
    ):
        drawn = torch.rand(*(sizes[axis] for axis in TENSORS[name].axes), generator=generator).to(dtype)
        rows.more[name] = drawn.requires_grad_(TENSORS[name].is_learnt)
    return rows


def rows_of(encoded: Rows, rows: Tensor) -> Rows:
    """The chosen rows, still attached to the gradients of the whole."""
    chosen = {
        name: value[rows] if isinstance(value, Tensor) else {key: one[rows] for key, one in value.items()}
        for name, value in vars(encoded).items()
        if isinstance(value, Tensor | dict)
    }
    return replace(encoded, **chosen)


def leaves(loss: losses.Loss, encoded: Rows) -> list[Tensor]:
    """What the loss reads and what it owns: the tensors that shall get a gradient."""
    read = {
        "scores": [encoded.scores],
        "cosines": [encoded.scores],
        "logits": [encoded.logits],
        "layers": [values for name, values in read_by(loss, encoded).items() if TENSORS[name].is_learnt],
        "lists": [encoded.document_scores],
        "drawn_lists": [encoded.document_scores],
        "embeddings": list(encoded.embeddings.values()),
        "guide": list(encoded.embeddings.values()),
        "teacher": [values for name, values in read_by(loss, encoded).items() if name != "teacher"],
    }[loss.input_type]
    return read + list(loss.parameters())


def value_of(loss: losses.Loss, encoded: Rows) -> LossOutput:
    """As a job calls it; what a loss draws is the same at every call, so that two calls can be compared."""
    torch.manual_seed(5)
    return loss_of(loss, encoded)


def gradients(value: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Gradients of `value`, zero for inputs it does not depend on."""
    return torch.autograd.grad(value, inputs, allow_unused=True, materialize_grads=True)


def assert_same(value: Tensor, expected: Tensor, inputs: list[Tensor], within: float = 1e-9) -> None:
    """Both have the same value, and the same gradients by the inputs."""
    assert value.item() == pytest.approx(expected.item(), rel=within, abs=1e-9)
    for ours, theirs in zip(gradients(value, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=within, atol=within)


@dataclass
class Case:
    """One loss with one setting, on one kind of rows, and what a loop makes of them (None: nobody asks)."""

    name: str
    build: Callable[[], losses.Loss]
    kind: Kind
    expected: Callable[[losses.Loss, Rows], Tensor] | None = None
    num_negatives: int = 1
    loss: str | None = None

    def rows(self, **options: object) -> Rows:
        layers = len(self.build().depths)
        return encoded_rows(self.kind, num_negatives=self.num_negatives, num_layers=layers, **options)


def case(
    build: Callable[..., losses.Loss],
    kind: Kind,
    expected: Callable[[losses.Loss, Rows], Tensor],
    num_negatives: int = 1,
    **options: object,
) -> Case:
    """Is called after its class, its rows and its settings."""
    name = "-".join(map(str, [build.__name__, kind, num_negatives, *options.values()]))
    return Case(name, partial(build, **options), kind, expected, num_negatives)


@cache
def numbers(model: str) -> dict[str, dict[str, Any]]:
    """Name → configuration of every loss for a model."""
    return losses_for(options("model")[model])


def of_configuration(name: str, kind: Kind) -> losses.Loss:
    """The loss of conf/loss/<name>.yaml with its numbers, in float64; of logits where it consumes class logits."""
    config = numbers("biencoder")[name]
    if own_class(config["_target_"]).input_type == "logits":
        config = numbers("crossencoder")[name]
    torch.manual_seed(7)
    return build_loss(config, dim=DIM, num_classes=NUM_CLASSES.get(kind, 2)).double()


def configured_cases() -> list[Case]:
    """Every loss of conf/loss on every kind of rows that it takes."""
    nodes = {name: node for name, node in options("loss").items() if "_target_" in node}
    return [
        Case(f"{name}-{kind}", partial(of_configuration, name, kind), kind, loss=name)
        for name, node in nodes.items()
        for kind in declared_loss(node).input_kinds
    ]


def seeded_head(num_classes: int, **options: bool) -> losses.SoftmaxClassifier:
    torch.manual_seed(7)
    return losses.SoftmaxClassifier(dim=DIM, num_classes=num_classes, **options).double()


def expected_cosent(loss: losses.CoSENT, rows: Rows) -> Tensor:
    targets = (
        [NLI_GRADES[int(label)] for label in rows.targets] if rows.kind is Kind.NLI_PAIR else rows.targets
    )
    return oracle.cosent(rows.scores, targets, loss.temperature)


def expected_cosine(loss: losses.CosineSimilarity, rows: Rows) -> Tensor:
    return oracle.cosine_regression(rows.scores, rows.targets, *loss.target_range)


def seeded_text_head() -> losses.TextClassifier:
    torch.manual_seed(5)
    return losses.TextClassifier(dim=DIM, num_classes=3).double()


def expected_text_softmax(loss: losses.TextClassifier, rows: Rows) -> Tensor:
    (texts,) = rows.embeddings.values()
    logits = [
        [oracle.dot(text, row) + shift for row, shift in zip(loss.head.weight, loss.head.bias, strict=True)]
        for text in texts
    ]
    return oracle.class_entropy(logits, rows.targets, 0.0, 0.0)


def expected_softmax(loss: losses.SoftmaxClassifier, rows: Rows) -> Tensor:
    first, second = rows.embeddings.values()
    return oracle.softmax(
        first,
        second,
        rows.targets,
        loss.head.weight,
        loss.head.bias,
        use_difference=loss.use_difference,
        use_product=loss.use_product,
    )


def expected_info_nce(loss: losses.InfoNCE, rows: Rows) -> Tensor:
    anchors, *pools = rows.embeddings.values()
    anchor_texts, *pool_texts = [ids.tolist() for ids in rows.text_ids.values()]
    return oracle.info_nce(anchors, pools, anchor_texts, pool_texts, loss.temperature, loss.symmetric)


def expected_info_nce_own(loss: losses.InfoNCEOwn, rows: Rows) -> Tensor:
    anchors, positives, *others = rows.embeddings.values()
    anchor_texts, positive_texts, *texts = [ids.tolist() for ids in rows.text_ids.values()]
    return oracle.info_nce_own(
        anchors, positives, others, anchor_texts, positive_texts, texts, loss.temperature
    )


def expected_nt_xent(loss: losses.NTXent, rows: Rows) -> Tensor:
    texts = [ids.tolist() for ids in rows.text_ids.values()]
    return oracle.nt_xent(*rows.embeddings.values(), *texts, loss.temperature)


def expected_triplet(loss: losses.TripletMargin, rows: Rows) -> Tensor:
    anchors, positives, *negatives = rows.embeddings.values()
    if loss.adaptive_margin:
        return oracle.triplet_adaptive(anchors, positives, negatives, loss.margin, loss.adaptive_margin)
    return oracle.triplet(anchors, positives, negatives, loss.margin, loss.distance)


def expected_triplet_online(loss: losses.TripletOnline, rows: Rows) -> Tensor:
    anchors, *pools = rows.embeddings.values()
    texts, *pool_texts = [ids.tolist() for ids in rows.text_ids.values()]
    return oracle.triplet_online(
        anchors, pools, texts, pool_texts, loss.mining, loss.margin, loss.adaptive_margin
    )


def expected_mse_signed(loss: losses.SquaredErrorSigned, rows: Rows) -> Tensor:
    return oracle.cosine_regression(rows.scores, rows.targets, -1, 1)


def expected_cosine_embedding(loss: losses.CosineEmbeddingLoss, rows: Rows) -> Tensor:
    signs = 2 * rows.targets - 1
    return torch.nn.CosineEmbeddingLoss(margin=loss.margin)(*rows.embeddings.values(), signs)


def expected_contrastive(loss: losses.Contrastive, rows: Rows) -> Tensor:
    return oracle.contrastive(rows.scores, rows.targets, loss.margin)


def expected_online_contrastive(loss: losses.OnlineContrastive, rows: Rows) -> Tensor:
    return oracle.online_contrastive(rows.scores, rows.targets, loss.margin, loss.reduction)


def pair_cases() -> list[Case]:
    graded, labelled = Kind.SCORED_PAIR, Kind.LABELLED_PAIR
    cases = [
        case(losses.CoSENT, kind, expected_cosent, temperature=0.05)
        for kind in (graded, labelled, Kind.NLI_PAIR)
    ]
    cases += [
        case(losses.CosineSimilarity, graded, expected_cosine, target_range=[low, 1]) for low in (0, -1)
    ]
    cases += [case(losses.SquaredErrorSigned, graded, expected_mse_signed)]
    cases += [
        case(losses.CosineEmbeddingLoss, labelled, expected_cosine_embedding, margin=margin)
        for margin in (0, 0.5, -0.25)
    ]
    cases += [case(losses.Contrastive, labelled, expected_contrastive, margin=0.5)]
    cases += [
        case(losses.OnlineContrastive, labelled, expected_online_contrastive, margin=0.5, reduction=reduction)
        for reduction in ("mean", "sum")
    ]
    cases += [case(seeded_text_head, Kind.LABELLED_TEXT, expected_text_softmax)]
    settings = [(Kind.NLI_PAIR, True, False), (Kind.NLI_PAIR, False, True), (labelled, True, True)]
    cases += [
        case(
            seeded_head, kind, expected_softmax,
            num_classes=NUM_CLASSES.get(kind, 2), use_difference=difference, use_product=product,
        )
        for kind, difference, product in settings
    ]  # fmt: skip
    return cases


def ranking_cases() -> list[Case]:
    pair, triplet = Kind.POSITIVE_PAIR, Kind.TRIPLET
    cases = [
        case(losses.InfoNCE, kind, expected_info_nce, num_negatives, temperature=0.05, symmetric=symmetric)
        for kind, num_negatives in ((pair, 0), (triplet, 1), (triplet, 3))
        for symmetric in (False, True)
    ]
    cases += [
        case(losses.InfoNCEOwn, triplet, expected_info_nce_own, num_negatives, temperature=0.07)
        for num_negatives in (1, 3)
    ]
    cases += [
        case(losses.InfoNCEInBatch, pair, expected_info_nce, 0, temperature=0.07, symmetric=True),
        case(losses.NTXent, pair, expected_nt_xent, 0, temperature=0.05),
    ]
    settings = [("cosine", 1, 0), ("cosine", 3, 0), ("euclidean", 2, 0), ("cosine", 2, 3.0)]
    cases += [
        case(
            losses.TripletMargin, triplet, expected_triplet, num_negatives,
            margin=0.2, distance=distance, adaptive_margin=share,
        )
        for distance, num_negatives, share in settings
    ]  # fmt: skip
    cases += [
        case(
            losses.TripletOnline, kind, expected_triplet_online, num_negatives,
            mining=mining, margin=0.2, adaptive_margin=share,
        )
        for mining in ("batch_hard", "semi_hard")
        for kind, num_negatives, share in ((pair, 0, 0), (triplet, 1, 2.0), (triplet, 3, 0))
    ]  # fmt: skip
    return cases


CASES = pair_cases() + ranking_cases()
