"""Circle loss: all positive pairs of a batch above all negative ones, far-off scores pulled hardest."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import divisor, number, switch
from juzhen.losses.scores import full_precision, label_gap

NOTHING = -1e30
"""A logarithm so low that its exponential is 0, and yet a number: −∞ would make gradients NaN."""


@checks_arguments
def circle(
    scores: Float[Tensor, "batch"],
    labels: Float[Tensor, "batch"],
    *,
    positive_goal: float = 0.6,
    negative_goal: float = 0.4,
    weighted: bool = True,
    temperature: float = 1 / 80,
) -> Float[Tensor, ""]:
    """Circle loss over the labelled pairs of a batch; 0 when it has no positive or no negative.

    loss = log[1 + Σ_{n: y=0} exp(α_n (s_n − Δ_n)/τ) · Σ_{p: y=1} exp(−α_p (s_p − Δ_p)/τ)],
    α_p = max(0, 2 − Δ_p − s_p), α_n = max(0, s_n + Δ_n), both taken as constants in the gradient; 1 and 1 where not
    `weighted`. (Sun et al. 2020, section 3, https://arxiv.org/abs/2002.10857; their γ is 1/τ.)

    Δ_p, Δ_n are the goals: positives shall pass the one, negatives stay below the other. The paper ties them to one
    margin, Δ_p = 1 − m and Δ_n = m, where the weights are its 1 + m − s_p and s_n + m. With goals apart, each weight
    mirrors its own: a positive's is 0 as far above a cosine of 1 as Δ_p is below, a negative's as far below 0 as Δ_n
    is above.

    Which scores are compared: the paper takes, for one anchor, its similarities to all other samples. Here every
    labelled pair of the batch gives one score, positive or negative, as in Su's view of it (2020,
    https://kexue.fm/archives/7359). Without weights, and with Δ_p = Δ_n, that is CoSENT on 0/1 labels.
    """
    scores, is_positive = full_precision(scores), labels > 0.5
    pull, push = torch.ones_like(scores), torch.ones_like(scores)
    if weighted:
        constants = scores.detach()
        pull, push = (2 - positive_goal - constants).relu(), (constants + negative_goal).relu()
    below = (-pull * (scores - positive_goal) / temperature).masked_fill(~is_positive, NOTHING)
    above = (push * (scores - negative_goal) / temperature).masked_fill(is_positive, NOTHING)
    return F.softplus(torch.logsumexp(below, dim=0) + torch.logsumexp(above, dim=0))


class Circle(Loss):
    """`circle` of the cosine scores of labelled pairs. Logs mean score of positives, of negatives, and the gap.

    margin         sets both goals, to 1 − margin and margin; None where both are given
    positive_goal  cosine that positives shall pass; None: as the margin says
    negative_goal  cosine that negatives shall stay below; None: as the margin says
    weighted       scores far from their goal are pulled harder

    Defaults: a margin of 0.25, which the paper has for faces, at the scale of 80 that it has for retrieval.

    Raises UserError where the margin has nothing to say, or where a goal is left open without one.
    """

    input_kinds = (Kind.LABELLED_PAIR,)
    consumes = "cosines"
    couples = True
    compares = True
    contrast = Contrast.ORDER
    paper = "Sun et al. 2020, https://arxiv.org/abs/2002.10857"
    choose_when = "0/1 pairs, where pairs far from their goal shall pull harder than others"

    def __init__(
        self,
        *,
        margin: float | int | None = 0.25,
        positive_goal: float | int | None = None,
        negative_goal: float | int | None = None,
        weighted: bool = True,
        temperature: float | int = 1 / 80,
    ) -> None:
        super().__init__()
        is_open = positive_goal is None or negative_goal is None
        if is_open != (margin is not None):
            advice = "type loss.margin=0.25, or both goals" if is_open else "type loss.margin=null too"
            raise UserError(
                f"loss.margin={margin}, positive_goal={positive_goal}, negative_goal={negative_goal}: expected a "
                f"margin, which stands for a goal that is null, or both goals; {advice}"
            )
        m = 0.0 if margin is None else number("loss.margin", margin, low=0.0, high=1.0)
        self.positive_goal = _goal("positive_goal", positive_goal, otherwise=1 - m)
        self.negative_goal = _goal("negative_goal", negative_goal, otherwise=m)
        self.weighted = switch("loss.weighted", weighted)
        self.temperature = divisor("loss.temperature", temperature)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        loss = circle(
            scores,
            targets,
            positive_goal=self.positive_goal,
            negative_goal=self.negative_goal,
            weighted=self.weighted,
            temperature=self.temperature,
        )
        return loss, label_gap(scores, targets)


def _goal(name: str, value: float | int | None, *, otherwise: float) -> float:
    return otherwise if value is None else number(f"loss.{name}", value, low=-1.0, high=1.0)
