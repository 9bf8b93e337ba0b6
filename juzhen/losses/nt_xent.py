"""NT-Xent: both texts of a pair look for each other among all other texts of the batch."""

import torch

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.info_nce import InfoNCE, false_negatives, info_nce, ranking_summary
from juzhen.losses.loss import Contrast, LossOutput, first_two
from juzhen.losses.scores import all_cosines


class NTXent(InfoNCE):
    """Cross entropy of finding the partner of each of the 2N texts of N pairs among the other 2N − 1 texts.

    loss = (1/2N) Σ_i −log [exp(cos(u_i, u_p(i))/τ) / Σ_{k≠i} exp(cos(u_i, u_k)/τ)], u all first texts and then all
    second ones, p(i) the place of the other text of i's pair. (Chen et al. 2020, equation 1,
    https://arxiv.org/abs/2002.05709)

    Beside `InfoNCE`, where N anchors look for their positives among N of them, texts of one side keep apart as well,
    and each pair is learnt in both directions. Texts equal to u_i or to a partner of it are left out, as there. Logs
    what `InfoNCE` logs.
    """

    takes = (Kind.POSITIVE_PAIR,)
    contrast = Contrast.SOME_TEXTS

    def __init__(self, *, temperature: float | int) -> None:
        super().__init__(temperature=temperature, symmetric=False)

    def forward(self, encoded: Encoded) -> LossOutput:
        first, second = first_two(encoded)
        first_ids, second_ids, *_ = encoded.text_ids.values()
        # Partners come in the order of their texts, so that the own place of row i is candidate i.
        scores = all_cosines(torch.cat([first, second]), torch.cat([second, first]))
        ids, partner_ids = torch.cat([first_ids, second_ids]), torch.cat([second_ids, first_ids])
        excluded = false_negatives(
            ids, partner_ids, partner_ids
        )  # a text has its own number, and so is left out
        loss = info_nce(scores, excluded, temperature=self.temperature, symmetric=False)
        return loss, ranking_summary(scores, excluded, torch.arange(len(scores), device=scores.device))
