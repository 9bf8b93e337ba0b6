"""CoSENT with sampling: each row is compared with a few rows of lower target, drawn at random."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.options import checked, whole_number
from juzhen.losses.score_order import ScoreOrder
from juzhen.losses.scores import full_precision


@checks_arguments
def cosent_sampled(
    scores: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    draws: Float[Tensor, "batch comparisons"],
    *,
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """CoSENT whose sum over pairs is estimated from k comparisons for each row.

    loss = log(1 + Σ_i (n_i/k) Σ_{c ≤ k} exp((s_{j(i,c)} − s_i) / τ)), where n_i rows have a lower target than
    row i and j(i, c) is one of them, drawn uniformly with replacement. The weight n_i/k makes the sum an
    unbiased estimate of CoSENT's; the loss, a concave function of it, is too small on average. Drawing from all
    pairs at once or leaving the weight out would favour rows of high target.

    draws  uniform numbers of [0, 1). They belong to the rows in order of target and score, not of the batch, so
           that the order of a batch means nothing.
    """
    scores = full_precision(scores) / temperature
    by_score = scores.detach().argsort()
    order = by_score[targets[by_score].argsort(stable=True)]
    scores, targets = scores[order], targets[order]
    num_lower = torch.searchsorted(targets, targets)
    # A draw just below 1 may be rounded up by the product.
    drawn = (draws * num_lower[:, None]).long().clamp(max=(num_lower - 1).clamp(min=0)[:, None])
    weights = num_lower.to(scores.dtype).log() - math.log(draws.shape[1])
    terms = (scores[drawn] - scores[:, None] + weights[:, None]).masked_fill(
        num_lower[:, None] == 0, -torch.inf
    )
    return torch.cat([terms.new_zeros(1), terms.flatten()]).logsumexp(dim=0)


class CoSENTSampled(ScoreOrder):
    """`cosent_sampled` of the model's scores; torch's generator draws, so the seed of a run decides.

    num_comparisons  rows of lower target that each row is compared with

    There to compare with: the exact sum of `cosent` is sorted, not written out, and costs less than drawing.

    Defaults: CoSENT's scale of 20, ten comparisons.
    """

    choose_when = "comparisons with implementations that sample pairs; otherwise cosent is exact and faster"

    num_comparisons: int = checked(10, whole_number, low=1)

    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        draws = torch.rand(len(scores), self.num_comparisons, device=scores.device)
        return cosent_sampled(scores, targets, draws, temperature=1.0)
