"""Clustering: texts of one class gather round their centre, and the centres keep apart."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, number
from juzhen.losses.scores import all_cosines, full_precision, row_cosine


def centres_of(
    embeddings: Float[Tensor, "batch dim"], classes: Float[Tensor, "batch"]
) -> tuple[Float[Tensor, "classes dim"], Int[Tensor, "batch"]]:
    """Sum of the unit embeddings of each class that the batch has, and for each row which of them is its own."""
    found, members = torch.unique(classes, return_inverse=True)
    unit = F.normalize(full_precision(embeddings), dim=-1)
    return unit.new_zeros(len(found), unit.shape[1]).index_add(0, members, unit), members


@checks_arguments
def clustering(
    embeddings: Float[Tensor, "batch dim"],
    classes: Float[Tensor, "batch"],
    *,
    separation_weight: float = 1.0,
    separation_margin: float = 0.0,
) -> Float[Tensor, ""]:
    """Cosine distance of texts to the centre of their class, and closeness of the centres to each other.

    loss = (1/N) Σ_i (1 − cos(u_i, c_{y_i})) + w · mean over classes k < l of max(0, cos(c_k, c_l) − m), where c_k
    is the mean direction of the batch's texts of class k; the second part is 0 in a batch of one class.

    Without the second part all texts in one point are a perfect solution, and one that training finds. (The
    idea of pulling to centres is that of center loss, Wen et al. 2016, https://doi.org/10.1007/978-3-319-46478-7_31,
    which relies on a classifier beside it to keep classes apart.)
    """
    centres, members = centres_of(embeddings, classes)
    pull = (1 - row_cosine(embeddings, centres[members])).mean()
    above = torch.ones(len(centres), len(centres), dtype=torch.bool, device=centres.device).triu(1)
    closeness = (all_cosines(centres, centres) - separation_margin).relu()
    push = torch.where(above, closeness, 0).sum() / above.sum().clamp(min=1)
    return pull + separation_weight * push


class Clustering(Loss):
    """`clustering` of labelled texts: classes are clusters, centres those of the batch.

    Defaults: both parts count alike, and centres shall be at right angles.

    Logs the mean cosine of texts with their own centre.
    """

    input_kinds = (Kind.LABELLED_TEXT,)
    consumes = "embeddings"
    couples = True
    contrast = Contrast.CLASSES
    paper = "Wen et al. 2016, https://doi.org/10.1007/978-3-319-46478-7_31"
    choose_when = "texts with classes that shall be clustered, with several texts of a class in a batch"

    separation_weight: float | int = checked(1.0, number, low=0.0)
    separation_margin: float | int = checked(0.0, number, low=-1.0, high=1.0)

    def with_logs(
        self, embeddings: Float[Tensor, "batch dim"], classes: Float[Tensor, "batch"]
    ) -> LossOutput:
        loss = clustering(
            embeddings,
            classes,
            separation_weight=self.separation_weight,
            separation_margin=self.separation_margin,
        )
        with torch.no_grad():
            centres, members = centres_of(embeddings, classes)
            own = row_cosine(embeddings, centres[members]).mean()
        return loss, {"own_centre_cosine": own}
