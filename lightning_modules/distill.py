"""Bi-encoders that learn from another encoder: from the embedding space of a teacher, or from a guide.

The teacher's embeddings are computed once and cached on disk.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from conf.job import JobConfig
from juzhen.core.batch import Batch, Sharing
from juzhen.core.errors import UserError, require_number
from juzhen.core.examples import Examples
from juzhen.core.progress import progress_bar
from juzhen.core.text_warnings import collected, reported
from juzhen.distillation import (
    DistillModuleSettings,
    DistillTranslationsSettings,
    GuidedSettings,
    TaughtSettings,
)
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.components import embedding_size
from juzhen.encoders.embedding_cache import HALF, EmbeddingCache, Vectors
from juzhen.encoders.pooling import unit
from juzhen.encoders.preflight import check_encoder_files
from juzhen.encoders.projection import Projection
from juzhen.encoders.resolve_path import encoder_source, has_score_head
from juzhen.models.settings import name_of
from lightning_modules.biencoder import BiEncoder, augmentation_of, nested_losses
from lightning_modules.loss_factory import Match, build_loss

CALL = 1_024
"""Texts, of like length, that are encoded before the bar moves."""

PORTION = 8 * CALL
"""Texts that are encoded before their vectors are written: a minute of a small encoder on one core."""


class TeacherEmbeddingCache:
    """Teacher embeddings in half precision on disk, shared by runs of the same weights and `hardware.precision`.

    Args:
        encoder: The teacher.
        cache: Cache of embeddings on disk. The teacher has a partition of it.
        precision: `hardware.precision`. Embeddings of another precision are in another partition.
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

        Args:
            texts: Texts for the teacher. Equal texts are encoded once.
            progress: Show a progress bar. None: only on a terminal.

        Raises:
            UserError: A value that half precision cannot represent.
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
        """Find the embeddings of sentences on disk.

        Args:
            sentences: Sentence table of a set.
            numbers: Numbers of the wanted sentences in the table.

        Returns:
            Float16 vectors, indexed by sentence numbers of the table.

        Raises:
            UserError: An embedding is missing.
        """
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
        1966, https://doi.org/10.1007/BF02289451).

        Args:
            student: For each set its name, sentence numbers, and the student's embeddings (some, dim) of these
                sentences. `dim` is the size of the targets.
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
        """Find the sentences that the teacher encodes for rows.

        Args:
            examples: Rows of a training set.
            rows: Row numbers. Default: all rows.

        Returns:
            Sentence numbers (rows,), or (rows, texts) if the teacher reads several texts of a row.
        """
        return next(iter(examples.columns.values()))[rows]

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
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


class Taught(BiEncoder):
    """Base of models with a teacher. Teacher vectors are computed once per text and cached below `cache_dir`.

    Args:
        teacher: A run, an encoder's folder, a built-in encoder or a hub id. `teacher_revision` is its
            revision.
        teacher_prompt: Prompt before each sentence that the teacher reads. None: the setting of its folder.
    """

    collate: TaughtCollator

    Settings = TaughtSettings

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        self._own = self.settings(self.job)
        self._kept: TeacherEmbeddingCache | None = None

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        super().check(job, matches)
        if matches and job.cache_dir is None:
            raise UserError(
                "cache_dir=null: a folder is needed, where the teacher's vectors are stored. Type cache_dir=<a folder>"
            )

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        super().check_start(job)
        settings = cls.settings(job)
        if has_score_head(settings.teacher):
            raise UserError(
                f"model.teacher={settings.teacher}: its pairs are scored by a learnt form uᵀWv, not by the cosine of "
                "embeddings that is taught here. Take a teacher of model.score=cosine, or have `juzhen distill` "
                "write its scores"
            )
        teacher = BackboneConfig(
            path=encoder_source(settings.teacher), revision=settings.teacher_revision, initialize="pretrained"
        )
        check_encoder_files(teacher)

    def prepare_data(self) -> None:
        """Let the teacher encode new texts, in the first process of each node."""
        if self.trainer.training:
            read = self._read()
            texts = [examples.sentences[number] for examples, numbers in read for number in numbers]
            self._vectors().fill(texts, progress=None if self.job.logger.progress else False)

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit":
            vectors = self._vectors()
            vectors_of = {
                examples.name: (vectors.find(examples.sentences, numbers), numbers)
                for examples, numbers in self._read()
            }
            self.collate.targets = self.targets(vectors_of)
            self._kept = None  # the teacher's weights have no more to do

    def targets(self, vectors_of: Mapping[str, tuple[Vectors, np.ndarray]]) -> Targets:
        """Make the targets of batches. By default they are the teacher's vectors at length 1.

        Args:
            vectors_of: Dataset key → teacher vectors of its sentence table, and the numbers of the available ones.

        Returns:
            The targets for `TaughtCollator.targets`.
        """
        return Targets(vectors_of, center=0.0, dim=None)

    def _read(self) -> list[tuple[Examples, np.ndarray]]:
        """Return each training set with the numbers of the sentences that the teacher reads."""
        sets = self.trainer.datamodule.train.values()
        return [(examples, np.unique(self.collate.read(examples))) for examples in sets]

    def _vectors(self) -> TeacherEmbeddingCache:
        if self._kept is None:
            teacher = SentenceEncoder.load(self._own.teacher, revision=self._own.teacher_revision)
            if self._own.teacher_prompt is not None:
                teacher = teacher.with_prompt(prompt=self._own.teacher_prompt)
            self._kept = TeacherEmbeddingCache(
                teacher.to(self.trainer.strategy.root_device),
                EmbeddingCache(self.job.cache_dir),
                precision=self.job.hardware.precision,
            )
        return self._kept


TURNED_BY = 8_192
"""Sentences, about, by which the teacher's axes are turned towards the student's."""

IDENTITY = "torch.nn.modules.linear.Identity"


class DistillModule(Taught):
    """A student learns its teacher's embedding space.

    (Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813) Any set can be used. A set of pairs
    contributes its sentences. Evaluation is that of the bi-encoder, with the embeddings of the student.

    Args:
        center: Share, 0 to 1, of the mean teacher vector over the training sentences that is subtracted.
        projection: How the student's embeddings reach the teacher's dimension. drop: a linear map that only
            losses use. keep: a linear map that is the last layer of the encoder and saved with it, unless the
            encoder already ends in a map of that size. pca: no map. Longer teacher vectors are reduced to the
            student's dimension by their principal components, and rotated towards the student's first
            embeddings.
    """

    Settings = DistillModuleSettings

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        self.collate = TaughtCollator(
            self.tokenize, self.encoder.collate, sharing=self.sharing, sides=self.tokenize
        )
        self.projection: nn.Module | None = None
        reads = {name for loss in self.losses.values() for name in loss.inputs}
        if self._own.projection == "drop" and "projected" in reads:
            self.projection = nn.Linear(self.encoder.dim, _size_of_teacher(self._own))

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> SentenceEncoder:
        encoder = BiEncoder.load_encoder(job, folder=folder)
        settings = DistillModule.settings(job)
        if settings.projection == "keep":
            size, last = _size_of_teacher(settings), encoder.output_layers[-1:]
            if not (last and last[0].kind == Projection.kind and encoder.dim == size):
                with torch.random.fork_rng(devices=[]):
                    torch.default_generator.manual_seed(job.seed)
                    layer = Projection(encoder.dim, size, bias=True, activation=IDENTITY)
                encoder.projections.append(layer)
        return encoder

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        super().check(job, matches)
        settings = cls.settings(job)
        for name, match in matches.items():
            loss = build_loss(match.loss, dim=1, num_classes=2)
            if settings.projection == "drop" and nested_losses([loss]) and "projected" in loss.inputs:
                raise UserError(
                    f"loss={name_of(match.loss)}: {name} would be learnt through model.projection=drop, a map of whole "
                    "embeddings. Type model.projection=keep or pca, or loss@loss.of=distill_similarity"
                )
        require_number("model.center", cls.settings(job).center, 0, 1)

    @classmethod
    def embedding_size(cls, job: JobConfig) -> int:
        settings = cls.settings(job)
        return _size_of_teacher(settings) if settings.projection == "keep" else super().embedding_size(job)

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        super().check_start(job)
        settings = cls.settings(job)
        if settings.projection != "pca":
            return
        student = job.init_from or job.backbone.path
        sizes = embedding_size(student, revision=job.backbone.revision), _size_of_teacher(settings)
        if sizes[0] > sizes[1]:
            raise UserError(
                f"model.projection=pca: {student} gives {sizes[0]} numbers and the teacher {sizes[1]}, to which no "
                "component can be added. Type model.projection=drop or keep"
            )

    def targets(self, vectors_of: Mapping[str, tuple[Vectors, np.ndarray]]) -> Targets:
        dim = self.encoder.dim if self._own.projection == "pca" else None
        targets = Targets(vectors_of, center=self._own.center, dim=dim)
        if targets.is_reduced:
            targets.turn(self._given({name: numbers for name, (_, numbers) in vectors_of.items()}))
        return targets

    def encode(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Encode a taught batch into one row per sentence of each row. Else encode as the bi-encoder.

        Args:
            batch: A taught batch has the tensor `teacher`.

        Returns:
            For a taught batch `student` (texts, dim), `projected` and `teacher` (texts, teacher).
        """
        if "teacher" not in batch.tensors:
            return super().encode(batch)
        embeddings = self.encoder(batch.tokens)
        self.watch(embeddings, are_embeddings=True)
        positions = torch.cat(list(batch.columns.values()))
        student = embeddings[positions]
        return {
            "student": student,
            "projected": student if self.projection is None else self.projection(student).float(),
            "teacher": batch.tensors["teacher"].repeat(len(batch.columns), 1),
        }

    def _given(self, read: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield student embeddings of a sample of the teacher's sentences, set by set, before training."""
        step = max(sum(map(len, read.values())) // TURNED_BY, 1)
        for examples in self.trainer.datamodule.train.values():
            numbers = read[examples.name][::step]
            texts = [examples.sentences[number] for number in numbers]
            with collected():  # what training truncates is counted once
                embeddings = self.encoder.encode(texts, show_progress=False)
            yield examples.name, numbers, embeddings


class DistillTranslations(DistillModule):
    """A teacher encodes the anchor of a pair. The student learns this vector for the anchor and the positive.

    With translations as pairs, a student learns a language that its teacher does not know (as Distill,
    section 2).
    """

    Settings = DistillTranslationsSettings


def _size_of_teacher(settings: DistillModuleSettings) -> int:
    return embedding_size(settings.teacher, revision=settings.teacher_revision)


class Guided(Taught):
    """Bi-encoder for losses that read a guide (GISTEmbed: Solatorio 2024, https://arxiv.org/abs/2402.16829).

    The guide is its teacher. It reads every text of a row without augmentation.
    """

    Settings = GuidedSettings

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        self.collate = GuidedCollator(
            self.tokenize,
            self.encoder.collate,
            sharing=self.sharing,
            augmentation=augmentation_of(self.job, self.encoder),
            sides=self.tokenize,
        )
