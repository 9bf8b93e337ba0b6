"""What a teacher says: vectors of many texts, computed once and read from the disk, and batches that hold them."""

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
    """What an encoder gives for texts, in half precision on disk, for all who ask for the same weights.

    precision  in which the encoder runs, as `hardware.precision` says it; vectors of each are kept apart
    """

    def __init__(self, encoder: SentenceEncoder, cache: EmbeddingCache, *, precision: str) -> None:
        self._encoder = encoder
        self._precision = precision
        variant = "torch" if precision == "32-true" else f"torch {precision}"
        self._partition = cache.partition(encoder, variant, dtype=HALF)

    @reported()
    def fill(self, texts: Sequence[str], *, progress: bool | None) -> None:
        """Encodes the texts whose vectors are not there, the longest first, and writes them portion by portion.

        Work that was cut off is taken up where it was, and gives the same vectors, since the rest is cut into the same
        portions. Raises UserError for vectors that half precision cannot hold.
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
        """The vectors of the sentences with these numbers. Raises UserError where one is not there."""
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
    """What a student shall give for a sentence: its teacher's vector, centred, brought to `dim` numbers, of length 1.

    vectors  dataset key → vectors of its sentence table, and which of them are there
    center   share of their mean that is taken off, 0 to 1
    dim      their first principal components are taken; None, or as many as there are: the vectors as they are

    The axes are those of the largest spread about what is taken off (Pearson 1901).
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
        """Turns the axes so that the targets come as near as they can to what the student gives of some sentences.

        Angles between targets stay as they are, and the student need not learn which axis is which (Schönemann 1966,
        https://doi.org/10.1007/BF02289451). For each set: its name, numbers of sentences, the student's vectors.
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
    """In training, adds what the teacher gives for the first sentence of each row; `targets` must be there by then."""

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
    """In training, adds what the teacher gives for every text of each row."""

    def read(
        self, examples: Examples, rows: np.ndarray | slice = slice(None)
    ) -> Int[np.ndarray, "rows texts"]:
        return np.stack([values[rows] for values in examples.columns.values()], axis=1)

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        batch = SentenceCollator.training_batch(self, examples, rows, index=index)
        batch.tensors["guide"] = self._taught(examples, rows)
        return batch
