"""SPLADE: a weight for each token of the vocabulary, and the dot product of a query and a document as similarity."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from conf.job import JobConfig
from juzhen.core.batch import Batch, text_tensors, without_missing
from juzhen.core.errors import UserError
from juzhen.families.registry import family_of
from juzhen.families.sparse import SpladeSettings
from juzhen.families.sparse.encoder import SparseEncoder, SparseEvaluator, is_sparse
from juzhen.families.sparse.vectors import ACTIVATIONS, POOLINGS
from juzhen.losses.loss import LossOutput
from juzhen.losses.regularizers import flops, mean_nonzero, warmed_up
from juzhen.models.settings import INNER, name_of
from lightning_modules.base import SentenceModule
from lightning_modules.biencoder import augmentation_of, fitted
from lightning_modules.loss_factory import Match
from lightning_modules.starts import put_adapter, require_mergeable, require_start, start_without_adapter

UNDECIDED_AT_0 = ("bce", "ce_mse", "cosent_bce")
"""Losses that take the sigmoid of a score for a probability. Others say so by their activation."""


class Splade(SentenceModule):
    """Scores a query and a document by the dot product of weights of tokens (Formal et al. 2021).

    (SPLADE v2, https://arxiv.org/abs/2109.10086. The regulariser and its schedule:
    https://arxiv.org/abs/2107.05720, section 3.3)

    The first text of a row is the query, the others are documents. The loss is that of the job plus
    query_flops · FLOPS(queries) + document_flops · FLOPS(documents), over the texts of the whole batch. Both
    weights are multiplied by (step / warm-up)² during warm-up. A None takes the value of the start folder,
    else the value in conf/model/splade.yaml.

    Args:
        encoder: Result of `load_encoder`.
    """

    Settings = SpladeSettings

    def __init__(self, *, encoder: SparseEncoder, **shared: Any) -> None:
        super().__init__(**shared)
        self.encoder = encoder
        self.numbers: SpladeSettings = self.settings(self.job)
        family = family_of(encoder)
        tokenize: Any = fitted(encoder, self.job)  # type: ignore[arg-type]
        augmentation = augmentation_of(self.job, encoder)  # type: ignore[arg-type]
        self.collate = family.collate(encoder, tokenize, sharing=self.sharing, augmentation=augmentation)
        self._evaluator = family.evaluator(encoder)

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        numbers: SpladeSettings = cls.settings(job)
        for name, value, known in (
            ("pooling", numbers.pooling, POOLINGS),
            ("activation", numbers.activation, ACTIVATIONS),
        ):
            if value not in (None, *known):
                raise UserError(f"model.{name}={value}: expected one of {', '.join(known)}")
        for name in ("query_flops", "document_flops", "flops_warmup_percent"):
            value, most = getattr(numbers, name), 100 if name.endswith("percent") else float("inf")
            if not 0 <= value <= most:
                raise UserError(
                    f"model.{name}={value}: expected a number from 0{f' to {most}' if most == 100 else ''}"
                )
        require_mergeable(job, "splade")
        for match in matches.values():
            _require_dot_products(match.loss)

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        require_start(job.init_from, "splade")

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> SparseEncoder:
        """Load the sparse encoder that a stage trains. Any other encoder of sentences gets a new head.

        Args:
            job: Names the start. Its `model` has pooling and activation of a new head.
            folder: Encoder folder of the stage before, or of a finished run. None: the start of the job.

        Returns:
            The encoder, with a new adapter if the job has one.

        Raises:
            UserError: The start was trained with another pooling or activation than the job sets.
        """
        numbers, start = Splade.settings(job), folder or job.init_from
        found = start or job.backbone.path
        if is_sparse(found):
            encoder = SparseEncoder.load(found).train()
            for key, present in (("pooling", encoder.strategy), ("activation", encoder.activation)):
                if getattr(numbers, key) not in (None, present):
                    raise UserError(f"model.{key}: {found} was trained with {present}. Leave it out")
            return put_adapter(encoder, job)
        inner = start_without_adapter(job, start)
        encoder = SparseEncoder.around(
            inner,
            strategy=numbers.pooling or "max",
            activation=numbers.activation or "relu",
            seed=job.seed,
        )
        return put_adapter(encoder.train(), job)

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        vectors = self.encoder(batch.tokens)
        self.watch(vectors, are_embeddings=False)
        # One vector for each text is a text of one token, whose MaxSim is the dot product.
        anchors, *documents = (vectors[rows].unsqueeze(1) for rows in batch.columns.values())
        tensors = batch.tensors | text_tensors([anchors, *documents])
        tensors["text_ids"] = torch.stack(
            [batch.sentence_ids[rows] for rows in batch.columns.values()], dim=1
        )
        scores = [self.encoder.pair_scores(anchors.squeeze(1), text.squeeze(1)) for text in documents]
        if scores:
            tensors["scores"], tensors["document_scores"] = scores[0], torch.stack(scores, dim=1)
        return without_missing(tensors, batch.tensors.get("missing"))

    def loss_of(self, batch: Batch, tensors: Mapping[str, Tensor]) -> LossOutput:
        loss, logs = super().loss_of(batch, tensors)
        queries, documents = self._of_all(tensors)
        of_queries, of_documents = flops(queries), flops(documents)
        share = self._share()
        cost = self.numbers.query_flops * of_queries + self.numbers.document_flops * of_documents
        return loss + share * cost, logs | {
            "flops_queries": of_queries.detach(),
            "flops_documents": of_documents.detach(),
            "flops_weight": torch.tensor(share),
            "nonzero_queries": mean_nonzero(queries),
            "nonzero_documents": mean_nonzero(documents),
        }

    def _share(self) -> float:
        """Share of the regulariser's weights in this step."""
        step = self.trainer.global_step if self._trainer is not None else 0
        return warmed_up(step, round(self.total_steps * self.numbers.flops_warmup_percent / 100))

    def _of_all(
        self, tensors: Mapping[str, Tensor]
    ) -> tuple[Float[Tensor, "some dim"], Float[Tensor, "some dim"]]:
        """Gather the vectors of the queries and of the documents of all processes."""
        names = [name for name in ("anchors", "positives", "negatives") if name in tensors]
        names += ["text_ids"] if "missing" in tensors else []
        rows = self.whole_batch({name: tensors[name] for name in names})
        if (ids := rows.pop("text_ids", None)) is not None:
            rows["negatives"] = rows["negatives"][ids[:, 2:] >= 0]
        queries, *documents = (value.flatten(0, -2) for value in rows.values())
        return queries, torch.cat(documents) if documents else queries

    @property
    def evaluator(self) -> SparseEvaluator:
        return self._evaluator  # type: ignore[return-value]


def _require_dot_products(loss: Mapping[str, Any]) -> None:
    """Raise UserError for a loss that does not suit dot products, which are unbounded and not negative."""
    if loss.get("hardness_strength"):
        raise UserError(
            f"loss={name_of(loss)}: its hardness_strength multiplies cosines, and model=splade scores by unbounded dot "
            "products. Type loss=info_nce"
        )
    if name_of(loss) in UNDECIDED_AT_0 or loss.get("activation") == "sigmoid":
        raise UserError(
            f"loss={name_of(loss)}: 0 is undecided to it, and dot products of model=splade are never below 0. Type "
            "loss=cosent, or for pairs that belong together loss=info_nce"
        )
    if INNER in loss:
        _require_dot_products(loss[INNER])
