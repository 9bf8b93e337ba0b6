"""Regularizers: texts spread apart, two equal passes (R-Drop), and the FLOPS of sparse vectors."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from juzhen.losses.arguments import Weight, checks_arguments
from juzhen.losses.loss import Loss, LossOutput
from juzhen.losses.matryoshka import Modifier
from juzhen.losses.scores import all_cosines, full_precision, row_cosine


@checks_arguments
def spread_out(
    embeddings: Float[Tensor, "batch dim"], text_ids: Int[Tensor, "batch"] | None = None
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Compute the distance of cosines of different texts from those of random directions: M₁², max(0, M₂ − 1/d).

    M₁ and M₂ are the mean of the cosine and of its square over the pairs of different texts, d the size of an
    embedding. (Zhang et al. 2017, equations 5 and 6, https://arxiv.org/abs/1708.06320) Without such a pair both are 0.

    Args:
        embeddings: Texts, (batch, dim).
        text_ids: Id of each text, (batch,). −1: a missing negative.

    Returns:
        The two scalars.

    Example:
        >>> spread_out(torch.eye(4))
        (tensor(0.), tensor(0.))
        >>> spread_out(torch.ones(2, 4))
        (tensor(1.), tensor(0.7500))
    """
    cosines = all_cosines(embeddings, embeddings)
    ids = torch.arange(len(cosines), device=cosines.device) if text_ids is None else text_ids
    differ = (ids[:, None] != ids) & (ids[:, None] >= 0) & (ids >= 0)  # −1: a negative that the row lacks
    count = differ.sum().clamp(min=1)
    mean = torch.where(differ, cosines, 0).sum() / count
    square = torch.where(differ, cosines.square(), 0).sum() / count
    return mean.square(), (square - 1 / embeddings.shape[1]).relu()


class SpreadOut(Modifier):
    """A loss plus global orthogonal regularization: `spread_out` of the texts of each column, averaged.

    loss = L + w₁ M₁² + w₂ max(0, M₂ − 1/d). EmbeddingGemma adds the second part to its contrastive loss (Vera et al.
    2025, https://arxiv.org/abs/2509.20354). sentence-transformers' GlobalOrthogonalRegularizationLoss counts a text
    that occurs twice in a column as two. Defaults: both parts count alike, as in the paper.

    Logs both parts, the logs of the inner loss, and its value as `loss_alone`.

    Inputs:
        The rows of the inner loss.

    Relations:
        The inner loss, when both weights are 0.

    Args:
        of: The inner loss.
        mean_weight: w₁.
        square_weight: w₂.

    Example:
        >>> from juzhen.losses import CoSENT
        >>> texts = {"embeddings": torch.eye(4), "second": torch.eye(4) + 2}
        >>> scores = torch.cosine_similarity(*texts.values())
        >>> SpreadOut(of=CoSENT())(**texts, first=texts["embeddings"], targets=torch.tensor([1.0, 0.0, 0.5, 0.2]))
        tensor(2.7279)
    """

    input_type = "embeddings"
    takes = ("scores", "cosines", "embeddings", "lists")
    takes_heads = True
    paper = "Zhang et al. 2017, https://arxiv.org/abs/1708.06320"
    choose_when = "embeddings that crowd, or that should be quantised or searched by approximate neighbours"

    mean_weight: Weight = 1.0
    square_weight: Weight = 1.0

    def __post_init__(self, of: Loss) -> None:
        super().__post_init__(of)
        vars(self)["is_batchwise"] = True

    def tensors_for(self, inputs: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys([*super().tensors_for(inputs), "embeddings", "second", "negatives", "text_ids"])
        )

    def with_logs(self, *tensors: Tensor, **named: Tensor | None) -> LossOutput:
        values = self.named(tensors, named)
        loss, logs = self.value_of(values)
        columns = [values["embeddings"]] + [values["second"]] * ("second" in values)
        columns += values["negatives"].unbind(dim=1) if "negatives" in values else []
        ids = values["text_ids"].unbind(dim=1) if "text_ids" in values else [None] * len(columns)
        parts = [spread_out(column, numbers) for column, numbers in zip(columns, ids, strict=False)]
        count: Any = len(columns) if ids[0] is None else (values["text_ids"] >= 0).any(dim=0).sum()
        mean, square = (torch.stack(part).sum() / count for part in zip(*parts, strict=True))
        logs = logs | {"spread_mean": mean.detach(), "spread_square": square.detach()}
        total = loss + self.mean_weight * mean + self.square_weight * square
        return total, logs | {"loss_alone": loss.detach()}


def _symmetric_divergence(
    first: Float[Tensor, "batch classes"], second: Float[Tensor, "batch classes"]
) -> Float[Tensor, ""]:
    """Mean over rows of ½ KL(p ‖ q) + ½ KL(q ‖ p), p and q the softmax of the two."""
    first, second = full_precision(first).log_softmax(dim=1), full_precision(second).log_softmax(dim=1)
    apart = (first - second).masked_fill(first == -torch.inf, 0)  # a document that the row lacks
    return ((first.exp() - second.exp()) * apart).sum(dim=1).mean() / 2


class RDrop(Modifier):
    """R-Drop: the mean of a loss over two passes with different dropout, plus their disagreement.

    loss = ½ (L(x) + L(x')) + α D(x, x'). (Liang et al. 2021, equations 2 to 4, https://arxiv.org/abs/2106.14448, with
    the sum of the two losses for their mean) D depends on the input type of the inner loss: for logits and lists the
    symmetric KL divergence (of lists over the documents of a row), for scores and cosines the mean squared difference,
    as the authors do for regression, for embeddings the mean of 1 − cos of the two embeddings of a text. Default
    weight: 1, which the paper has for most sets of language understanding.

    Logs the disagreement, and the logs of the inner loss for the first pass.

    Inputs:
        The rows of the inner loss.

    Relations:
        `SimCSE` also encodes twice, and contrasts the two encodings.

    Args:
        of: The inner loss.
        weight: α.

    Example:
        >>> from juzhen.losses import BinaryCrossEntropy
        >>> loss, labels = RDrop(of=BinaryCrossEntropy()), torch.tensor([1.0, 0.0])
        >>> once, again = torch.tensor([2.0, -1.0]), torch.tensor([1.8, -1.1])
        >>> loss.with_logs(scores=once, targets=labels, again={"scores": again, "targets": labels})[0]
        tensor(0.2451)
    """

    input_type = ""
    takes = ("scores", "cosines", "embeddings", "lists", "logits")
    takes_heads = True
    needs_two_passes = True
    paper = "Liang et al. 2021, https://arxiv.org/abs/2106.14448"
    choose_when = "few rows and a backbone with dropout, at twice the cost of a step"

    weight: Weight = 1.0

    def __post_init__(self, of: Loss) -> None:
        super().__post_init__(of)
        vars(self)["input_type"] = of.input_type

    def tensors_for(self, inputs: Sequence[str]) -> tuple[str, ...]:
        return tuple(inputs)

    def with_logs(
        self, *tensors: Tensor, again: Mapping[str, Tensor] | None = None, **named: Tensor | None
    ) -> LossOutput:
        values = self.named(tensors, named)
        loss, logs = self.inner.with_logs(**values)
        if again is None:
            return loss, logs
        disagreement = self.disagreement(values, again)
        second = self.inner(**again)
        logs = logs | {"disagreement": disagreement.detach()}
        return (loss + second) / 2 + self.weight * disagreement, logs

    def disagreement(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> Float[Tensor, ""]:
        """D of the two passes.

        Args:
            first: Tensors of the first pass.
            second: Tensors of the second pass.

        Returns:
            A scalar tensor.
        """
        match self.input_type:
            case "logits":
                return _symmetric_divergence(first["logits"], second["logits"])
            case "lists":
                temperature = getattr(self.inner, "temperature", 1.0)
                scores = first["document_scores"], second["document_scores"]
                return _symmetric_divergence(*(full_precision(each) / temperature for each in scores))
            case "embeddings":
                names = [
                    name
                    for name in first
                    if name in ("embeddings", "first", "second", "anchors", "positives", "negatives")
                ]
                return torch.stack(
                    [self._apart(name, first[name], second[name], first.get("text_ids")) for name in names]
                ).mean()
        return F.mse_loss(full_precision(first["scores"]), full_precision(second["scores"]))

    @staticmethod
    def _apart(name: str, first: Tensor, second: Tensor, text_ids: Tensor | None) -> Float[Tensor, ""]:
        """1 − the mean cosine of two encodings of the texts that rows have."""
        cosines = row_cosine(first.flatten(0, -2), second.flatten(0, -2))
        if name != "negatives" or text_ids is None:
            return 1 - cosines.mean()
        present = (text_ids[:, 2:] >= 0).flatten()
        return 1 - cosines.masked_fill(~present, 0).sum() / present.sum()


def flops(vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
    """Compute FLOPS: Σ_j (1/N Σ_i |w_ij|)², over the tokens j of the vocabulary and N texts i.

    A rare token costs less than one that every text has: the products of an inverted index grow with the square of its
    frequency. (Paria et al. 2020, equation 4, https://arxiv.org/abs/2004.05665)

    Args:
        vectors: Sparse vectors, (batch, dim).

    Returns:
        The scalar.

    Example:
        >>> flops(torch.tensor([[1.0, 0.0], [3.0, 0.0]]))
        tensor(4.)
    """
    return full_precision(vectors).abs().mean(dim=0).square().sum()


def warmed_up(step: int, steps: int) -> float:
    """Return the share of a weight at a step: it grows with the square up to `steps`, and is 1 from there.

    Args:
        step: The step, from 0.
        steps: Steps until the weight is whole.

    Returns:
        The share, from 0 to 1.

    >>> [warmed_up(step, 4) for step in (0, 2, 4, 9)], warmed_up(0, 0)
    ([0.0, 0.25, 1.0, 1.0], 1.0)
    """
    return min(step / steps, 1.0) ** 2 if steps else 1.0


@torch.no_grad()
def mean_nonzero(vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
    """Compute the mean number of nonzero entries of a text.

    Args:
        vectors: Sparse vectors of the texts.

    Returns:
        The number, to log, without a gradient.

    Example:
        >>> mean_nonzero(torch.tensor([[0.0, 2.0], [1.0, 3.0]]))
        tensor(1.5000)
    """
    return (vectors != 0).sum(dim=1).float().mean()
