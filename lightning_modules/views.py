"""A bi-encoder that learns from text alone: a sentence and a changed form of it are a pair."""

from collections.abc import Mapping
from typing import Any

from conf.job import JobConfig
from juzhen.encoders.augmentation import TextViews, Views
from juzhen.encoders.collate import ViewCollator
from juzhen.models.settings import ViewEncoderSettings
from lightning_modules.biencoder import BiEncoder, changes_of
from lightning_modules.loss_factory import Match


class ViewEncoder(BiEncoder):
    """Trains a sentence to match its changed form among those of other sentences.

    Hyperparameters are those of `Views`. Any set can be used. A set of pairs contributes its sentences. Both
    forms are encoded separately, with different dropout masks. Without any views this is unsupervised SimCSE
    (Gao et al. 2021, https://arxiv.org/abs/2104.08821). Evaluation is that of the bi-encoder, on unchanged
    sentences.
    """

    Settings = ViewEncoderSettings

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        chosen, encoder = Views.of(self.job.model), self.encoder
        self.collate = ViewCollator(
            self.tokenize,
            encoder.collate,
            changes=changes_of(chosen, encoder),
            changes_anchor=self.settings(self.job).changes_anchor,
            seed=self.job.seed,
            sides=self.tokenize,
        )

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        super().check(job, matches)
        TextViews(Views.of(job.model))  # a file of translations is read here, before any data
