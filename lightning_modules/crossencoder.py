"""The cross-encoder: both sentences in one input, a head over [CLS] or the mean as similarity."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from conf.job import JobConfig
from juzhen.backends.names import BackendName
from juzhen.core.batch import Batch, constants, without_missing
from juzhen.core.errors import UserError, require_number
from juzhen.core.examples import Kind
from juzhen.core.kinds import text_roles
from juzhen.encoders import load_backbone, load_encoder
from juzhen.encoders.cross_encoder import SEGMENTS_UNKNOWN, CrossEncoder
from juzhen.encoders.preflight import marks_segments, prompt_at_start
from juzhen.encoders.projection import similarity
from juzhen.encoders.prompts import JOINT, refuse_prompt
from juzhen.encoders.resolve_path import is_cross_encoder
from juzhen.evaluation.evaluators import PairEvaluator, pair_logits
from juzhen.families.registry import family_of
from juzhen.models.settings import CrossEncoderModuleSettings
from lightning_modules.base import SentenceModule
from lightning_modules.biencoder import augmentation_of, fitted
from lightning_modules.loss_factory import Match, chosen_losses, class_grades, declared_loss
from lightning_modules.starts import require_start

log = logging.getLogger(__name__)


def require_no_embeddings(job: JobConfig, model: str) -> None:
    """Check that a job has no embedding options, since its model has no embeddings.

    Args:
        job: `backbone.layer_norm`, `evaluation.backend` and `evaluation.cache_embeddings` are read.
        model: Name for the message, with its article.

    Raises:
        UserError: One of these options is set.
    """
    for key, is_set in {
        "backbone.layer_norm": job.backbone.layer_norm,
        "evaluation.backend": job.evaluation.backend != BackendName.TORCH,
        "evaluation.cache_embeddings": job.evaluation.cache_embeddings,
    }.items():
        if is_set:
            raise UserError(f"{key} is for embeddings, and {model} has none. Leave it out")


class CrossEncoderModule(SentenceModule):
    """Scores a pair by a head over the joint input.

    (Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 4.1) The head has one node per class if a
    loss consumes class logits, else one node. `similarity` turns either into one number. CoSENT is trained on
    it (Su 2022, https://kexue.fm/archives/9341), and evaluation scores sets by it.

    Args:
        encoder: Result of `load_encoder`. It has the settings below.
        pooling: cls or mean: pooling of the joint input before the head. None: the setting of the folder,
            else cls.
        segments: Mark the second sentence's tokens. None: the setting of the folder, else the tokenizer's
            default.
        symmetric: Scores are the mean of (a, b) and (b, a). None: the setting of the folder, else false.
        symmetric_training: The loss consumes this mean, too.
        head_dropout: Dropout before the head in training. None: the dropout of the transformer's layers.
    """

    Settings = CrossEncoderModuleSettings

    def __init__(self, *, encoder: CrossEncoder, **shared: Any) -> None:
        super().__init__(**shared)
        self.encoder = encoder
        self.collate = family_of(encoder).collate(
            encoder,
            fitted(encoder.inner, self.job),
            both_in_training=self.settings(self.job).symmetric_training,
            augmentation=augmentation_of(self.job, encoder.inner),
            drawn={
                name: loss.num_drawn for name, loss in self.losses.items() if loss.input_type == "drawn_lists"
            },
            seed=self.job.seed,
        )

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        require_no_embeddings(job, "a cross-encoder")
        require_number(
            "model.head_dropout", job.model.get("head_dropout"), 0, 1, open_high=True, optional=True
        )
        _class_grades(job, matches)
        cls._require_order(job)

    @classmethod
    def _require_order(cls, job: JobConfig) -> None:
        """Raise UserError for a set whose sides would be exchanged. The plan checks the rows themselves."""
        symmetric, start = job.model["symmetric"], job.init_from
        if symmetric is None and start and is_cross_encoder(start):
            symmetric = CrossEncoder.saved_as_symmetric(start)
        groups = {"dataset": job.dataset} if symmetric or job.model["symmetric_training"] else {}
        for group, sets in (groups | ({"evaluate": job.evaluate} if symmetric else {})).items():
            for name, config in sets.items():
                if sides := text_roles(Kind(config.kind), config.symmetric):
                    key = "model.symmetric" if symmetric else "model.symmetric_training"
                    where = (
                        "" if job.model["symmetric"] is not None or not symmetric else f", as {start} says"
                    )
                    out = (
                        f"; or leave the set out, ~evaluate.{name} or benchmark=none"
                        if group == "evaluate"
                        else ""
                    )
                    raise UserError(
                        f"{key}=true{where}: {group}.{name}: {sides} cannot be exchanged. "
                        f"Type {key}=false{out}"
                    )

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        require_start(job.init_from, "crossencoder")
        refuse_prompt(JOINT, prompt_at_start(job.backbone, start=job.init_from))
        if job.model["segments"] and not marks_segments(job.backbone, start=job.init_from):
            raise UserError(SEGMENTS_UNKNOWN)

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> CrossEncoder:
        """Load the cross-encoder that a stage trains. A missing head is created.

        The head is also new if a loss consumes class logits and the number of nodes or their grades differ.

        Args:
            job: Names the start. Its losses decide the nodes of the head.
            folder: Encoder folder of the stage before, or of a finished run. None: the start of the job.

        Returns:
            The cross-encoder, with the settings of `job.model`. A None there keeps the value of the start.

        Raises:
            UserError: Sets that need different heads.
        """
        start, model = folder or job.init_from, job.model
        grades = _class_grades(job, chosen_losses(job))
        saved = CrossEncoder.load(start).train() if start and is_cross_encoder(start) else None
        if saved is not None and grades in (None, saved.grades):
            encoder = saved
        elif saved is not None and grades is not None:
            log.info(
                "%s: a head of %d nodes instead of %d is trained anew%s",
                *(start, len(grades), saved.outputs),
                ", of other grades" if len(grades) == saved.outputs else "",
            )
            encoder = saved.with_head(grades, seed=job.seed)
        else:
            inner = load_encoder(start) if start else load_backbone(job.backbone, seed=job.seed)
            inner.pooling = "cls"
            new = {"outputs": len(grades or (1,)), "grades": grades}
            encoder = CrossEncoder(inner, **new, segments=True, symmetric=False, seed=job.seed)
        settings = {name: model[name] for name in ("pooling", "segments", "symmetric")}
        encoder.set(**settings, head_dropout=model.get("head_dropout"))
        return encoder

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        logits = pair_logits(self.encoder, batch)
        scores = similarity(logits, self.encoder.grades)
        reads_logits = batch.task in self.losses and self.losses[batch.task].input_type == "logits"
        are_grades = reads_logits and batch.kind is Kind.SCORED_PAIR
        self.watch(logits if reads_logits else scores, are_embeddings=False)
        are_lists = len(scores) > len(batch)  # the documents of a row stand one batch apart
        if are_lists:
            tensors = batch.tensors | {"document_scores": scores.view(-1, len(batch)).T}
            return without_missing(tensors, batch.tensors.get("missing"))
        tensors = batch.tensors | {"scores": scores, "logits": logits}
        return tensors | ({"classes": self._class_numbers(tensors["targets"])} if are_grades else {})

    def _class_numbers(self, targets: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """Convert scores from 0 to 1 into class numbers of their grades."""
        grades = constants(self.encoder.grades, like=targets)
        return (targets[:, None] - grades).abs().argmin(dim=1).to(targets.dtype)

    @property
    def validates_as_tested(self) -> bool:
        return True

    @property
    def evaluator(self) -> PairEvaluator:
        return family_of(self.encoder).evaluator(self.encoder)


def _class_grades(job: JobConfig, matches: Mapping[str, Match]) -> tuple[float, ...] | None:
    """Return a grade for each node of the head that the losses need. None if losses read scores only.

    Raises UserError if losses need different heads, and for graded pairs without `grades`.
    """
    needed = {
        name: class_grades(job.dataset[name], match.kind)
        for name, match in matches.items()
        if declared_loss(match.loss).input_type == "logits"
    }
    if len(set(needed.values())) > 1:
        listing = ", ".join(f"{name} {len(grades)}" for name, grades in needed.items())
        raise UserError(
            f"model=crossencoder has one head, and these sets need different classes: {listing}. Train them one after "
            "another (init_from=<run>), or choose a loss of scores such as loss=cosent"
        )
    return next(iter(needed.values()), None)
