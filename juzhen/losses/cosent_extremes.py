"""CoSENT of the extremes: the rows of highest target shall score above those of lowest target, and no others count."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.options import checked, whole_number
from juzhen.losses.score_order import ScoreOrder
from juzhen.losses.scores import full_precision


@checks_arguments
def cosent_extremes(
    scores: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    *,
    num_extremes: int = 8,
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """CoSENT over comparisons of the k rows of highest target with the k rows of lowest target.

    loss = log(1 + Σ_{i in T, j in B, y_i > y_j} exp((s_j − s_i) / τ)), T the top and B the bottom k. Of rows with
    equal targets the hardest come first: in T those of lowest score, in B those of highest. k² comparisons; with
    k = N all of CoSENT's. 0 with zero gradient when all targets are equal.
    """
    scores = full_precision(scores) / temperature
    detached = scores.detach()
    hard_first = detached.argsort(), detached.argsort(descending=True)
    top = hard_first[0][targets[hard_first[0]].argsort(descending=True, stable=True)][:num_extremes]
    bottom = hard_first[1][targets[hard_first[1]].argsort(stable=True)][:num_extremes]
    terms = scores[bottom] - scores[top][:, None]
    terms = terms.masked_fill(targets[top][:, None] <= targets[bottom], -torch.inf)
    return torch.cat([terms.new_zeros(1), terms.flatten()]).logsumexp(dim=0)


class CoSENTExtremes(ScoreOrder):
    """`cosent_extremes` of the model's scores.

    num_extremes  rows at either end that are compared

    Defaults: CoSENT's scale of 20, eight rows at either end.
    """

    choose_when = "graded pairs whose grades in the middle are not to be trusted"

    num_extremes: int = checked(8, whole_number, low=1)

    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        return cosent_extremes(scores, targets, num_extremes=self.num_extremes, temperature=1.0)
