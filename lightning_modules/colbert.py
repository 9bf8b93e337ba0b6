"""ColBERT: a vector for each token of a query and of a document, and the mean of the nearest ones as similarity."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from conf.job import JobConfig
from juzhen.core.batch import Batch, text_tensors, without_missing
from juzhen.core.errors import UserError, require_number
from juzhen.encoders.components import num_positions
from juzhen.families.late import ColBERTSettings
from juzhen.families.late.encoder import MultiVectorEncoder, is_multi_vector
from juzhen.families.late.family import MaxSimEvaluator
from juzhen.families.late.folder import DOCUMENT_LENGTH, PUNCTUATION, QUERY_LENGTH, MultiVectorSettings
from juzhen.families.registry import family_of
from lightning_modules.base import SentenceModule
from lightning_modules.biencoder import fitted
from lightning_modules.loss_factory import Match
from lightning_modules.starts import put_adapter, require_mergeable, require_start, start_without_adapter

DIM = 128
"""Numbers of a token vector, as ColBERT has them."""

OF_PLACES = {"anchors": 1, "first": 1, "positives": 1, "second": 1, "negatives": 2}
"""Tensor of token vectors → its axis of tokens."""


class ColBERT(SentenceModule):
    """Scores a query and a document by MaxSim (Khattab and Zaharia 2020, https://arxiv.org/abs/2004.12832).

    The first text of a row is the query, the others are documents. Losses read the mean over the tokens of
    the query, from −1 to 1. A None takes the value of the start folder, else the value in
    conf/model/colbert.yaml.

    Args:
        encoder: Result of `load_encoder`. It has the settings below.
        dim: Dimension of a token vector.
        query_length: Number of tokens to which a query is truncated and padded.
        expansion: Pad queries with [MASK].
        expansion_attends: Other tokens attend to the padding, too.
        skip_punctuation: Do not score punctuation of documents.
        markers: Tokens [Q] and [D] before the texts of a new model whose backbone has no prompts.
    """

    Settings = ColBERTSettings

    def __init__(self, *, encoder: MultiVectorEncoder, **shared: Any) -> None:
        super().__init__(**shared)
        self.encoder = encoder
        family = family_of(encoder)
        self.collate = family.collate(encoder, fitted(encoder, self.job), sharing=self.sharing)  # type: ignore[arg-type]
        self._evaluator = family.evaluator(encoder)

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        if job.augmentation.views:
            raise UserError(
                f"augmentation.views={list(job.augmentation.views)}: model=colbert scores each token, and changes of "
                "sentences move them. Leave augmentation out"
            )
        require_number("model.dim", cls.settings(job).dim, 1, LARGEST_DIM, optional=True)
        require_mergeable(job, "colbert")

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        require_start(job.init_from, "colbert")

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> MultiVectorEncoder:
        """Load the ColBERT that a stage trains. Any other encoder of sentences gets a new layer.

        Args:
            job: Names the start. Its `model` has the settings of a new layer.
            folder: Encoder folder of the stage before, or of a finished run. None: the start of the job.

        Returns:
            The encoder, with a new adapter if the job has one.

        Raises:
            UserError: The start is a ColBERT with other settings than those of the job.
        """
        settings, start = ColBERT.settings(job), folder or job.init_from
        found = start or job.backbone.path
        if is_multi_vector(found):
            encoder = MultiVectorEncoder.load(found).train()
            if other := _other_settings(settings, encoder):
                raise UserError(
                    f"model.{other[0]}: {found} is a ColBERT that was made otherwise. Leave it out"
                )
            return put_adapter(encoder, job)
        inner = start_without_adapter(job, start)
        encoder = MultiVectorEncoder.around(
            inner,
            dim=DIM if settings.dim is None else settings.dim,
            reading=_reading(settings, inner),
            markers=settings.markers,
            seed=job.seed,
        )
        return put_adapter(encoder.train(), job)

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        vectors = self.encoder(batch.tokens)
        self.watch(vectors, are_embeddings=False)
        anchors, *documents = (vectors[rows] for rows in batch.columns.values())
        anchors = anchors[:, : self.encoder.rules.query_length]  # the longest text of the batch is a document
        tensors = batch.tensors | text_tensors([anchors, *documents])
        tensors["text_ids"] = torch.stack(
            [batch.sentence_ids[rows] for rows in batch.columns.values()], dim=1
        )
        if documents:
            tensors["scores"] = self.encoder.pair_scores(anchors, documents[0])
        if "document_scores" in (self.losses[batch.task].inputs if batch.task in self.losses else ()):
            scores = [self.encoder.pair_scores(anchors, text) for text in documents]
            tensors["document_scores"] = torch.stack(scores, dim=1)
        return without_missing(tensors, batch.tensors.get("missing"))

    def whole_batch(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Gather as all models do, after padding the token axis to the same length in all processes.

        Args:
            tensors: Name → rows of this process. Those of `OF_PLACES` have an axis of tokens.

        Returns:
            Name → rows of all processes.
        """
        if self._trainer is not None and self._trainer.world_size > 1:
            for name in OF_PLACES.keys() & tensors.keys():
                axis, texts = OF_PLACES[name], tensors[name]
                lengths = self.all_gather(torch.tensor(texts.shape[axis], device=texts.device))
                tensors = tensors | {name: F.pad(texts, (0, 0, 0, int(lengths.max()) - texts.shape[axis]))}
        return super().whole_batch(tensors)

    @property
    def evaluator(self) -> MaxSimEvaluator:
        return self._evaluator  # type: ignore[return-value]


LARGEST_DIM = 4096
"""Numbers of a token vector, at most. Published models have 32 to 768."""


def _reading(settings: ColBERTSettings, inner: Any) -> MultiVectorSettings:
    """Settings of a new encoder. Documents are as long as in the base encoder, at most 180 tokens."""
    most = num_positions(inner.backbone) or DOCUMENT_LENGTH
    length = min(QUERY_LENGTH, most) if settings.query_length is None else settings.query_length
    return MultiVectorSettings(
        query_length=length,
        document_length=min(inner.max_length, DOCUMENT_LENGTH, most),
        expand_to=0 if settings.expansion is False or inner.tokenizer.mask_token is None else length,
        attends=bool(settings.expansion_attends),
        skipped=() if settings.skip_punctuation is False else PUNCTUATION,
    )


def _other_settings(settings: ColBERTSettings, encoder: MultiVectorEncoder) -> list[str]:
    """Return the keys of the model that differ from an existing encoder."""
    rules = encoder.rules
    present = {
        "dim": encoder.dim,
        "query_length": rules.query_length,
        "expansion": bool(rules.expand_to),
        "expansion_attends": rules.attends,
        "skip_punctuation": bool(rules.skipped),
    }
    other = [key for key, value in present.items() if getattr(settings, key) not in (None, value)]
    return other + (["markers"] if not settings.markers and encoder.prompts.texts else [])
