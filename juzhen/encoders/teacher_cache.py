"""Teacher embeddings, computed once and cached on disk, and batches with them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int

from juzhen.core.batch import Batch, Sharing
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.progress import progress_bar
from juzhen.core.text_warnings import reported
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.embedding_cache import HALF, EmbeddingCache, Vectors
from juzhen.encoders.pooling import unit
from juzhen.encoders.sentence_encoder import SentenceEncoder

CALL = 1_024
"""Texts, of like length, that are encoded before the bar moves."""

PORTION = 8 * CALL
"""Texts that are encoded before their vectors are written: a minute of a small encoder on one core."""


class TeacherEmbeddingCache:
    """Teacher embeddings in half precision on disk, shared by all runs with the same weights.

    Args:
        encoder: The teacher.
        cache: The cache on disk.
        precision: Precision of the teacher, as in `hardware.precision`. Each has a separate partition.
    """

    def __init__(self, encoder: SentenceEncoder, cache: EmbeddingCache, *, precision: str) -> None:
        self._encoder = encoder
        self._precision = precision
        variant = "torch" if precision == "32-true" else f"torch {precision}"
        self._partition = cache.partition(encoder, variant, dtype=HALF)

    @reported()
    def fill(self, texts: Sequence[str], *, progress: bool | None) -> None:
        """Encode missing texts, the longest first, and write them in portions.

        An interrupted call resumes and computes the same embeddings, since the rest is split into the same portions.
        Raises
        UserError for values that half precision cannot represent.
        """
        distinct = list(dict.fromkeys(texts))
        pending = [distinct[row] for row in np.flatnonzero(self._partition.find(distinct).places < 0)]
        pending.sort(key=len, reverse=True)
        device = self._encoder.device.type
        half = torch.float16 if self._precision == "16-mixed" else torch.bfloat16
        with (
            torch.autocast(device, half, enabled=self._precision != "32-true"),
            progress_bar("the teacher encodes", len(pending), shown=progress) as advance,
        ):
            for start in range(0, len(pending), PORTION):
                portion, parts = pending[start : start + PORTION], []
                for first in range(0, len(portion), CALL):
                    parts.append(self._encoder.encode(portion[first : first + CALL], show_progress=False))
                    advance(len(parts[-1]))
                vectors = np.concatenate(parts)
                if not np.abs(vectors).max() <= np.finfo(np.float16).max:
                    raise UserError("the teacher gives numbers that are not finite in half precision")
                self._partition.add(portion, vectors, needed=True)

    def find(self, sentences: Sequence[str], numbers: Int[np.ndarray, "some"]) -> Vectors:
        """Embeddings of the sentences with these numbers. Raises UserError if one is missing."""
        vectors = self._partition.find(sentences[number] for number in numbers)
        if (vectors.places < 0).any():
            raise UserError(
                f"{self._partition.name}: {int((vectors.places < 0).sum()):,} of {len(numbers):,} embeddings of the "
                "teacher are missing, because they could not be written. Choose a cache_dir with room."
            )
        positions = np.full(len(sentences), -1)
        positions[numbers] = vectors.places
        vectors.places = positions
        return vectors


class Targets:
    """Targets of a student: teacher embeddings, centred, reduced to `dim` dimensions, normalized.

    The axes are those of the largest variance about the centre (Pearson 1901).

    Args:
        vectors: Dataset key → embeddings of its sentence table, and the numbers of the available ones.
        center: Fraction of the mean to subtract, 0 to 1.
        dim: Number of principal components. None, or the full number, keeps the embeddings.
    """

    def __init__(
        self,
        vectors: Mapping[str, tuple[Vectors, Int[np.ndarray, "some"]]],
        *,
        center: float,
        dim: int | None,
    ) -> None:
        self._vectors = {name: vectors_of_set for name, (vectors_of_set, _) in vectors.items()}
        size = next(iter(self._vectors.values())).dim
        self._axes: np.ndarray | None = None
        count, total, products = 0, np.zeros(size), np.zeros((size, size))
        is_reduced = dim is not None and dim < size
        for stored, numbers in vectors.values() if center or is_reduced else ():
            for start in range(0, len(numbers), PORTION):
                portion = stored[numbers[start : start + PORTION]].astype(np.float64)
                count, total = count + len(portion), total + portion.sum(axis=0)
                if is_reduced:
                    products += portion.T @ portion
        mean = total / max(count, 1)
        self._origin = (center * mean).astype(np.float32)
        if is_reduced:
            spread = products / count - (2 - center) * center * np.outer(mean, mean)
            self._axes = np.linalg.eigh(spread)[1][:, ::-1][:, :dim].astype(np.float32)

    @property
    def is_reduced(self) -> bool:
        return self._axes is not None

    def turn(
        self, student: Iterable[tuple[str, Int[np.ndarray, "some"], Float[np.ndarray, "some dim"]]]
    ) -> None:
        """Rotate the axes so that the targets approach the student's embeddings of some sentences.

        The rotation keeps angles between targets, and the student need not learn the order of the axes (Schönemann
        1966, https://doi.org/10.1007/BF02289451). `student` has for each set its name, sentence numbers and
        embeddings.
        """
        assert self._axes is not None
        left_vectors, _, right_vectors = np.linalg.svd(
            sum(self(name, numbers).T @ unit(embeddings) for name, numbers, embeddings in student)
        )
        self._axes = self._axes @ (left_vectors @ right_vectors)

    def __call__(self, name: str, numbers: Int[np.ndarray, "some"]) -> Float[np.ndarray, "some dim"]:
        """Targets of the sentences with these numbers in the table of that set, float32."""
        vectors = self._vectors[name][numbers] - self._origin
        return unit(vectors if self._axes is None else vectors @ self._axes)


class TaughtCollator(SentenceCollator):
    """Adds the teacher embedding of the first sentence of each row in training. `targets` must be set before."""

    targets: Targets
    asks_teacher: ClassVar[bool] = True

    def read(
        self, examples: Examples, rows: np.ndarray | slice = slice(None)
    ) -> Int[np.ndarray, "rows *texts"]:
        """Numbers of the sentences of these rows whose vectors are asked of the teacher."""
        return next(iter(examples.columns.values()))[rows]

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """The Batch of the given rows, which is the `index`-th of the stage."""
        batch = self._batch(examples, rows, self._sharing.get(examples.name, Sharing.BATCH), index=index)
        batch.tensors["teacher"] = self._taught(examples, rows)
        return batch

    def _taught(self, examples: Examples, rows: np.ndarray) -> torch.Tensor:
        numbers = self.read(examples, rows)
        vectors = self.targets(examples.name, numbers.ravel())
        return torch.from_numpy(vectors.reshape(*numbers.shape, -1))


class GuidedCollator(TaughtCollator):
    """Adds the teacher embeddings of all texts of each row in training."""

    def read(
        self, examples: Examples, rows: np.ndarray | slice = slice(None)
    ) -> Int[np.ndarray, "rows texts"]:
        return np.stack([values[rows] for values in examples.columns.values()], axis=1)

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        batch = SentenceCollator.training_batch(self, examples, rows, index=index)
        batch.tensors["guide"] = self._taught(examples, rows)
        return batch
