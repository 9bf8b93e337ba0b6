"""CoSENT with weights: a pair of rows counts by how far apart its targets are."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.score_order import ScoreOrder
from juzhen.losses.scores import full_precision

NO_STEP = -1e30
"""Logarithm that counts as that of 0. With −inf, the gradient of a running sum that begins with it is NaN."""


@checks_arguments
def cosent_weighted(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, temperature: float = 0.05
) -> Float[Tensor, ""]:
    """Penalty for every ordered pair of rows, times the difference of their targets.

    loss = log(1 + Σ_{y_i > y_j} (y_i − y_j) exp((s_j − s_i) / τ)); 0 with zero gradient when all targets are
    equal. For 0/1 labels it is `cosent`.

    The sum over pairs is never written out: O(N log N) time, O(N) memory. Let t_1 < t_2 < … be the distinct
    targets. A difference of targets is the sum of the steps between them, y_i − y_j = Σ_k (t_{k+1} − t_k) over
    y_j ≤ t_k < y_i, so

        sum = Σ_i exp(−s_i/τ) · Σ_{k: t_k < y_i} (t_{k+1} − t_k) · Σ_{j: y_j ≤ t_k} exp(s_j/τ).

    Every term is positive, so both inner sums are running sums of logarithms. (y_i Σ_j − Σ_j y_j … says the
    same with a subtraction, in which close targets cancel out.)
    """
    scores = full_precision(scores) / temperature
    targets, order = full_precision(targets).sort()
    scores = scores[order]
    # Everything has the size of the batch: the number of distinct targets would have to be fetched from a GPU.
    steps = targets.diff(append=targets[-1:])
    log_steps = torch.where(steps > 0, steps.log(), NO_STEP)
    below = torch.logcumsumexp(log_steps + torch.logcumsumexp(scores, dim=0), dim=0)
    start = torch.searchsorted(targets, targets)
    terms = below[(start - 1).clamp(min=0)] - scores
    terms = terms.masked_fill(start == 0, -torch.inf)
    return torch.cat([terms.new_zeros(1), terms]).logsumexp(dim=0)


class CoSENTWeighted(ScoreOrder):
    """`cosent_weighted` of the model's scores: a 5 below a 0 costs more than a 5 below a 4.

    Defaults: CoSENT's scale of 20.
    """

    choose_when = "graded pairs, when large mistakes in the order shall cost more than small ones"

    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        return cosent_weighted(scores, targets, temperature=1.0)
