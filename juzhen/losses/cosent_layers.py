"""CoSENT at several layers: the states further down shall order the pairs as well."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.constants import constants
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.cosent import cosent
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import divisor, number
from juzhen.losses.scores import order_gap


@checks_arguments
def cosent_of_layers(
    layer_scores: Float[Tensor, "batch layers"], targets: Float[Tensor, "batch"], *, temperature: float = 0.05
) -> Float[Tensor, "layers"]:
    """`cosent` of the scores at each layer."""
    return torch.stack(
        [cosent(scores, targets, temperature=temperature) for scores in layer_scores.unbind(dim=1)]
    )


class CoSENTLayers(Loss):
    """Σ_l β_l CoSENT(s^(l)), s^(l) the cosines of states that are pooled at layer l, β_l its weight.

    The notes on CoSENT name words, sentences and paragraphs as levels. Each level needs pairs whose order is known at
    that level, and no set here has any: labels order whole texts, and a row holds no text around its sentence. The
    label of a sentence put on its words would say of every two words of like sentences that they are alike. So the
    levels are layers of the transformer, where the label is true of what is compared: all states of the two
    sentences, pooled. Evaluation reads the last layer, as always.

    depths   which layers, as shares of the backbone's, in (0, 1], the lowest first: 0.5 of 12 layers is layer 6
    weights  one for each of them

    Defaults: CoSENT's scale of 20, and half the weight for the layer in the middle.

    Logs the loss at each layer; of the last one the mean score of the rows whose target is above the batch's mean
    target, of the others, and the gap.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    consumes = "layers"
    couples = True
    compares = True
    contrast = Contrast.ORDER
    choose_when = "as cosent, when lower layers shall give usable embeddings too"

    def __init__(
        self,
        *,
        temperature: float | int = 0.05,
        depths: Sequence[float | int] = (0.5, 1.0),
        weights: Sequence[float | int] = (0.5, 1.0),
    ) -> None:
        super().__init__()
        self.temperature = divisor("loss.temperature", temperature)
        self.depths = tuple(number("loss.depths", one, low=0.0, high=1.0, open_low=True) for one in depths)
        self.weights = tuple(number("loss.weights", one, low=0.0) for one in weights)
        if not self.depths or list(self.depths) != sorted(set(self.depths)):
            raise UserError(
                f"loss.depths={list(depths)}: expected shares of the layers in rising order, as in [0.5, 1]"
            )
        if len(self.weights) != len(self.depths) or not sum(self.weights):
            raise UserError(
                f"loss.weights={list(weights)}: expected {len(self.depths)} numbers, one for each of "
                f"loss.depths={list(depths)}, and one of them above 0"
            )

    def with_logs(
        self, layer_scores: Float[Tensor, "batch layers"], targets: Float[Tensor, "batch"]
    ) -> LossOutput:
        if layer_scores.shape[1] != len(self.weights):
            raise UserError(
                f"layer_scores of {layer_scores.shape[1]} layers: expected {len(self.weights)}, as there are weights; "
                "give CoSENTLayers depths and weights for each"
            )
        parts = cosent_of_layers(layer_scores, targets, temperature=self.temperature)
        logs = {f"cosent_at_{depth:g}": part for depth, part in zip(self.depths, parts.detach(), strict=True)}
        logs |= order_gap(layer_scores[:, -1], targets)
        return (parts * constants(self.weights, like=parts)).sum(), logs
