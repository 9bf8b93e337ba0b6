"""A bi-encoder that another encoder says something to: the vectors of a teacher for the texts that are learnt from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conf.job import JobConfig
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.embedding_cache import EmbeddingCache, Vectors
from juzhen.encoders.first_look import look_at_encoder
from juzhen.encoders.kept_vectors import KeptVectors, Targets, TaughtCollator
from juzhen.encoders.locate import encoder_source, has_score_head
from juzhen.encoders.spec import BackboneConfig
from lightning_modules.biencoder import BiEncoder
from lightning_modules.chosen_losses import Match


class Taught(BiEncoder):
    """What is shared by models with a teacher: its vectors are computed once per text and lie below `cache_dir`.

    teacher  a run, an encoder's folder, a built-in one or a hub id, and teacher_revision there
    teacher_prompt  what stands before each sentence that it reads; None: what its folder says
    """

    collate: TaughtCollator

    @dataclass(frozen=True, kw_only=True)
    class Settings(BiEncoder.Settings):
        teacher: str
        teacher_revision: str | None
        teacher_prompt: str | None

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        self._own = self.settings(self.job)
        self._kept: KeptVectors | None = None

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        super().check(job, matches)
        if matches and job.cache_dir is None:
            raise UserError(
                "cache_dir=null: the teacher's vectors are kept on the disk, so that they are computed once; type "
                "cache_dir=<a folder>"
            )

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        super().check_start(job)
        own = cls.settings(job)
        if has_score_head(own.teacher):
            raise UserError(
                f"model.teacher={own.teacher}: its pairs are scored by a learnt form uᵀWv, and what is taught here are "
                "embeddings, whose cosine that is not; take a teacher of model.score=cosine, or have `juzhen distil` "
                "write its scores"
            )
        teacher = BackboneConfig(
            path=encoder_source(own.teacher), revision=own.teacher_revision, initialize="pretrained"
        )
        look_at_encoder(teacher)

    def prepare_data(self) -> None:
        """The first process of each node has the teacher encode what it has not encoded before."""
        if self.trainer.training:
            read = self._read()
            texts = [one.sentences[number] for one, numbers in read for number in numbers]
            self._vectors().fill(texts, progress=None if self.job.logger.progress else False)

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit":
            vectors = self._vectors()
            found = {one.name: (vectors.find(one.sentences, places), places) for one, places in self._read()}
            self.collate.targets = self.targets(found)
            self._kept = None  # the teacher's weights have no more to do

    def targets(self, found: Mapping[str, tuple[Vectors, np.ndarray]]) -> Targets:
        """What batches are given of the vectors that were found: by default the vectors, at length 1."""
        return Targets(found, center=0.0, dim=None)

    def _read(self) -> list[tuple[Examples, np.ndarray]]:
        """Each set that is learnt from, and the numbers of its sentences that the teacher reads."""
        sets = self.trainer.datamodule.train.values()
        return [(one, np.unique(self.collate.read(one))) for one in sets]

    def _vectors(self) -> KeptVectors:
        if self._kept is None:
            teacher = SentenceEncoder.load(self._own.teacher, revision=self._own.teacher_revision)
            if self._own.teacher_prompt is not None:
                teacher = teacher.with_prompt(prompt=self._own.teacher_prompt)
            self._kept = KeptVectors(
                teacher.to(self.trainer.strategy.root_device),
                EmbeddingCache(self.job.cache_dir),
                precision=self.job.hardware.precision,
            )
        return self._kept
