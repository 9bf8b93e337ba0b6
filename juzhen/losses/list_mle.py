"""ListMLE: the likelihood of the right order of a row's documents."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.lists import ListLoss, first_document
from juzhen.losses.loss import LossOutput
from juzhen.losses.scores import full_precision


@checks_arguments
def list_mle(
    document_scores: Float[Tensor, "batch documents"], grades: Float[Tensor, "batch documents"]
) -> Float[Tensor, ""]:
    """Mean over rows of −Σ_k log [exp(s_k) / (exp(s_k) + Σ_{m: g_m < g_k} exp(s_m))], s the scores and g the grades.

    Where all grades of a row differ this is −log P(order | s), the order drawn from the top without replacement (Xia et
    al. 2008, https://doi.org/10.1145/1390156.1390306). Documents of one grade do not compete, where the
    paper takes one order of them for right.
    """
    scores = full_precision(document_scores)
    is_lower = grades[:, None, :] < grades[:, :, None]
    is_rival = is_lower | torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
    rivals = scores[:, None, :].expand(is_rival.shape).masked_fill(~is_rival, -torch.inf)
    return (rivals.logsumexp(dim=2) - scores).sum(dim=1).mean()


class ListMLE(ListLoss):
    """`list_mle` in the order of a teacher's scores where the set has them, else of the positive before all negatives.

    Scores are divided by a temperature. Logs how the positive ranks.

    Default: scores as they are, which suits logits.
    """

    paper = "Xia et al. 2008, https://doi.org/10.1145/1390156.1390306"
    choose_when = "a cross-encoder that shall put the documents of a query in order"

    def with_logs(
        self,
        document_scores: Float[Tensor, "batch documents"],
        teacher_scores: Float[Tensor, "batch documents"] | None = None,
    ) -> LossOutput:
        grades = first_document(document_scores).float() if teacher_scores is None else teacher_scores
        loss = list_mle(self.tempered(document_scores), grades)
        return loss, self.list_summary(document_scores)
