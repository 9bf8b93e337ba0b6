"""The improved contrastive loss of GTE: queries and passages, each kept apart from all of both."""

from juzhen.losses.info_nce_pool import InfoNCEPool


class InfoNCEGTE(InfoNCEPool):
    """`InfoNCEPool` with all four sums: query to passages, to queries; passage to queries, to passages.

    loss = (1/N) Σ_i −log [exp(s(q_i, d_i)/τ) / (Σ_j exp(s(q_i, d_j)/τ) + Σ_{j≠i} exp(s(q_i, q_j)/τ) +
    Σ_j exp(s(q_j, d_i)/τ) + Σ_{j≠i} exp(s(d_j, d_i)/τ))], s the cosine, q anchors and d positives. (Li et al. 2023,
    https://arxiv.org/abs/2308.03281, improved contrastive loss) The pair itself counts twice below the line, as there,
    so that the loss does not fall below log 2. Explicit negatives are passages: candidates of q_i and of d_i.

    Default: 0.01, as GTE.
    """

    paper = "Li et al. 2023, https://arxiv.org/abs/2308.03281"
    choose_when = "retrieval from pairs with large batches, where queries shall keep apart from queries, too"

    def __init__(
        self, *, temperature: float | int = 0.01, false_negative_margin: float | int | None = None
    ) -> None:
        super().__init__(
            temperature=temperature,
            positive_to_anchors=True,
            other_positives=True,
            positive_to_negatives=True,
            false_negative_margin=false_negative_margin,
        )
