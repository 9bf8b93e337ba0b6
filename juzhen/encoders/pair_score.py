"""From two embeddings to the score of a pair: their cosine, or a learnt form of both."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from juzhen.core.errors import UserError
from juzhen.encoders.locate import SCORE_FILE


class BilinearScore(nn.Module):
    """s(u, v) = ûᵀ W v̂, with û = u/‖u‖ and v̂ = v/‖v‖. W starts as the identity, so that s starts as the cosine.

    (Su 2022, https://kexue.fm/archives/9341, where CoSENT takes any function of two texts for its score; there the
    form is of u and v. Of length 1, long embeddings say no more, and temperatures for cosines fit at the start.)
    The order of the sentences counts: s(u, v) = s(v, u) only as long as W is symmetric.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.form = nn.Parameter(torch.eye(dim))

    def forward(
        self, first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, "batch"]:
        """In float32 also under autocast, which would tie scores that lie close."""
        with torch.autocast(first.device.type, enabled=False):
            first, second = (F.normalize(one.float(), dim=-1) for one in (first, second))
            return ((first @ self.form) * second).sum(dim=-1)

    def save(self, folder: Path) -> None:
        """Writes SCORE_FILE into `folder`."""
        save_file(
            {"form": self.form.detach().cpu().contiguous()}, folder / SCORE_FILE, metadata={"format": "pt"}
        )

    @classmethod
    def load(cls, folder: Path, *, dim: int) -> "BilinearScore | None":
        """What SCORE_FILE holds; None where there is none. Raises UserError where it is not of this encoder."""
        if not (folder / SCORE_FILE).is_file():
            return None
        head = cls(dim)
        try:
            head.load_state_dict(load_file(folder / SCORE_FILE))
        except (RuntimeError, SafetensorError) as error:
            raise UserError(
                f"{folder / SCORE_FILE}: no form over embeddings of {dim} numbers: {' '.join(str(error).split())}"
            ) from error
        return head


def sides(
    embeddings: Float[np.ndarray, "sentences dim"], head: BilinearScore | None
) -> tuple[Float[np.ndarray, "sentences dim"], Float[np.ndarray, "sentences dim"]]:
    """Each sentence as the first and as the second of a pair, whose score is then a dot product."""
    unit = embeddings / np.maximum(
        np.linalg.norm(embeddings, axis=1, keepdims=True), np.finfo(np.float32).tiny
    )
    return (unit if head is None else unit @ head.form.detach().float().cpu().numpy()), unit
