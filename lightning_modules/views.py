"""A bi-encoder that learns from text alone: a sentence and a changed form of it are a pair."""

from collections.abc import Mapping, Sequence
from typing import Any

from pytorch_lightning.utilities import rank_zero_only

from conf.job import JobConfig
from juzhen.core.examples import Kind
from juzhen.encoders.token_cache import CachedTokenizer
from juzhen.encoders.views import Views
from juzhen.encoders.views_collate import ViewCollator
from juzhen.encoders.views_text import TextViews
from lightning_modules.augment import changes_of
from lightning_modules.biencoder import BiEncoder


class ViewEncoder(BiEncoder):
    """A sentence shall find its changed form among those of other sentences.

    Numbers are those of juzhen.encoders.views.Views. Any set can be learnt from: of pairs, their sentences are. Both forms
    are encoded apart, each with a dropout mask of its own: without any views this is unsupervised SimCSE (Gao et al.
    2021, https://arxiv.org/abs/2104.08821). Evaluation is that of the bi-encoder: sentences as they are.
    """

    reads = Kind.SENTENCE
    gives = Kind.POSITIVE_PAIR

    def __init__(
        self,
        *,
        views: Sequence[str],
        changes_anchor: bool,
        delete: float,
        repeat: float,
        cutoff: float,
        shuffle: int,
        synonym: float,
        translations: str | None,
        **shared: object,
    ) -> None:
        super().__init__(**shared)
        chosen, encoder = Views.of(self.job.model), self.encoder
        tokenize = CachedTokenizer(
            encoder,
            self.job.cache_dir,
            progress=self.job.logger.progress and rank_zero_only.rank == 0,
        )
        self.collate = ViewCollator(
            tokenize,
            encoder.collate,
            changes=changes_of(chosen, encoder),
            changes_anchor=changes_anchor,
            seed=self.job.seed,
        )

    @classmethod
    def check(cls, job: JobConfig, losses: Mapping[str, tuple[Kind, Mapping[str, Any]]]) -> None:
        super().check(job, losses)
        TextViews(Views.of(job.model))  # a file of translations is read here, before any data
