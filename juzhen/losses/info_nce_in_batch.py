"""InfoNCE over the positives of the batch alone: explicit negatives are not looked at."""

from juzhen.core.examples import Kind
from juzhen.losses.info_nce import InfoNCE
from juzhen.losses.options import checked, divisor, switch


class InfoNCEInBatch(InfoNCE):
    """`info_nce` of pairs; the candidates are the positives of the batch (Henderson et al. 2017, section 4).

    Triplets and inference pairs become pairs of anchor and positive first. Logs what `InfoNCE` logs.

    Defaults: both directions, at a temperature of 0.07.
    """

    input_kinds = (Kind.POSITIVE_PAIR,)
    paper = "Henderson et al. 2017, https://arxiv.org/abs/1705.00652"
    choose_when = "positive pairs without hard negatives"

    temperature: float | int = checked(0.07, divisor)
    symmetric: bool = checked(True, switch)
