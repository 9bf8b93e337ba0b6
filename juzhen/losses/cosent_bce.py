"""CoSENT and binary cross entropy on one score: the order of the rows, and a probability for each."""

from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.bce import binary_cross_entropy
from juzhen.losses.cosent import cosent
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import divisor, number
from juzhen.losses.scores import full_precision, score_gap


def cosent_and_entropy(
    scores: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    *,
    temperature: float,
    entropy_temperature: float,
    entropy_weight: float,
) -> Float[Tensor, ""]:
    """CoSENT of the scores plus a multiple of their binary cross entropy.

    loss = log(1 + Σ_{y_i > y_j} exp((s_j − s_i)/τ)) + α (1/N) Σ −[y log p + (1 − y) log(1 − p)], where
    p = sigmoid(s/τ_CE). CoSENT leaves the zero of the scores open; the cross entropy puts it between the classes.
    """
    entropy = binary_cross_entropy(
        full_precision(scores) / entropy_temperature, targets, smoothing=0.0, focal_gamma=0.0
    )
    return cosent(scores, targets, temperature=temperature) + entropy_weight * entropy


class CoSENTAndBCE(Loss):
    """`cosent_and_entropy` of the model's scores, meant for a cross-encoder, whose score is a logit.

    For a bi-encoder `cosent_softmax` adds the cross entropy of a classifier instead.
    Logs the mean score of positives, of negatives, and the gap.
    """

    takes = (Kind.LABELLED_PAIR, Kind.SCORED_PAIR)
    reads = "scores"
    couples = True
    compares = True

    def __init__(
        self,
        *,
        temperature: float | int,
        entropy_temperature: float | int,
        entropy_weight: float | int,
    ) -> None:
        super().__init__()
        self.temperature = divisor("loss.temperature", temperature)
        self.entropy_temperature = divisor("loss.entropy_temperature", entropy_temperature)
        self.entropy_weight = number("loss.entropy_weight", entropy_weight, low=0.0)
        self.contrast = Contrast.VALUES if self.entropy_weight else Contrast.ORDER

    def forward(self, encoded: Encoded) -> LossOutput:
        is_positive = encoded.targets > 0.5
        loss = cosent_and_entropy(
            encoded.scores,
            encoded.targets,
            temperature=self.temperature,
            entropy_temperature=self.entropy_temperature,
            entropy_weight=self.entropy_weight,
        )
        return loss, score_gap(encoded.scores, is_positive, ~is_positive)
