"""CoSENT and binary cross entropy on one score: the order of the rows, and a probability for each."""

from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.bce import binary_cross_entropy
from juzhen.losses.cosent import cosent
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, divisor, number
from juzhen.losses.scores import full_precision, label_gap


@checks_arguments
def cosent_and_entropy(
    scores: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    *,
    temperature: float = 1.0,
    entropy_temperature: float = 1.0,
    entropy_weight: float = 1.0,
) -> Float[Tensor, ""]:
    """CoSENT of the scores plus a multiple of their binary cross entropy.

    loss = log(1 + Σ_{y_i > y_j} exp((s_j − s_i)/τ)) + α (1/N) Σ −[y log p + (1 − y) log(1 − p)], where
    p = sigmoid(s/τ_CE). CoSENT leaves the zero of the scores open; the cross entropy puts it between the classes.
    """
    entropy = binary_cross_entropy(full_precision(scores) / entropy_temperature, targets)
    return cosent(scores, targets, temperature=temperature) + entropy_weight * entropy


class CoSENTAndBCE(Loss):
    """`cosent_and_entropy` of the model's scores, meant for a cross-encoder, whose score is a logit.

    For a bi-encoder `cosent_softmax` adds the cross entropy of a classifier instead.
    Logs the mean score of positives, of negatives, and the gap.

    Defaults: the score is a logit, and both parts count alike.
    """

    input_kinds = (Kind.LABELLED_PAIR, Kind.SCORED_PAIR)
    consumes = "scores"
    couples = True
    compares = True
    choose_when = "a cross-encoder that shall rank pairs and keep a threshold at 0"

    temperature: float | int = checked(1.0, divisor)
    entropy_temperature: float | int = checked(1.0, divisor)
    entropy_weight: float | int = checked(1.0, number, low=0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.contrast = Contrast.VALUES if self.entropy_weight else Contrast.ORDER

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        loss = cosent_and_entropy(
            scores,
            targets,
            temperature=self.temperature,
            entropy_temperature=self.entropy_temperature,
            entropy_weight=self.entropy_weight,
        )
        return loss, label_gap(scores, targets)
