"""Pooling, one embedding out of a sentence's token states; and the score of two embeddings, cosine or a learnt form.

Every pooling takes `layers`, the token states of the transformer layers from first to last (the embedding
layer is not among them; callers may leave inner layers out), and `tokens`, which says which states belong to
which sentence. There is no padding to be wrong about. Sums are taken in float32 whatever the states are, and
the embedding is float32.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.torch import load_file, save_model
from torch import Tensor, nn

from juzhen.core.batch import Tokens
from juzhen.core.errors import UserError
from juzhen.encoders.locate import SCORE_FILE

Layers = Sequence[Float[Tensor, "tokens dim"]]
Embeddings = Float[Tensor, "sentences dim"]


def _pooled(
    states: Float[Tensor, "tokens dim"], tokens: Tokens, *, rest: float
) -> Float[Tensor, "tokens dim"]:
    """The states in float32, with `rest` for those of a prompt that is not pooled."""
    states = states.float()
    if isinstance(tokens.unpooled, int) and not tokens.unpooled:
        return states
    left_out = tokens.positions < tokens.num_unpooled[tokens.sentence_of_token]
    return states.masked_fill(left_out.unsqueeze(-1), rest)


def _sums(states: Float[Tensor, "tokens dim"], tokens: Tokens) -> Embeddings:
    """Sum of the pooled states of each sentence."""
    empty = torch.zeros(len(tokens), states.shape[-1], device=states.device)
    return empty.index_add(0, tokens.sentence_of_token, _pooled(states, tokens, rest=0.0))


def mean(layers: Layers, tokens: Tokens) -> Embeddings:
    """Average of the last layer over the tokens (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084)."""
    return _sums(layers[-1], tokens) / (tokens.lengths - tokens.num_unpooled).unsqueeze(-1)


def cls(layers: Layers, tokens: Tokens) -> Embeddings:
    """State of the first pooled token of the last layer."""
    return layers[-1][tokens.starts + tokens.num_unpooled].float()


def max_(layers: Layers, tokens: Tokens) -> Embeddings:
    """Largest value over the tokens of the last layer, per dimension."""
    states = _pooled(layers[-1], tokens, rest=float("-inf"))
    lowest = states.new_full((len(tokens), states.shape[-1]), float("-inf"))
    where = tokens.sentence_of_token.unsqueeze(-1).expand_as(states)
    return lowest.scatter_reduce(0, where, states, "amax")


def first_last(layers: Layers, tokens: Tokens) -> Embeddings:
    """Average of the mean pools of the first and the last transformer layer.

    "First" is the output of the first transformer block, not of the embedding layer; papers differ on this
    (Su et al. 2021, https://arxiv.org/abs/2103.15316, mean the same as we do).
    """
    return (mean(layers[:1], tokens) + mean(layers, tokens)) / 2


def weighted(layers: Layers, tokens: Tokens) -> Embeddings:
    """Average of the last layer in which the token at position i (from 1, a prompt counts) has weight i.

    Muennighoff 2022, https://arxiv.org/abs/2202.08904, equation 1: for models that only look to the left.
    """
    weights = (tokens.positions + 1).unsqueeze(-1)
    total = (tokens.lengths * (tokens.lengths + 1) - tokens.num_unpooled * (tokens.num_unpooled + 1)) / 2
    return _sums(layers[-1].float() * weights, tokens) / total.unsqueeze(-1)


POOLINGS: dict[str, Callable[[Layers, Tokens], Embeddings]] = {
    "mean": mean,
    "cls": cls,
    "max": max_,
    "first_last": first_last,
    "weighted": weighted,
}
"""Name in `backbone.pooling` → function."""

READS_FIRST_LAYER = frozenset({"first_last"})
"""Poolings that need more than the last layer."""


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
        save_model(self, str(folder / SCORE_FILE), metadata={"format": "pt"})

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
    """Each sentence as the first and as the second of a pair, whose score is then a dot product; in their precision."""
    second = unit(embeddings)
    if head is None:
        return second, second
    return second @ head.form.detach().float().cpu().numpy().astype(second.dtype), second


PAIRS_AT_ONCE = 16_384
"""Pairs whose embeddings are held in float64 at a time."""


def pair_scores(
    first: Float[np.ndarray, "some dim"],
    second: Float[np.ndarray, "others dim"],
    rows: Int[np.ndarray, "pairs"],
    columns: Int[np.ndarray, "pairs"],
    *,
    head: BilinearScore | None = None,
) -> Float[np.ndarray, "pairs"]:
    """The score of `first[row]` and `second[column]` of each pair: the cosine, or what `head` makes of it.

    Float64 inside, rounded to float32, so that an embedding has the cosine 1 with itself, and equal pairs have equal
    scores, wherever they stand. Embeddings are of any length.
    """
    scores = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        some = slice(start, start + PAIRS_AT_ONCE)
        (left_rows, left_places), (right_rows, right_places) = (
            np.unique(numbers[some], return_inverse=True) for numbers in (rows, columns)
        )
        left = sides(first[left_rows].astype(np.float64), head)[0]
        right = unit(second[right_rows].astype(np.float64))
        scores[some] = np.einsum("rd,rd->r", left[left_places], right[right_places])
    return scores


def unit(embeddings: Float[np.ndarray, "sentences dim"]) -> Float[np.ndarray, "sentences dim"]:
    """The same directions, each of length 1."""
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings / np.maximum(lengths, np.finfo(np.float32).tiny)


def require_finite_vectors(vectors: Float[np.ndarray, "some dim"], what: str) -> None:
    """Raises UserError that names the first row with a number that is none: nothing would be near it, or all."""
    for start in range(0, len(vectors), 32_768):
        some = vectors[start : start + 32_768]
        if not np.isfinite(some.sum()) and not (finite := np.isfinite(some).all(axis=1)).all():
            raise UserError(
                f"{what}: row {start + int(finite.argmin())} holds NaN or infinity; encode it again"
            )
