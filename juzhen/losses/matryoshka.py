"""Losses around another loss: at the first numbers of embeddings (Matryoshka), and at layers below the last."""

from collections.abc import Mapping, Sequence
from dataclasses import InitVar
from inspect import Parameter, Signature
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from juzhen.core.batch import TENSORS, text_tensors
from juzhen.core.errors import UserError
from juzhen.core.text import short
from juzhen.losses.arguments import (
    Count,
    Counts,
    Shares,
    Temperature,
    Weight,
    Weights,
    bound,
    fitting_tensors,
)
from juzhen.losses.in_batch_negatives import InfoNCEInBatch
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import full_precision, row_cosine

MADE_OF = {
    "scores": ("first", "second"),
    "document_scores": ("anchors", "positives", "negatives", "text_ids"),
}
"""What is computed again of shorter embeddings → what it is made of."""


OPTIONAL = ("second", "negatives", "text_ids", "teacher_scores")
"""Tensors that rows may lack. The inner loss names those that it needs."""


def doubling_dims(smallest: int, full: int) -> tuple[int, ...]:
    """List dimensions that double from the smallest, below the size of an embedding, and that size.

    Args:
        smallest: The smallest one.
        full: Size of an embedding.

    Returns:
        The dimensions, ascending.

    >>> doubling_dims(32, 384), doubling_dims(32, 16)
    ((32, 64, 128, 256, 384), (16,))
    """
    powers = [smallest << step for step in range(full.bit_length()) if smallest << step < full]
    return (*powers, full)


class Modifier(Loss):
    """Base of losses around another loss, whose embeddings they change first.

    It learns from the rows that the inner loss learns from.

    takes        input types that the inner loss may have
    takes_heads  True if the inner loss may have parameters

    Args:
        of: The inner loss.

    Raises:
        UserError: An inner loss with parameters of one embedding size, or without embeddings and scores.

    Example:
        >>> from juzhen.losses import CoSENT
        >>> class Halved(Modifier):
        ...     input_type = "cosines"
        ...     takes = ("scores", "cosines")
        ...
        ...     def with_logs(self, scores, targets):
        ...         return self.inner.with_logs(scores / 2, targets)
        >>> Halved(of=CoSENT())(torch.tensor([0.9, 0.2]), torch.tensor([1.0, 0.0]))
        tensor(0.0009)
    """

    input_kinds = ()
    is_batchwise = False
    takes: ClassVar[tuple[str, ...]]
    takes_heads: ClassVar[bool] = False

    of: InitVar[Loss]

    def __post_init__(self, of: Loss) -> None:
        super().__post_init__()
        if not isinstance(of, Loss):
            raise UserError(f"of={short(repr(of), 40)}: expected an object of a loss. Type of=CoSENT()")
        is_fixed = of.has_parameters and not self.takes_heads
        if is_fixed or of.input_type not in self.takes:
            reason = "owns a head of one size of embedding" if is_fixed else f"reads {of.input_type}"
            raise UserError(
                f"of: {type(of).__name__} {reason}. Choose a loss of scores or embeddings, such as CoSENT"
            )
        self.inner = of
        for name in (
            "input_kinds",
            "is_batchwise",
            "is_ranking",
            "needs_two_views",
            "needs_teacher_scores",
            "is_stateful",
            "contrast",
        ):
            vars(self)[name] = getattr(of, name)
        vars(self)["inputs"] = self.tensors_for(of.inputs)

    def tensors_for(self, inputs: Sequence[str]) -> tuple[str, ...]:
        """Names of the tensors that are read where the loss itself reads `inputs`.

        Args:
            inputs: Inputs of the wrapped loss.

        Returns:
            Names of tensors.
        """
        return tuple(dict.fromkeys(part for name in inputs for part in MADE_OF.get(name, (name,))))

    def named(self, tensors: Sequence[Tensor], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name. Positional arguments have the names of `inputs`, in order.

        Args:
            tensors: Positional arguments.
            named: Arguments by name.

        Returns:
            All arguments by name.
        """
        called, first = f"{type(self).__name__}()", dict(zip(self.inputs, tensors, strict=False))
        form = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in self.inputs])
        needed = MADE_OF["scores"] if "scores" in self.inner.inputs else ()
        absent: dict[str, Any] = dict.fromkeys(
            name for name in OPTIONAL if name in self.inputs and name not in needed
        )
        surplus = tensors[len(self.inputs) :]
        return fitting_tensors(called, bound(called, form, surplus, {**absent, **first, **named}))

    def value_of(self, tensors: Mapping[str, Tensor]) -> LossOutput:
        """The loss itself, with the scores that it reads made of the embeddings in `tensors`.

        Args:
            tensors: Inputs by name.

        Returns:
            The loss and the scalars to log.
        """
        read = {name: tensors[name] for name in self.inner.inputs if name in tensors}
        if "scores" in self.inner.inputs:
            read["scores"] = row_cosine(tensors["first"], tensors["second"])
        if "document_scores" in self.inner.inputs:
            documents = [tensors["positives"], *tensors["negatives"].unbind(dim=1)]
            read["document_scores"] = torch.stack(
                [row_cosine(tensors["anchors"], text) for text in documents], dim=1
            )
            if "text_ids" in tensors:
                is_missing = tensors["text_ids"][:, 1:] < 0
                read["document_scores"] = read["document_scores"].masked_fill(is_missing, -torch.inf)
        return self.inner.with_logs(**read)


def _draw(count: int, chosen: int | None) -> list[int]:
    """All numbers below `count`, or `chosen` of them drawn by torch's generator, rising."""
    if chosen is None or chosen >= count:
        return [*range(count)]
    return sorted(torch.randperm(count)[:chosen].tolist())


class Nested(Modifier):
    """Matryoshka: a loss at several sizes of embeddings, Σ_d w_d L(the first d dimensions, normalized).

    (Kusupati et al. 2022, equation 1, https://arxiv.org/abs/2205.13147. The sum, its weights and the length
    are those of sentence-transformers' MatryoshkaLoss.) Where the loss compares projected vectors with a
    teacher's, both are truncated.

    Logs the loss of each size d, `loss_64d`, and the logs of the inner loss: `acc_64d`, `score_gap_64d`, …

    Inputs:
        The rows of the inner loss.

    Relations:
        `NestedLayers` does the same with layers, and around `Nested` with both. `NestedInfoNCE` is `Nested` around
        `InfoNCEInBatch`.

    Args:
        of: The inner loss.
        dims: Sizes. None: sizes that double from `smallest`, below the embedding's, and the embedding's.
        smallest: Smallest size where `dims` is None.
        weights: One per size. None: 1 for the largest, `smaller_weight` for the others.
        smaller_weight: At 1, as in sentence-transformers, the largest size loses twice as much as at 0.25, see
            docs/log/sizes.md.
        dims_per_step: Sizes drawn in each step. None: all.
        reduction: "sum", or "mean": the sum divided by the weights of its sizes.

    Raises:
        UserError: Repeated sizes, weights that do not match them, or sizes above the embedding's.

    Example:
        >>> from juzhen.losses import CoSENT
        >>> loss = Nested(of=CoSENT(), dims=(2, 4))
        >>> loss(torch.eye(4), torch.eye(4) + 2, torch.tensor([1.0, 0.0, 0.5, 0.2]))
        tensor(6.2794)
    """

    input_type = "embeddings"
    takes = ("scores", "cosines", "embeddings", "lists", "teacher", "guide")
    paper = "Kusupati et al. 2022, https://arxiv.org/abs/2205.13147"
    choose_when = "embeddings that should be cut to a size chosen after training"

    dims: Counts | None = None
    smallest: Count = 32
    weights: Weights | None = None
    smaller_weight: Weight = 0.25
    dims_per_step: Count | None = None
    reduction: Literal["sum", "mean"] = "sum"

    def __post_init__(self, of: Loss) -> None:
        super().__post_init__(of)
        if of.input_type in ("teacher", "guide"):
            vars(self)["input_type"] = of.input_type
        if self.dims is not None and (not self.dims or len(set(self.dims)) < len(self.dims)):
            raise UserError(
                f"dims={list(self.dims)}: expected distinct sizes, such as [64, 128, 256], or null"
            )
        if self.weights is not None and (len(self.weights) != len(self.dims or ()) or not sum(self.weights)):
            raise UserError(
                f"weights={list(self.weights)}: expected one for each of dims={self.dims and list(self.dims)}, and one "
                "of them above 0"
            )

    def dims_of(self, full: int) -> tuple[int, ...]:
        """The sizes for embeddings of `full` numbers.

        Args:
            full: Dimensions of the embeddings.

        Returns:
            The sizes, ascending.

        Raises:
            UserError: A size is larger than `full`.
        """
        doubling = doubling_dims(self.smallest, full)
        dims = doubling if self.dims is None else tuple(self.dims)
        if large := [dim for dim in dims if dim > full]:
            fitting = [*dict.fromkeys([*(dim for dim in dims if dim < full), full])]
            raise UserError(
                f"dims={list(dims)}: {' and '.join(map(str, large))} are more than the {full} dimensions of an "
                f"embedding of this encoder. Choose dims={fitting}, or null for {list(doubling)}"
            )
        return dims

    def with_logs(self, *tensors: Tensor, **named: Tensor | None) -> LossOutput:
        values = self.named(tensors, named)
        cut = [name for name in values if TENSORS[name].is_learnt]
        full = min(values[name].shape[-1] for name in cut)
        dims = self.dims_of(full)
        weights = self.weights or [1.0 if dim == max(dims) else self.smaller_weight for dim in dims]
        total: Any = 0
        logs: dict[str, Tensor] = {}
        chosen = _draw(len(dims), self.dims_per_step)
        for position in chosen:
            value, parts = self.value_of(values | self._cut(values, cut, dims[position]))
            total = total + weights[position] * value
            parts = {name.replace("accuracy", "acc"): part for name, part in parts.items()}
            logs |= {
                f"{name}_{dims[position]}d": part for name, part in (parts | {"loss": value.detach()}).items()
            }
        if self.reduction == "mean":
            total = total / sum(weights[position] for position in chosen)
        return total, logs

    @staticmethod
    def _cut(values: Mapping[str, Tensor], names: Sequence[str], dim: int) -> dict[str, Tensor]:
        cut = {name: F.normalize(full_precision(values[name][..., :dim]), dim=-1) for name in names}
        if "projected" in names:  # its lengths are compared with the teacher's
            cut |= {name: values[name][..., :dim] for name in ("projected", "teacher")}
        return cut


class NestedInfoNCE(Nested):
    """`Nested` around in-batch InfoNCE, anchor to positive, at a temperature of 0.07: the mean over all sizes.

    Embeddings of 768 dimensions have the sizes 64, 128, 256, 512 and 768.

    Inputs:
        The rows of the inner loss: positive pairs.

    Relations:
        `Nested` with other defaults.

    Args:
        of: The inner loss. None: `InfoNCEInBatch`.
        dims: Sizes. None: doubling sizes from `smallest`.
        smallest: Smallest size.
        weights: Weight of each size. None: 1 for the full one, `smaller_weight` for the others.
        smaller_weight: Weight of a smaller size.
        dims_per_step: Sizes drawn for a step. None: all.
        reduction: As in `Nested`.

    Example:
        >>> NestedInfoNCE(smallest=2)(torch.eye(4), torch.eye(4) + 2)
        tensor(0.4848)
    """

    choose_when = "positive pairs, for embeddings that should be cut to a size chosen after training"

    of: InitVar[Loss | None] = None
    smallest: Count = 64
    smaller_weight: Weight = 1.0
    reduction: Literal["sum", "mean"] = "mean"

    def __post_init__(self, of: Loss | None) -> None:
        super().__post_init__(InfoNCEInBatch(temperature=0.07, symmetric=False) if of is None else of)


class NestedLayers(Modifier):
    """2D Matryoshka: a loss at the last layer and at lower layers, which are aligned with the last one.

    loss = L(last) + w/K Σ_k L(layer k) + α τ Σ_k KL(softmax(e/τ) ‖ softmax(e_k/τ)), e the last layer's
    embedding of a text, which gets no gradient of that part, e_k that of layer k. The divergence is a mean
    over texts. (Li et al. 2024, https://arxiv.org/abs/2402.14776. The form is that of sentence-transformers'
    AdaptiveLayerLoss, which draws one layer for each step.) Around `Nested` it is that paper's
    two-dimensional loss.

    Inputs:
        The rows of the inner loss.

    Relations:
        `CoSENTLayers` has no divergence.

    Args:
        of: The inner loss.
        depths: Layers as shares of the backbone's, in (0, 1), rising. 0.5 of 12 layers is layer 6.
        depths_per_step: Lower layers drawn in each step. None: all.
        layer_weight: w.
        divergence_weight: α.
        divergence_temperature: τ.

    Raises:
        UserError: Depths that do not rise.

    Example:
        >>> from juzhen.losses import CoSENT
        >>> layers = torch.eye(4)[:, None, None].repeat(1, 2, 4, 1)  # (batch, texts, layers, dim)
        >>> NestedLayers(of=CoSENT(), depths_per_step=None)(layers, torch.tensor([1.0, 0.0, 0.5, 0.2]))
        tensor(3.8918)
    """

    input_type = "layers"
    takes = ("scores", "cosines", "embeddings", "lists")
    paper = "Li et al. 2024, https://arxiv.org/abs/2402.14776"
    choose_when = "encoders of which the first layers alone should be usable after training"

    depths: Shares = (0.25, 0.5, 0.75)
    depths_per_step: Count | None = 1
    layer_weight: Weight = 1.0
    divergence_weight: Weight = 1.0
    divergence_temperature: Temperature = 0.3

    def __post_init__(self, of: Loss) -> None:
        super().__post_init__(of)
        depths = [depth for depth in self.depths if depth < 1]
        if not depths or depths != sorted(set(depths)):
            raise UserError(
                f"depths={list(self.depths)}: expected shares below 1 in rising order, as in [0.25, 0.5]"
            )
        self.depths = (*depths, 1.0)
        if self.divergence_weight:
            self.contrast = Contrast.NONE

    def tensors_for(self, inputs: Sequence[str]) -> tuple[str, ...]:
        read = super().tensors_for(inputs)
        names = [name for name in read if not TENSORS[name].is_learnt]
        # A row may lack negatives, whose numbers say so.
        return (*dict.fromkeys(("layer_embeddings", *names, *["text_ids"] * ("negatives" in read))),)

    def with_logs(self, *tensors: Tensor, **named: Tensor | None) -> LossOutput:
        values = self.named(tensors, named)
        states = full_precision(values.pop("layer_embeddings"))
        ids = values.get("text_ids")
        counts = (
            torch.ones_like(states[:, :, 0, :1], dtype=torch.bool) if ids is None else ids[..., None] >= 0
        )
        counts, layers = counts.flatten(0, 1), states.unbind(dim=2)
        total, logs = self._at(layers[-1], values)
        logs = logs | {"loss_at_1": total.detach()}
        chosen = _draw(len(layers) - 1, self.depths_per_step)
        final = (layers[-1].detach() / self.divergence_temperature).softmax(dim=-1).flatten(0, 1) * counts
        for position in chosen:
            value, _ = self._at(layers[position], values)
            total = total + self.layer_weight / len(chosen) * value
            states = (layers[position] / self.divergence_temperature).log_softmax(dim=-1).flatten(0, 1)
            divergence = F.kl_div(states, final, reduction="sum") / counts.sum() * self.divergence_temperature
            total = total + self.divergence_weight * divergence
            depth = f"{self.depths[position]:g}"
            logs |= {f"loss_at_{depth}": value.detach(), f"divergence_at_{depth}": divergence.detach()}
        return total, logs

    def _at(self, embeddings: Tensor, names: Mapping[str, Tensor]) -> LossOutput:
        return self.value_of({**names, **text_tensors(embeddings.unbind(dim=1))})
