"""LambdaLoss: documents of a row in the wrong order cost what the mistake takes off NDCG."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.lists import ListLoss, first_document
from juzhen.losses.loss import LossOutput
from juzhen.losses.options import checked, number
from juzhen.losses.scores import full_precision


@checks_arguments
def lambda_loss(
    document_scores: Float[Tensor, "batch documents"],
    grades: Float[Tensor, "batch documents"],
    *,
    mu: float = 10.0,
) -> Float[Tensor, ""]:
    """Mean over rows of Σ_{i, j: g_i > g_j} (ρ_ij + μ δ_ij) |G_i − G_j| log₂(1 + exp(s_j − s_i)).

    G_i = (2^g_i − 1) / the best DCG of the row; with ranks r by the scores s of now, and D_r = log₂(1 + r),
    ρ_ij = |1/D_{r_i} − 1/D_{r_j}| (LambdaRank) and δ_ij = |1/D_{|r_i − r_j|} − 1/D_{|r_i − r_j| + 1}| (NDCG-Loss2):
    together NDCG-Loss2++. (Wang et al. 2018, https://doi.org/10.1145/3269206.3271784)

    grades  from 0, higher = more relevant. A row whose grades are all 0 costs nothing
    """
    scores = full_precision(document_scores)
    places = torch.arange(1, 1 + scores.shape[1], device=scores.device, dtype=scores.dtype)
    ranks = places[scores.detach().argsort(dim=1, descending=True, stable=True).argsort(dim=1)]
    gains = 2.0 ** grades.to(scores.dtype) - 1
    best = (gains.sort(dim=1, descending=True).values / torch.log2(1 + places)).sum(dim=1, keepdim=True)
    gains = gains / best.clamp(min=torch.finfo(scores.dtype).tiny)
    discounts = 1 / torch.log2(1 + ranks)
    apart = (ranks[:, :, None] - ranks[:, None, :]).abs().clamp(min=1)
    steps = 1 / torch.log2(1 + apart) - 1 / torch.log2(2 + apart)
    weights = (discounts[:, :, None] - discounts[:, None, :]).abs() + mu * steps
    gain_gaps = (gains[:, :, None] - gains[:, None, :]).relu()
    costs = F.softplus(scores[:, None, :] - scores[:, :, None]) / math.log(2)
    return (weights * gain_gaps * costs).sum(dim=(1, 2)).mean()


class LambdaLoss(ListLoss):
    """`lambda_loss` with grade 1 for the positive and 0 for the negatives of a row; scores of a teacher are not read.

    temperature  divides scores; 1/σ of the paper

    Logs how the positive ranks.

    Defaults: those of the paper.
    """

    paper = "Wang et al. 2018, https://doi.org/10.1145/3269206.3271784"
    choose_when = "a cross-encoder that is judged by NDCG, on rows with many negatives"

    mu: float | int = checked(10.0, number, low=0.0)

    def with_logs(self, document_scores: Float[Tensor, "batch documents"]) -> LossOutput:
        grades = first_document(document_scores).float()
        loss = lambda_loss(self.tempered(document_scores), grades, mu=self.mu)
        return loss, self.list_summary(document_scores)
