"""InfoNCE over the positives of the batch alone: explicit negatives are not looked at."""

from juzhen.core.examples import Kind
from juzhen.losses.info_nce import InfoNCE


class InfoNCEInBatch(InfoNCE):
    """`info_nce` of pairs; the candidates are the positives of the batch (Henderson et al. 2017, section 4).

    Triplets and inference pairs become pairs of anchor and positive first. Logs what `InfoNCE` logs.
    """

    takes = (Kind.POSITIVE_PAIR,)
