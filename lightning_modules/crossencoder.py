"""The cross-encoder: both sentences in one input, a head over [CLS] or the mean as similarity."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor

from conf.job import BackendName, JobConfig
from conf.own_classes import own_class
from juzhen.core.batch import Batch, Encoded
from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import NLI_CLASSES, Examples, Kind
from juzhen.core.measures import UNSCORED
from juzhen.core.result import Score
from juzhen.data.gold import NUM_CLASSES
from juzhen.data.transfer import TransferTask
from juzhen.encoders import compile_layers, load_backbone, load_encoder
from juzhen.encoders.joint import PAIR, JointCollator
from juzhen.encoders.joint_bundle import load_joint_encoder, save_joint_encoder
from juzhen.encoders.joint_encoder import JointEncoder, similarity
from juzhen.encoders.locate import is_joint
from juzhen.encoders.token_cache import CachedTokenizer
from juzhen.metrics.classes import score_classes
from lightning_modules.augment import augmentation_of
from lightning_modules.base import SentenceModule
from lightning_modules.chosen_losses import chosen_losses
from lightning_modules.joint_plan import JointPlan
from lightning_modules.scoring import NOTHING

log = logging.getLogger(__name__)

Losses = Mapping[str, tuple[Kind, Mapping[str, Any]]]


class CrossEncoder(SentenceModule):
    """Scores a pair by a head over the joint input (Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 4.1).

    The head has one node per class where a loss reads class logits, else one node; `similarity` makes one number
    of either, on which CoSENT is trained (Su 2022, https://kexue.fm/archives/9341) and by which sets are scored.

    pooling             cls or mean: what of the joint input the head sees; None: what the folder says, else cls
    segments            the second sentence's tokens are marked; None: what the folder says, else true
    symmetric           scores are the mean of (a, b) and (b, a); None: what the folder says, else false
    symmetric_training  so is what the loss reads
    head_dropout        share of what the head sees that is dropped in training; None: as in the transformer's layers
    """

    offers = ("scores", "logits")
    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED | {
        Kind.LABELLED_TEXT: "classes are told apart on embeddings, and a cross-encoder has none"
    }

    def __init__(
        self,
        *,
        encoder: JointEncoder,
        pooling: str | None,
        segments: bool | None,
        symmetric: bool | None,
        symmetric_training: bool,
        head_dropout: float | None = None,  # runs of before have none
        **shared: object,
    ) -> None:
        super().__init__(**shared)
        self.encoder = encoder
        encoder.inner.piece_tokens = self.job.hardware.train_piece_tokens
        if self.job.hardware.compile:
            compile_layers(encoder.backbone)
        tokenize = CachedTokenizer(
            encoder.inner,
            self.job.cache_dir,
            progress=self.job.logger.progress and rank_zero_only.rank == 0,
        )
        self.collate = JointCollator(
            tokenize,
            join=encoder.join,
            room=encoder.room,
            both_in_training=symmetric_training,
            both_in_evaluation=encoder.symmetric,
            augmentation=augmentation_of(self.job, encoder.inner),
        )

    @classmethod
    def check(cls, job: JobConfig, losses: Losses) -> None:
        pooling = job.model["pooling"]
        if pooling is not None and pooling not in JointEncoder.poolings:
            raise UserError(
                f"model.pooling={pooling} is not an option; {nearest(str(pooling), JointEncoder.poolings)}"
            )
        dropout = job.model.get("head_dropout")
        if dropout is not None and not 0 <= dropout < 1:
            raise UserError(f"model.head_dropout={dropout}: expected a share from 0 to below 1, or null")
        if job.backbone.layer_norm:
            raise UserError(
                "backbone.layer_norm=true is for embeddings, and a cross-encoder has none: leave it at null"
            )
        if job.evaluation.backend != BackendName.TORCH or job.evaluation.cache_embeddings:
            raise UserError(
                "evaluation.backend and evaluation.cache_embeddings are for embeddings, and a cross-encoder has none: "
                "leave them at torch and false"
            )
        num_outputs(losses)
        directed = [name for name, (kind, _) in losses.items() if kind is Kind.NLI_PAIR]
        if directed and (job.model["symmetric"] or job.model["symmetric_training"]):
            raise UserError(
                f"model.symmetric: {directed[0]} has NLI pairs, whose premise and hypothesis cannot be exchanged; "
                "leave model.symmetric and model.symmetric_training at false"
            )

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> JointEncoder:
        """The cross-encoder in `folder`, or the one a job starts from: any encoder, with a new head if it has none.

        The head is new, too, where a loss reads class logits and the head gives another number of them.
        """
        start, model = folder or job.init_from, job.model
        outputs = num_outputs({name: (match.kind, match.loss) for name, match in chosen_losses(job).items()})
        saved = load_joint_encoder(start) if start and is_joint(start) else None
        if saved is not None and outputs in (None, saved.outputs):
            encoder = saved
        elif saved is not None:
            log.info("%s: a head of %d nodes instead of %d is trained anew", start, outputs, saved.outputs)
            encoder = saved.with_head(outputs, seed=job.seed)
        else:
            inner = load_encoder(start) if start else load_backbone(job.backbone, seed=job.seed)
            inner.pooling = "cls"
            encoder = JointEncoder(inner, outputs=outputs or 1, segments=True, symmetric=False, seed=job.seed)
        encoder.set(
            pooling=model["pooling"],
            segments=model["segments"],
            symmetric=model["symmetric"],
            head_dropout=model.get("head_dropout"),
        )
        return encoder

    @staticmethod
    def save_encoder(encoder: JointEncoder, folder: Path, *, card: dict[str, Any]) -> Path:
        return save_joint_encoder(encoder, folder, card=card)

    def encode(self, batch: Batch) -> Encoded:
        logits = self._logits(batch)
        scores = similarity(logits)
        reads_logits = batch.task in self.losses and self.losses[batch.task].reads == "logits"
        self.watch(logits if reads_logits else scores, are_embeddings=False)
        return Encoded(
            kind=batch.kind,
            embeddings={},
            text_ids={PAIR: batch.rows},
            scores=scores,
            targets=batch.targets,
            logits=logits if logits.shape[1] > 1 else None,
        )

    def _logits(self, batch: Batch) -> Float[Tensor, "batch outputs"]:
        """The mean over the orders in which the batch holds each pair."""
        every = self.encoder(batch.tokens)
        return torch.stack([every[rows] for rows in batch.columns.values()]).mean(dim=0)

    def output(self, batch: Batch) -> Float[Tensor, "batch outputs"]:
        """The score of each pair, then its class logits where the head has classes."""
        if batch.task == NOTHING.name:
            return torch.zeros(len(batch), 1)
        logits = self._logits(batch)
        scores = similarity(logits).unsqueeze(1)
        return torch.cat([scores, logits], dim=1) if logits.shape[1] > 1 else scores

    def plan(self, sets: Sequence[Examples], tasks: Sequence[TransferTask] = ()) -> JointPlan:
        return JointPlan(sets)

    def evaluated(self, plan: JointPlan, outputs: np.ndarray, *, bootstrap_samples: int) -> dict[str, Score]:
        found = super().evaluated(plan, outputs, bootstrap_samples=bootstrap_samples)
        for one, logits in zip(plan.sets, plan.logits(outputs), strict=True):
            if one.kind is Kind.NLI_PAIR and logits.shape[1] == len(NLI_CLASSES):
                classes = score_classes(logits, one)
                found |= {f"{one.split}/{one.name}/{metric}": score for metric, score in classes.items()}
        return found


def num_outputs(losses: Losses) -> int | None:
    """Nodes of the head that the losses need; None where any head will do, since only scores are read.

    Raises UserError where they need heads of different sizes.
    """
    needed = {
        name: NUM_CLASSES[kind]
        for name, (kind, loss) in losses.items()
        if own_class(loss["_target_"]).reads == "logits"
    }
    if len(set(needed.values())) > 1:
        spoken = ", ".join(f"{name} {count}" for name, count in needed.items())
        raise UserError(
            f"model=crossencoder has one head, and these sets need different numbers of classes: {spoken}. Train them "
            "one after another (init_from=<run>), or choose a loss of scores such as loss=cosent"
        )
    return next(iter(needed.values()), None)
