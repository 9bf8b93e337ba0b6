"""What every loss declares, so that data and model can be matched before anything is loaded."""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind

LossOutput = tuple[Float[Tensor, ""], dict[str, Tensor]]
"""The scalar to minimise, and named scalars worth logging (detached)."""


class Contrast(StrEnum):
    """What rows must differ in, for a loss to teach anything; `lightning_modules/learnable.py` looks for it."""

    ORDER = "order"  # targets, within a batch: without, the gradient is 0
    TEXTS = "texts"  # texts, within a batch or by the row's own negatives: without, the gradient is 0
    SOME_TEXTS = "some_texts"  # the same, but it is enough where one column of them differs
    NEGATIVES = "negatives"  # the row's own negatives from its positive: without, the gradient is 0
    CLASSES = "classes"  # classes, within the set: without, all that is learnt is to answer always the same
    VALUES = "values"  # targets, within the set: without, all that is learnt is one value


class Loss(nn.Module, ABC):
    """A function from encoded rows to a scalar, with its needs as class attributes.

    takes      example kinds it can learn from, most natural first
    reads      "scores" (one similarity per row, of any size), "cosines" (the same, from −1 to 1), "embeddings"
               (one vector per text column), "logits" (one number per class) or "layers" (a cosine per row and
               layer)
    couples    True when the loss of a row depends on the other rows of the batch: such a batch may not be
               split without gradient caching
    compares   True when the value is one logarithm over comparisons of rows, and not a mean over rows: the length of
               its gradient does not shrink as the batch grows, and can be told to be too small or too large
    needs_two_views  True when a sentence that is paired with itself shall be encoded once per text column, so
               that dropout gives two views of it (Gao et al. 2021, https://arxiv.org/abs/2104.08821). Equal
               sentences within one column still share an encoding. False: equal sentences of a batch are
               encoded once, and the cosine of a sentence with itself is 1, with or without dropout
    has_head   True when it owns parameters sized by the encoder: the constructor then also gets `dim` (size of
               an embedding) and `num_classes`, and the parameters are trained and stored with the model
    contrast   what rows must differ in (`Contrast`); of a loss of several parts, what the least demanding one asks for
    depths     with reads = "layers": which layers, as shares of the backbone's, in (0, 1]
    """

    takes: ClassVar[tuple[Kind, ...]]
    reads: ClassVar[str]
    couples: ClassVar[bool]
    compares: ClassVar[bool] = False
    needs_two_views: ClassVar[bool] = False
    has_head: ClassVar[bool] = False
    contrast: Contrast = Contrast.VALUES
    depths: tuple[float, ...] = ()

    @abstractmethod
    def forward(self, encoded: Encoded) -> LossOutput:
        """Scalar loss and what to log beside it."""


def first_two(encoded: Encoded) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch dim"]]:
    """Embeddings of the two sentences of a pair (or the anchor and positive of a triplet)."""
    first, second, *_ = encoded.embeddings.values()
    return first, second


def negatives(encoded: Encoded) -> list[str]:
    """Names of the columns that hold explicit negatives, in order."""
    return [column for column in encoded.embeddings if column.startswith("negative")]
