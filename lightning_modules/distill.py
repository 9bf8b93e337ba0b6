"""A bi-encoder that learns from another encoder: its embeddings shall be those of a teacher."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from conf.job import JobConfig
from juzhen.core.batch import Batch, Encoded
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.embedding_cache import Vectors
from juzhen.encoders.kept_vectors import Targets, TaughtCollator
from juzhen.encoders.parts import embedding_size
from juzhen.encoders.projection import Projection
from lightning_modules.base import asked_for
from lightning_modules.biencoder import BiEncoder
from lightning_modules.chosen_losses import Match
from lightning_modules.taught import Taught

TURNED_BY = 8_192
"""Sentences, about, by which the teacher's axes are turned towards the student's."""

IDENTITY = "torch.nn.modules.linear.Identity"


class Distill(Taught):
    """A student learns its teacher's embedding space (Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813).

    center      share, 0 to 1, of the mean of its vectors over the sentences that are learnt from, which is taken off
    projection  how the student's embeddings get to the teacher's dimension. drop: by a linear map that only losses
                see · keep: by one that is the last layer of the encoder and saved with it, unless it ends in one of
                that size already · pca: they do not, the teacher's vectors are brought to the student's dimension by
                their principal components where they are longer, turned to where the student begins

    Any set can be learnt from: of pairs, their sentences are. Evaluation is that of the bi-encoder, by what the
    student's encoder gives.
    """

    input_kind = Kind.SENTENCE
    loss_kind = Kind.SENTENCE
    provides: ClassVar[tuple[str, ...]] = ("teacher",)

    @dataclass(frozen=True, kw_only=True)
    class Settings(Taught.Settings):
        center: float
        projection: Literal["drop", "keep", "pca"]

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        self.collate = TaughtCollator(
            self.tokenize, self.encoder.collate, sharing=self.sharing, sides=self.tokenize
        )
        self.projection: nn.Module | None = None
        reads = {name for loss in self.losses.values() for name in asked_for(type(loss))}
        if self._own.projection == "drop" and "projected" in reads:
            self.projection = nn.Linear(self.encoder.dim, _size_of_teacher(self._own))

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> SentenceEncoder:
        encoder = BiEncoder.load_encoder(job, folder=folder)
        own = Distill.settings(job)
        if own.projection == "keep":
            size, last = _size_of_teacher(own), encoder.output_layers[-1:]
            if not (last and last[0].kind == Projection.kind and encoder.dim == size):
                with torch.random.fork_rng(devices=[]):
                    torch.default_generator.manual_seed(job.seed)
                    layer = Projection(encoder.dim, size, bias=True, activation=IDENTITY)
                encoder.projections.append(layer)
        return encoder

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        super().check(job, matches)
        if not 0 <= (center := cls.settings(job).center) <= 1:
            raise UserError(f"model.center={center}: expected a share from 0 (nothing is taken off) to 1")

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        super().check_start(job)
        own = cls.settings(job)
        if own.projection != "pca":
            return
        student = job.init_from or job.backbone.path
        sizes = embedding_size(student, revision=job.backbone.revision), _size_of_teacher(own)
        if sizes[0] > sizes[1]:
            raise UserError(
                f"model.projection=pca: {student} gives {sizes[0]} numbers and the teacher {sizes[1]}, to which no "
                "component can be added; type model.projection=drop or keep"
            )

    def targets(self, found: Mapping[str, tuple[Vectors, np.ndarray]]) -> Targets:
        dim = self.encoder.dim if self._own.projection == "pca" else None
        targets = Targets(found, center=self._own.center, dim=dim)
        if targets.is_reduced:
            targets.turn(self._given({name: numbers for name, (_, numbers) in found.items()}))
        return targets

    def encode(self, batch: Batch) -> Encoded:
        """Of a taught batch, one row per sentence of each of its rows; of another, as the bi-encoder."""
        if batch.teacher is None:
            return super().encode(batch)
        embeddings = self.encoder(batch.tokens)
        self.watch(embeddings, are_embeddings=True)
        places = torch.cat(list(batch.columns.values()))
        student = embeddings[places]
        return Encoded(
            kind=Kind.SENTENCE,
            embeddings={"text": student},
            text_ids={"text": batch.sentence_ids[places]},
            scores=None,
            targets=None,
            teacher=batch.teacher.repeat(len(batch.columns), 1),
            projected=student if self.projection is None else self.projection(student).float(),
        )

    def _given(self, read: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """What the student gives of some of the sentences that the teacher has read, set by set, before it learns."""
        step = max(sum(map(len, read.values())) // TURNED_BY, 1)
        for one in self.trainer.datamodule.train.values():
            some = read[one.name][::step]
            texts = [one.sentences[number] for number in some]
            yield one.name, some, self.encoder.encode(texts, progress=False)


class DistillTranslations(Distill):
    """A teacher reads the anchor of a pair, and the student shall give its vector for the anchor and for the positive.

    With translations as pairs, a student learns a language that its teacher does not know (as Distill, section 2).
    """

    input_kind = Kind.POSITIVE_PAIR


def _size_of_teacher(own: Distill.Settings) -> int:
    return embedding_size(own.teacher, revision=own.teacher_revision)
