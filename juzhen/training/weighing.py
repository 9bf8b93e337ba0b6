"""Formulas for the weights of several tasks' losses, as functions of tensors (tasks)."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST_WEIGHT = 1e-3
"""Of GradNorm: a task with weight 0 has no gradient, by which it would come back."""


def by_mean_loss(
    weights: Float[Tensor, "tasks"], losses: Float[Tensor, "tasks"], *, alpha: float
) -> Float[Tensor, "tasks"]:
    """w ← (1 − α) w + α W L/ΣL, with the mean losses L since the last update and the sum W of all weights.

    A large loss gets more weight. Weights that sum to 1 have W = 1. Otherwise W preserves their sum. Tasks
    without a loss (NaN) keep their weight.
    """
    is_known = ~losses.isnan()
    total = torch.where(is_known, losses, 0).sum()
    target = torch.where(is_known, weights, 0).sum() * losses / total
    return torch.where(is_known & (total > 0), (1 - alpha) * weights + alpha * target, weights)


def by_loss_ratio(
    last: Float[Tensor, "tasks"], before: Float[Tensor, "tasks"], *, temperature: float
) -> Float[Tensor, "tasks"]:
    """Dynamic weight average: w_k = K · softmax_k(r_k/T), with r_k = L_k(t−1)/L_k(t−2).

    Slower tasks weigh more. (Liu et al. 2019, equation 7, https://arxiv.org/abs/1803.10704)
    """
    ratios = torch.nan_to_num(last / before, nan=1.0, posinf=1.0)
    return len(last) * torch.softmax(ratios / temperature, dim=0)


def by_uncertainty(loss: Float[Tensor, ""], log_variance: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """exp(−s) L + s, with the learnt s = log σ². For a fixed L it is least at s = log L.

    (Kendall et al. 2018, equation 7, https://arxiv.org/abs/1705.07115, twice that, so that s = 0 is the plain
    loss.)
    """
    return torch.exp(-log_variance) * loss + log_variance


def by_gradient_norm(
    weights: Float[Tensor, "tasks"],
    norms: Float[Tensor, "tasks"],
    losses: Float[Tensor, "tasks"],
    first_losses: Float[Tensor, "tasks"],
    *,
    alpha: float,
    rate: float,
) -> Float[Tensor, "tasks"]:
    """One step of GradNorm on the weights, which then sum to K again.

    L_grad = Σ_k |w_k g_k − Ḡ r_k^α|, with the length g_k of the gradient of the unweighted loss, the mean Ḡ
    of w_k g_k, and r_k = (L_k/L_k(0)) over its mean. The second part counts as constant. So w_k ← w_k − rate
    · sign(…) · g_k.

    (Chen et al. 2018, equations 1 and 2, https://arxiv.org/abs/1711.02257)
    """
    lengths = weights * norms
    progress = losses / first_losses
    targets = lengths.mean() * (progress / progress.mean()) ** alpha
    moved = (weights - rate * torch.sign(lengths - targets) * norms).clamp(min=SMALLEST_WEIGHT)
    return len(weights) * moved / moved.sum()


def by_score(scores: Float[Tensor, "tasks"], *, gamma: float) -> Float[Tensor, "tasks"]:
    """w_k ∝ −(1 − κ_k)^γ log κ_k of scores κ in (0, 1), summing to K. Tasks with high scores weigh less.

    Scores are clamped to [0.01, 0.99]. (Guo et al. 2018, equation 4,
    https://doi.org/10.1007/978-3-030-01270-0_17)
    """
    clipped = scores.clamp(0.01, 0.99)
    focal = -((1 - clipped) ** gamma) * clipped.log()
    return len(scores) * focal / focal.sum()


def without_conflicts(
    gradients: Sequence[Sequence[Tensor]], *, generator: torch.Generator | None = None
) -> list[Tensor]:
    """PCGrad: sum of the tasks' gradients, each without its conflicts with the others, in random order.

    g_i ← g_i − (g_i · g_j)/‖g_j‖² g_j for each other j with g_i · g_j < 0, g_j as it was. (Yu et al. 2020,
    algorithm 1, https://arxiv.org/abs/2001.06782)

    Args:
        gradients: One list of tensors for each task, over the same parameters.
    """
    count = len(gradients)
    squares = [_dot(gradient, gradient) for gradient in gradients]
    total: list[Tensor] = []
    for number, gradient in enumerate(gradients):
        projected = [part.clone() for part in gradient]
        order = torch.randperm(count, generator=generator).tolist()
        for other in order:
            if other == number:
                continue
            against = _dot(projected, gradients[other]).clamp(max=0) / squares[other].clamp(min=1e-30)
            for part, of_other in zip(projected, gradients[other], strict=True):
                part.sub_(against.to(part.dtype) * of_other)
        if total:
            projected = [values.add_(part) for values, part in zip(total, projected, strict=True)]
        total = projected
    return total


def _dot(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    return torch.stack([(a * b).sum() for a, b in zip(first, second, strict=True)]).sum()
