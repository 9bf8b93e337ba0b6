"""Unsupervised SimCSE over 2N × 2N: both encodings of a sentence look for each other among all others."""

from juzhen.core.examples import Kind
from juzhen.losses.nt_xent import NTXent


class SimCSENTXent(NTXent):
    """`NTXent` of two encodings of each sentence, which differ by dropout alone.

    The paper's own loss is `simcse`: N encodings look among the N of the other pass (Gao et al. 2021, equation 4,
    https://arxiv.org/abs/2104.08821). Here each looks among 2N − 1, those of its own pass included. Other kinds
    become sentences first, labels unread.
    """

    takes = (Kind.SENTENCE,)
    needs_two_views = True
