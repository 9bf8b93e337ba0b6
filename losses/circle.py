"""Circle loss: all positive pairs of a batch above all negative ones, far-off scores pulled hardest."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from losses.loss import Loss, LossOutput
from losses.options import number
from losses.scores import full_precision, score_gap
from schema.batch import Encoded
from schema.examples import Kind

NOTHING = -1e30
"""A logarithm so low that its exponential is 0, and yet a number: −∞ would make gradients NaN."""


def circle(
    scores: Float[Tensor, "batch"], labels: Float[Tensor, "batch"], *, margin: float, temperature: float
) -> Float[Tensor, ""]:
    """Circle loss over the labelled pairs of a batch; 0 when it has no positive or no negative.

    loss = log[1 + Σ_{n: y=0} exp(α_n (s_n − m)/τ) · Σ_{p: y=1} exp(−α_p (s_p − (1 − m))/τ)],
    α_p = max(0, 1 + m − s_p), α_n = max(0, s_n + m), both taken as constants in the gradient.
    (Sun et al. 2020, section 3, https://arxiv.org/abs/2002.10857; their γ is 1/τ.)

    Which scores are compared: the paper takes, for one anchor, its similarities to all other samples. Here every
    labelled pair of the batch gives one score, positive or negative, as in Su's view of it (2020,
    https://kexue.fm/archives/7359). With α = 1 and m = 0 that is CoSENT on 0/1 labels.
    """
    scores, is_positive = full_precision(scores), labels > 0.5
    constants = scores.detach()
    pull, push = (1 + margin - constants).relu(), (constants + margin).relu()
    below = (-pull * (scores - (1 - margin)) / temperature).masked_fill(~is_positive, NOTHING)
    above = (push * (scores - margin) / temperature).masked_fill(is_positive, NOTHING)
    return F.softplus(torch.logsumexp(below, dim=0) + torch.logsumexp(above, dim=0))


class Circle(Loss):
    """`circle` of the cosine scores of labelled pairs. Logs mean score of positives, of negatives, and the gap."""

    takes = (Kind.LABELLED_PAIR,)
    reads = "cosines"
    couples = True
    compares = True

    def __init__(self, *, margin: float | int, temperature: float | int) -> None:
        super().__init__()
        self.margin = number("loss.margin", margin, low=0.0, high=1.0)
        self.temperature = number("loss.temperature", temperature, low=0.0, open_low=True)

    def forward(self, encoded: Encoded) -> LossOutput:
        is_positive = encoded.targets > 0.5
        loss = circle(encoded.scores, encoded.targets, margin=self.margin, temperature=self.temperature)
        return loss, score_gap(encoded.scores, is_positive, ~is_positive)
