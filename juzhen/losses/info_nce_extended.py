"""The extended InfoNCE of CoT-BERT: positives are kept apart from negatives, too."""

from juzhen.core.examples import Kind
from juzhen.losses.info_nce_pool import InfoNCEPool


class InfoNCEExtended(InfoNCEPool):
    """`InfoNCEPool` with the term E_i and without other anchors, which is what CoT-BERT minimises.

    loss = (1/N) Σ_i −log [exp(s(a_i, p_i)/τ) / Σ_j (exp(s(a_i, p_j)/τ) + exp(s(a_i, n_j)/τ) + exp(s(p_i, n_j)/τ))],
    s the cosine. (Zhang et al. 2024, section 3.3, https://arxiv.org/abs/2309.11143) Rows without negatives make it
    plain InfoNCE.
    """

    takes = (Kind.TRIPLET, Kind.POSITIVE_PAIR)

    def __init__(self, *, temperature: float | int) -> None:
        super().__init__(temperature=temperature, other_anchors=False, positive_to_negatives=True)
