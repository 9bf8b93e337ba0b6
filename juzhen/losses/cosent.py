"""CoSENT: of two rows, the one with the higher target shall get the higher score."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, divisor
from juzhen.losses.scores import full_precision, order_gap


@checks_arguments
def cosent(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, temperature: float = 0.05
) -> Float[Tensor, ""]:
    """Penalty for every ordered pair of rows whose scores disagree with their targets.

    loss = log(1 + Σ_{y_i > y_j} exp((s_j − s_i) / τ)), the sum over all pairs of rows with strictly different
    targets; 0 with zero gradient when there is no such pair. (Su 2022, https://kexue.fm/archives/8847; the
    λ = 20 there is τ = 0.05 here.)

    The sum over pairs is never written out. With rows sorted by target it is
    Σ_i exp(−s_i/τ) · Σ_{j < start(i)} exp(s_j/τ), where start(i) is the first row that ties with i:
    O(N log N) time, O(N) memory, the same value.
    """
    scores = full_precision(scores) / temperature
    targets, order = targets.sort()
    scores = scores[order]
    lower = torch.logcumsumexp(scores, dim=0)
    # Ties are no pairs: look up the running sum before the first row of the same target, not before row i.
    start = torch.searchsorted(targets, targets)
    terms = lower[(start - 1).clamp(min=0)] - scores
    # exp(−inf) = 0 drops the rows of the lowest target. The leading 0 is the 1 inside the logarithm; it also
    # keeps value and gradient finite when nothing else is left.
    terms = terms.masked_fill(start == 0, -torch.inf)
    return torch.cat([terms.new_zeros(1), terms]).logsumexp(dim=0)


class CoSENT(Loss):
    """`cosent` of the model's scores. A job hands over NLI classes as the targets 1, 0.5 and 0.

    Default: the scale of 20 of Su, and of sentence-transformers' CoSENTLoss. Customary for logits is 1.

    Logs the mean score of the rows whose target is above the batch's mean target, of the others, and the gap.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    consumes = "scores"
    couples = True
    compares = True
    contrast = Contrast.ORDER
    paper = "Su 2022, https://kexue.fm/archives/8847"
    choose_when = "the first to try on graded, 0/1 and NLI pairs when they are judged by rank correlation"

    temperature: float | int = checked(0.05, divisor)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        loss = cosent(scores, targets, temperature=self.temperature)
        return loss, order_gap(scores, targets)
