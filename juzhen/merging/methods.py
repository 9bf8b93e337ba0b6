"""Merging methods for one tensor: linear, slerp, multislerp, task arithmetic, TIES, DARE, model stock.

Each function takes float32 tensors of one shape and returns a tensor of this shape. A task vector is a model's tensor
minus the base's. Results equal mergekit 0.1.5 (LGPL) up to rounding, as tests check. Its code is not used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

PARALLEL = 0.9995
"""Cosine of two tensors from which on slerp is a straight line."""

TINY = 1e-8


def linear(tensors: Sequence[Float[Tensor, "*shape"]], weights: Sequence[float]) -> Float[Tensor, "*shape"]:
    """Σ wᵢ θᵢ / Σ wᵢ (Wortsman et al. 2022, https://arxiv.org/abs/2203.05482).

    Args:
        tensors: The tensor of each model.
        weights: Weight of each model.

    Returns:
        The merged tensor.
    """
    return weighted_sum(tensors, weights) / sum(weights)


def weighted_sum(
    tensors: Sequence[Float[Tensor, "*shape"]], weights: Sequence[float]
) -> Float[Tensor, "*shape"]:
    """Σ wᵢ θᵢ.

    Args:
        tensors: The tensor of each model.
        weights: Weight of each model.

    Returns:
        The sum.
    """
    total = torch.zeros_like(tensors[0])
    for tensor, weight in zip(tensors, weights, strict=True):
        total.add_(tensor, alpha=weight)
    return total


def slerp(tensors: Sequence[Float[Tensor, "*shape"]], weights: Sequence[float]) -> Float[Tensor, "*shape"]:
    """Interpolate on the arc between two tensors: sin((1−t)Ω)/sin Ω · a + sin(tΩ)/sin Ω · b, with t the second one's
    share.

    Ω is the angle of the two as vectors (Shoemake 1985). Nearly parallel tensors are interpolated by `linear`.

    Args:
        tensors: The two tensors.
        weights: Weight of each model.

    Returns:
        The merged tensor.
    """
    first, second = tensors
    share = weights[1] / sum(weights)
    lengths = [norm if (norm := float(tensor.norm())) > TINY else 1.0 for tensor in tensors]
    cosine = float((first / lengths[0] * (second / lengths[1])).sum().clamp(-1, 1))
    if abs(cosine) > PARALLEL:
        return first + share * (second - first)  # of equal ones that one, to the last bit
    angle = torch.acos(torch.tensor(cosine, dtype=first.dtype))
    return (torch.sin((1 - share) * angle) * first + torch.sin(share * angle) * second) / torch.sin(angle)


def multislerp(
    tensors: Sequence[Float[Tensor, "*shape"]], weights: Sequence[float]
) -> Float[Tensor, "*shape"]:
    """Average tensors on a sphere: in the tangent space at their weighted mean, and back.

    Directions and lengths are averaged separately (Goddard 2024,
    https://goddard.blog/posts/multislerp-wow-what-a-cool-idea).

    Args:
        tensors: The tensor of each model.
        weights: Weight of each model.

    Returns:
        The merged tensor.

    Raises:
        ValueError: The directions cancel out.
    """
    shares = torch.tensor(weights, dtype=tensors[0].dtype)
    shares = shares / shares.sum()
    rows = torch.stack(list(tensors)).flatten(1) if tensors[0].ndim else torch.stack(list(tensors))[:, None]
    lengths = rows.norm(dim=-1, keepdim=True)
    units = rows / (lengths + TINY)
    mean = shares @ units
    if float(mean.norm()) < TINY:
        if len(tensors) == 2 or not float(lengths.max()):
            return linear(tensors, weights)
        raise ValueError("the directions of these weights cancel out")
    mean = mean / mean.norm()
    tangent = shares @ (units - (units @ mean)[:, None] * mean)
    size = tangent.norm() + TINY
    point = mean * torch.cos(size) + tangent * (torch.sin(size) / size)
    return (point * (shares @ lengths.squeeze(1))).view(tensors[0].shape)


def task_arithmetic(
    vectors: Sequence[Float[Tensor, "*shape"]], weights: Sequence[float]
) -> Float[Tensor, "*shape"]:
    """Σ wᵢ τᵢ of task vectors τ (Ilharco et al. 2022, https://arxiv.org/abs/2212.04089).

    Args:
        vectors: The task vector of each model.
        weights: Weight of each model.

    Returns:
        The merged task vector.
    """
    return weighted_sum(vectors, weights)


def ties(
    vectors: Sequence[Float[Tensor, "*shape"]], weights: Sequence[float], *, density: float
) -> Float[Tensor, "*shape"]:
    """Trim task vectors, elect a sign per parameter, and average the values with this sign.

    The sign is that of the weighted sum (Yadav et al. 2023, https://arxiv.org/abs/2306.01708).

    Args:
        vectors: The task vector of each model.
        weights: Weight of each model.
        density: Share of each vector that is kept: the largest entries by size.

    Returns:
        The merged task vector.
    """
    scale = torch.tensor(weights, dtype=vectors[0].dtype).view(-1, *[1] * vectors[0].ndim)
    parts = torch.stack([largest(vector, density) for vector in vectors]) * scale
    positive = parts.sum(dim=0) >= 0
    agrees = torch.where(positive, parts > 0, parts < 0)
    share = (agrees * scale).sum(dim=0)
    return (parts * agrees).sum(dim=0) / torch.where(share == 0, 1, share)


def largest(vector: Float[Tensor, "*shape"], density: float) -> Float[Tensor, "*shape"]:
    """Keep the share `density` of the largest entries by size, at least one, and set the others to 0.

    Args:
        vector: A tensor of any shape.
        density: Share to keep, from 0 to 1.

    Returns:
        A tensor of the same shape.
    """
    if density >= 1 or not vector.numel():
        return vector
    order = vector.abs().flatten().argsort(descending=True)
    mask = torch.zeros(vector.numel(), dtype=vector.dtype)
    mask[order[: max(1, int(density * vector.numel()))]] = 1
    return vector * mask.view(vector.shape)


def dare(
    vectors: Sequence[Float[Tensor, "*shape"]],
    weights: Sequence[float],
    *,
    density: float,
    generator: torch.Generator,
) -> Float[Tensor, "*shape"]:
    """Sum task vectors after random dropping and rescaling of their entries.

    It rescales so that the sum of absolute values stays equal, as mergekit does. The paper divides by the
    kept share, which is equal on average. (Yu et al. 2023, https://arxiv.org/abs/2311.03099)

    Args:
        vectors: The task vector of each model.
        weights: Weight of each model.
        density: Share of entries to keep.
        generator: Generator of the random choice.

    Returns:
        The merged task vector.
    """
    return weighted_sum([_thinned(vector, density, generator) for vector in vectors], weights)


def _thinned(
    vector: Float[Tensor, "*shape"], density: float, generator: torch.Generator
) -> Float[Tensor, "*shape"]:
    if density >= 1:
        return vector
    kept = vector * torch.bernoulli(torch.full_like(vector, density), generator=generator)
    before, after = vector.abs().sum(), kept.abs().sum()
    return kept if min(float(before), float(after)) < 1e-7 else kept * (before / after)


def model_stock(vectors: Sequence[Float[Tensor, "*shape"]]) -> Float[Tensor, "*shape"]:
    """Shorten the mean task vector by disagreement: t · mean, with t = N cos θ / (1 + (N − 1) cos θ).

    cos θ is the mean cosine of two of the N vectors (Jang et al. 2024, https://arxiv.org/abs/2403.19522).

    Args:
        vectors: The task vector of each model.

    Returns:
        The merged task vector.
    """
    cosines = []
    for first, second in combinations(vectors, 2):
        lengths = (first.norm() * second.norm()).clamp(min=1e-6)
        # An overflowing length is NaN here, which the caller refuses. A cosine of 0 would drop both vectors.
        cosine_of_both = (first * second).sum() / lengths * (lengths / lengths)
        cosines.append(cosine_of_both.clamp(-1, 1))
    cosine, count = float(torch.stack(cosines).mean()), len(vectors)
    below = 1 + (count - 1) * cosine
    share = 0.0 if abs(below) < 1e-6 else count * cosine / below
    return weighted_sum(vectors, [share / count] * count)


@dataclass(frozen=True)
class Method:
    """A merging method and its requirements.

    Args:
        about: One line of help.
        function: Merges tensors.
        of_vectors: It merges task vectors and needs a base.
        is_sum: Weights are factors, not shares of 1.
        is_weighted: Models have weights.
        takes: Further parameters: density, generator.
        models: Minimal and maximal number of models, None for any.
    """

    about: str
    function: Callable[..., Tensor]
    of_vectors: bool = False
    is_sum: bool = False
    is_weighted: bool = True
    takes: tuple[str, ...] = ()
    models: tuple[int, int | None] = (2, None)

    def merge(
        self, tensors: Sequence[Tensor], base: Tensor | None, weights: Sequence[float], **numbers: Any
    ) -> Tensor:
        """Merge one tensor of the models, in float32. base: its tensor of the same shape, if needed.

        Args:
            tensors: The tensor of each model.
            base: Tensor of the base model, or None.
            weights: Weight of each model.
            **numbers: Options of the method, such as density.

        Returns:
            The merged tensor.
        """
        chosen = {name: numbers[name] for name in self.takes}
        arguments = (weights,) if self.is_weighted else ()
        if not self.of_vectors or base is None:
            return self.function(tensors, *arguments, **chosen)
        vectors = [tensor - base for tensor in tensors]
        return base + numbers.get("scale", 1.0) * self.function(vectors, *arguments, **chosen)


METHODS: dict[str, Method] = {
    "linear": Method("the weighted mean", linear),
    "slerp": Method("two models, along the arc between them", slerp, models=(2, 2)),
    "multislerp": Method("the weighted mean of directions, and of lengths", multislerp),
    "task_arithmetic": Method("what training added, summed", task_arithmetic, of_vectors=True, is_sum=True),
    "ties": Method(
        "what training added: trimmed, one sign for each number, mean",
        ties,
        of_vectors=True,
        takes=("density",),
    ),
    "dare": Method(
        "what training added: a random share of it, scaled up, summed",
        dare,
        of_vectors=True,
        is_sum=True,
        takes=("density", "generator"),
    ),
    "model_stock": Method(
        "the mean, drawn to the base as far as models disagree",
        model_stock,
        of_vectors=True,
        is_weighted=False,
    ),
    "greedy_soup": Method("the mean of those models that help on dev, the best first", linear),
}
