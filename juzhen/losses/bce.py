"""Binary cross entropy: the score is the logit of "same meaning"."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Loss, LossOutput
from juzhen.losses.options import checked, divisor, number
from juzhen.losses.scores import full_precision, label_gap, sign_accuracy


@checks_arguments
def binary_cross_entropy(
    logits: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    *,
    smoothing: float = 0.0,
    focal_gamma: float = 0.0,
) -> Float[Tensor, ""]:
    """Mean cost of the probability p = sigmoid(logit) for a target in [0, 1].

    loss = −(1/N) Σ ỹ (1 − p)^γ log p + (1 − ỹ) p^γ log(1 − p), with ỹ = (1 − ε) y + ε/2.
    ε  label smoothing (Szegedy et al. 2016, section 7, https://arxiv.org/abs/1512.00567, for two classes)
    γ  focal loss (Lin et al. 2017, equation 4, https://arxiv.org/abs/1708.02002); 0 is the plain loss. The
       paper has 0/1 labels; for others each class counts by its share, as in the plain loss

    All powers are taken of logarithms: large logits neither overflow nor lose their gradient to 0/0.
    """
    logits = full_precision(logits)
    soft = (1 - smoothing) * full_precision(targets) + smoothing / 2
    log_yes, log_no = F.logsigmoid(logits), F.logsigmoid(-logits)
    yes = (focal_gamma * log_no).exp() * log_yes
    no = (focal_gamma * log_yes).exp() * log_no
    return -(soft * yes + (1 - soft) * no).mean()


class BinaryCrossEntropy(Loss):
    """`binary_cross_entropy` of score / temperature: what a cross-encoder is usually trained with.

    A cross-encoder's score is a logit (with two nodes, their difference: the softmax over two nodes is the
    sigmoid of it), and its temperature 1. A cosine becomes one by a temperature such as 0.05, with the border at 0.

    Defaults: the plain loss of a logit, as torch.nn.BCEWithLogitsLoss.

    Logs the accuracy on targets cut at 0.5, mean score of positives, of negatives, and the gap.
    """

    input_kinds = (Kind.LABELLED_PAIR, Kind.SCORED_PAIR)
    consumes = "scores"
    couples = False
    paper = "Lin et al. 2017 (focal), https://arxiv.org/abs/1708.02002"
    choose_when = "a cross-encoder on 0/1 pairs, where a probability is wanted"

    temperature: float | int = checked(1.0, divisor)
    smoothing: float | int = checked(0.0, number, low=0.0, high=1.0)
    focal_gamma: float | int = checked(0.0, number, low=0.0)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        logits = full_precision(scores) / self.temperature
        loss = binary_cross_entropy(logits, targets, smoothing=self.smoothing, focal_gamma=self.focal_gamma)
        return loss, {"accuracy": sign_accuracy(logits, targets)} | label_gap(scores, targets)
