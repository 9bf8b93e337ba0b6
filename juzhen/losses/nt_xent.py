"""NT-Xent: both texts of a pair look for each other among all other texts of the batch."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.info_nce import false_negatives, info_nce, numbers_of_texts, ranking_summary
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, divisor
from juzhen.losses.scores import all_cosines


class NTXent(Loss):
    """Cross entropy of finding the partner of each of the 2N texts of N pairs among the other 2N − 1 texts.

    loss = (1/2N) Σ_i −log [exp(cos(u_i, u_p(i))/τ) / Σ_{k≠i} exp(cos(u_i, u_k)/τ)], u all first texts and then all
    second ones, p(i) the place of the other text of i's pair. (Chen et al. 2020, equation 1,
    https://arxiv.org/abs/2002.05709)

    Beside `InfoNCE`, where N anchors look for their positives among N of them, texts of one side keep apart as well,
    and each pair is learnt in both directions. Texts equal to u_i or to a partner of it are left out, as there. Logs
    what `InfoNCE` logs.

    Default: as `InfoNCE`. SimCLR has 0.1 to 0.5 for pictures.
    """

    input_kinds = (Kind.POSITIVE_PAIR,)
    consumes = "embeddings"
    couples = True
    contrast = Contrast.SOME_TEXTS
    paper = "Chen et al. 2020, https://arxiv.org/abs/2002.05709"
    choose_when = "two views of one text, neither of which is the query"

    temperature: float | int = checked(0.05, divisor)

    def with_logs(
        self,
        first: Float[Tensor, "batch dim"],
        second: Float[Tensor, "batch dim"],
        *,
        text_ids: Int[Tensor, "batch 2"] | None = None,
    ) -> LossOutput:
        first_ids, second_ids = numbers_of_texts(text_ids, like=first, count=2).unbind(dim=1)
        # Partners come in the order of their texts, so that the own place of row i is candidate i.
        scores = all_cosines(torch.cat([first, second]), torch.cat([second, first]))
        ids, partner_ids = torch.cat([first_ids, second_ids]), torch.cat([second_ids, first_ids])
        # A text has its own number, and so is left out.
        excluded = false_negatives(ids, partner_ids, partner_ids)
        loss = info_nce(scores, excluded, temperature=self.temperature, symmetric=False)
        return loss, ranking_summary(scores, excluded, torch.arange(len(scores), device=scores.device))
