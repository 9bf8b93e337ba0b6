"""Unsupervised SimCSE: a sentence shall find itself, seen through another dropout mask, among all others."""

from juzhen.core.examples import Kind
from juzhen.losses.info_nce import InfoNCE


class SimCSE(InfoNCE):
    """`info_nce` of two encodings of each sentence, which differ by dropout alone.

    loss = (1/N) Σ_i −log [exp(cos(u_i, u'_i)/τ) / Σ_j exp(cos(u_i, u'_j)/τ)], u and u' the two encodings.
    (Gao et al. 2021, equation 4, https://arxiv.org/abs/2104.08821) Without dropout in the backbone the two are
    equal, and all that is left is to push sentences apart.

    Other kinds become sentences first, labels unread. The supervised SimCSE of the paper is `info_nce` on the
    triplets of an NLI set. Logs what `InfoNCE` logs.
    """

    takes = (Kind.SENTENCE,)
    needs_two_views = True
