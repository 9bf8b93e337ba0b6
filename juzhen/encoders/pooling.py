"""Pooling of token states into an embedding, and the score of two embeddings. Needs no torch.

A pooling is one entry of POOLINGS. Its maths is written once, over the sums, maxima and counts of `Sentences`: packed
states in training and encoding, padded states in an exported graph. Sums and embeddings are float32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.columns import sound_rows
from juzhen.core.errors import UserError, require_choice


@runtime_checkable
class Sentences(Protocol):
    """Token states of several sentences. Tokens of a prompt that is not pooled count only in `places`.

    Attributes:
        count: Pooled tokens of each sentence, (sentences, 1).
        skipped: Tokens before them, (sentences, 1).
        places: Position of each token in its sentence, from 1, to be multiplied with states.
    """

    @property
    def count(self) -> Any: ...
    @property
    def skipped(self) -> Any: ...
    @property
    def places(self) -> Any: ...
    def sum(self, states: Any) -> Any:
        """Sum of each sentence's states.

        Args:
            states: States of the tokens, in packed order.

        Returns:
            Array (sentences, dim).
        """

    def max(self, states: Any) -> Any:
        """Largest value of each dimension.

        Args:
            states: States of the tokens, in packed order.

        Returns:
            Array (sentences, dim).
        """

    def first(self, states: Any) -> Any:
        """State of the first token.

        Args:
            states: States of the tokens, in packed order.

        Returns:
            Array (sentences, dim).
        """

    def last(self, states: Any) -> Any:
        """State of the last token.

        Args:
            states: States of the tokens, in packed order.

        Returns:
            Array (sentences, dim).
        """


@dataclass(frozen=True)
class Pooling:
    """A pooling function.

    Attributes:
        pool: (layers, sentences) → (sentences, dim). Layers are token states from the first to the last
            transformer layer, without the embedding layer. Callers may leave inner layers out.
        switch: Setting of a Pooling folder of sentence-transformers. None if it has no such pooling.
        reads_first_layer: It needs more than the last layer. sentence-transformers then weighs the two equally.
    """

    pool: Callable[[Sequence[Any], Sentences], Any]
    switch: str | None = None
    reads_first_layer: bool = False

    @property
    def mode(self) -> str | None:
        """What sentence-transformers calls it since version 5.5."""
        return None if self.switch is None else mode_of(self.switch)


def mode_of(switch: str) -> str:
    """Pooling mode of a switch from before 5.5.

    Args:
        switch: Name of a key of 1_Pooling/config.json.

    Returns:
        The pooling mode of sentence-transformers.

    >>> [mode_of(f"pooling_mode_{one}") for one in ("mean_tokens", "cls_token", "lasttoken")]
    ['mean', 'cls', 'lasttoken']
    """
    return switch.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")


def mean(layers: Sequence[Any], sentences: Sentences) -> Any:
    """Average of the last layer over the tokens (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084).

    Args:
        layers: States of each layer, the last one last.
        sentences: Bounds of the sentences in the states.

    Returns:
        Embeddings, (sentences, dim).
    """
    return sentences.sum(layers[-1]) / sentences.count


def mean_sqrt_len(layers: Sequence[Any], sentences: Sentences) -> Any:
    """Sum of the last layer over the tokens, divided by the root of their number: long texts have longer embeddings.

    Cosines equal those of the mean. Layers after pooling see the length of a text (as in sentence-transformers).

    Args:
        layers: States of each layer, the last one last.
        sentences: Bounds of the sentences in the states.

    Returns:
        Embeddings, (sentences, dim).
    """
    return sentences.sum(layers[-1]) / sentences.count**0.5


def first_last(layers: Sequence[Any], sentences: Sentences) -> Any:
    """Average of the mean pools of the first and the last transformer layer.

    "First" is the output of the first transformer block, not of the embedding layer. Papers differ on this. Su et
    al. 2021, https://arxiv.org/abs/2103.15316, agree with us.

    Args:
        layers: States of each layer, the last one last.
        sentences: Bounds of the sentences in the states.

    Returns:
        Embeddings, (sentences, dim).
    """
    return (mean(layers[:1], sentences) + mean(layers, sentences)) / 2


def weighted(layers: Sequence[Any], sentences: Sentences) -> Any:
    """Average of the last layer in which the token at position i (from 1, a prompt counts) has weight i.

    Muennighoff 2022, https://arxiv.org/abs/2202.08904, equation 1: for models that only look to the left.

    Args:
        layers: States of each layer, the last one last.
        sentences: Bounds of the sentences in the states.

    Returns:
        Embeddings, (sentences, dim).
    """
    total = sentences.count * (sentences.count + 2 * sentences.skipped + 1) / 2
    return sentences.sum(layers[-1] * sentences.places) / total


POOLINGS: dict[str, Pooling] = {
    "mean": Pooling(mean, "pooling_mode_mean_tokens"),
    "cls": Pooling(lambda layers, sentences: sentences.first(layers[-1]), "pooling_mode_cls_token"),
    "max": Pooling(lambda layers, sentences: sentences.max(layers[-1]), "pooling_mode_max_tokens"),
    "first_last": Pooling(first_last, "pooling_mode_mean_tokens", reads_first_layer=True),
    "weighted": Pooling(weighted, "pooling_mode_weightedmean_tokens"),
    "mean_sqrt_len": Pooling(mean_sqrt_len, "pooling_mode_mean_sqrt_len_tokens"),
    "last": Pooling(lambda layers, sentences: sentences.last(layers[-1]), "pooling_mode_lasttoken"),
}
"""Values of `backbone.pooling`."""


def check_pooling(name: str) -> str:
    """Check the name of a pooling.

    Args:
        name: Name of a pooling.

    Returns:
        The name.

    Raises:
        UserError: An unknown name. The message has the nearest known one.
    """
    require_choice("pooling", name, POOLINGS)
    return name


def sides(
    embeddings: Float[np.ndarray, "sentences dim"], head: Any
) -> tuple[Float[np.ndarray, "sentences dim"], Float[np.ndarray, "sentences dim"]]:
    """Vectors of each sentence as the first and as the second of a pair. Their dot product is the score.

    `head` is a BilinearScore. None is the cosine. The precision is kept.

    Args:
        embeddings: Embeddings, (rows, dim).
        head: A BilinearScore, or None.

    Returns:
        Two arrays of the shape of `embeddings`.
    """
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
    head: Any = None,
) -> Float[np.ndarray, "pairs"]:
    """Score `first[row]` and `second[column]` of each pair, by the cosine or by `head`.

    Float64 inside, rounded to float32, so that an embedding has the cosine 1 with itself, and equal pairs have equal
    scores at any position. Embeddings may have any length.

    Args:
        first: Embeddings of the first texts.
        second: Embeddings of the second texts.
        rows: Row of `first` of each pair.
        columns: Row of `second` of each pair.
        head: A BilinearScore, or None.

    Returns:
        float32 array (pairs,).
    """
    scores = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        portion = slice(start, start + PAIRS_AT_ONCE)
        (left_rows, left_places), (right_rows, right_places) = (
            np.unique(numbers[portion], return_inverse=True) for numbers in (rows, columns)
        )
        firsts = sides(first[left_rows].astype(np.float64), head)[0]
        right = unit(second[right_rows].astype(np.float64))
        scores[portion] = np.einsum("rd,rd->r", firsts[left_places], right[right_places])
    return scores


def unit(embeddings: Float[np.ndarray, "sentences dim"]) -> Float[np.ndarray, "sentences dim"]:
    """The same directions, each of length 1.

    Args:
        embeddings: Embeddings, (rows, dim).

    Returns:
        Array of the same shape.
    """
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings / np.maximum(lengths, np.finfo(np.float32).tiny)


def truncate_vectors(
    embeddings: Float[np.ndarray, "sentences dim"], size: int, *, normalize: bool
) -> Float[np.ndarray, "sentences size"]:
    """First `size` dimensions of each embedding, normalized again if `normalize`.

    Args:
        embeddings: Embeddings, (rows, dim).
        size: Number of dimensions.
        normalize: Scale to length 1 again.

    Returns:
        Array (sentences, size).
    """
    return unit(embeddings[:, :size]) if normalize else embeddings[:, :size]


def require_finite_vectors(vectors: Float[np.ndarray, "some dim"], name: str) -> None:
    """Raise UserError with the first row that has NaN or infinity, which would break every comparison.

    Args:
        vectors: Array (rows, dim).
        name: Name of the vectors in the message.

    Raises:
        UserError: A row holds NaN or infinity.
    """
    if not (sound := sound_rows(vectors)).all():
        raise UserError(f"{name}: row {int(sound.argmin())} holds NaN or infinity. Encode it again")
