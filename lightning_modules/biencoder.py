"""The bi-encoder: both sentences through one encoder, the cosine of the embeddings, or a learnt form, as similarity.

It learns from pairs, or from text alone, when a sentence and a changed form of it are a pair.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxtyping import Float
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor, nn

from conf.job import JobConfig
from juzhen.backends.names import BackendName
from juzhen.core.batch import Batch, row_tensors
from juzhen.core.errors import UserError
from juzhen.core.examples import Side
from juzhen.encoders import (
    SentenceEncoder,
    checkpoint_layers,
    compile_layers,
    load_backbone,
    load_encoder,
)
from juzhen.encoders.augmentation import Augmentation, SentenceChanges, TextViews, TokenViews, Views
from juzhen.encoders.collate import ViewCollator
from juzhen.encoders.components import embedding_size
from juzhen.encoders.projection import BilinearScore
from juzhen.encoders.resolve_path import has_score_head
from juzhen.encoders.tokens import CachedTokenizer
from juzhen.evaluation.encoding_plan import CosinePlan, EmbeddingEvaluator
from juzhen.evaluation.evaluators import embedding_cache_dir
from juzhen.families.registry import family_of
from juzhen.losses.matryoshka import Nested
from juzhen.models.settings import BiEncoderSettings, ViewEncoderSettings, name_of
from lightning_modules.base import SentenceModule
from lightning_modules.loss_factory import Match, build_loss, chosen_losses, declared_loss
from lightning_modules.starts import require_start, tell_of_templates


def fitted(encoder: SentenceEncoder, job: JobConfig) -> CachedTokenizer:
    """Fit an encoder to the hardware of a job.

    Args:
        encoder: It gets `micro_batch_tokens`, compiled layers and gradient checkpointing in place, as configured.
        job: Its `hardware`, `cache_dir` and `logger.progress` are read.

    Returns:
        Its tokenizer. It caches large sets.
    """
    budget = job.hardware.micro_batch_tokens
    encoder.micro_batch_tokens = None if budget == "auto" else budget  # which is found when lengths are known
    if job.hardware.compile:
        compile_layers(encoder.backbone)
    if job.hardware.gradient_checkpointing:
        checkpoint_layers(encoder.backbone)
    progress = job.logger.progress and rank_zero_only.rank == 0
    return CachedTokenizer(encoder, job.cache_dir, progress=progress)


def _changes_of(views: Views, encoder: SentenceEncoder) -> SentenceChanges:
    """Return the text changes that `views` names, for sentences as this encoder reads them."""
    return SentenceChanges(
        encoder.tokenize,
        text_views=TextViews(views),
        token_views=TokenViews(
            views, encoder.tokenizer, max_length=encoder.max_length, prompt=encoder.prompt
        ),
    )


def augmentation_of(job: JobConfig, encoder: SentenceEncoder) -> Augmentation | None:
    """Make the augmentation of training sentences.

    Args:
        job: Its `augmentation` and `seed` are read.
        encoder: Its tokenizers show how a changed sentence is read.

    Returns:
        The augmentation. None without `augmentation.views`.
    """
    config = job.augmentation
    if not config.views:
        return None
    views = Views.of(vars(config), group="augmentation")
    of_sides = {side: _changes_of(views, encoder.reading(side)) for side in Side if encoder.sides[side]}
    return Augmentation(
        _changes_of(views, encoder),
        probability=config.probability,
        sets=config.sets,
        seed=job.seed,
        of_sides=of_sides,
    )


def nested_losses(losses: Iterable[nn.Module]) -> list[Nested]:
    """Return the losses that train several embedding dimensions, also inside of others.

    Args:
        losses: Losses. They may wrap others.

    Returns:
        Every `Nested` loss among them and their parts.
    """
    return [part for loss in losses for part in loss.modules() if isinstance(part, Nested)]


class BiEncoder(SentenceModule):
    """Scores a pair by the cosine of two embeddings.

    (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084) Each distinct sentence of a batch passes
    through the encoder once.

    Args:
        encoder: Backbone and pooling.
        score: cosine, or bilinear: a learnt form of the two embeddings (juzhen.encoders.pooling), which is
            part of the encoder and trained with it. None: the setting of the start folder, else cosine.
    """

    Settings = BiEncoderSettings

    def __init__(self, *, encoder: SentenceEncoder, **shared: Any) -> None:
        super().__init__(**shared)
        self.encoder = encoder
        if self.losses:
            sizes = [set(loss.dims_of(encoder.dim)) for loss in nested_losses(self.losses.values())]
            encoder.nested_dims = set.intersection(*sizes) if sizes else ()
        self.tokenize = fitted(encoder, self.job)
        family = family_of(encoder)
        self.collate = family.collate(
            encoder, self.tokenize, sharing=self.sharing, augmentation=augmentation_of(self.job, encoder)
        )
        evaluation = self.job.evaluation
        self._validating = family.evaluator(encoder)
        self._final = family.evaluator(
            encoder,
            backend=evaluation.backend,
            cache_dir=embedding_cache_dir(evaluation.cache_embeddings, self.job.cache_dir),
            precision=self.job.hardware.precision,
        )

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> SentenceEncoder:
        start = folder or job.init_from
        encoder = load_encoder(start) if start else load_backbone(job.backbone, seed=job.seed)
        score = job.model.get("score")
        if score == "cosine":
            encoder.score_head = None
        elif score == "bilinear" and encoder.score_head is None:
            encoder.score_head = BilinearScore(encoder.dim)
        return encoder

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        score, start = job.model.get("score"), job.init_from or job.backbone.path
        if score == "cosine" or (score is None and not has_score_head(start)):
            return
        where = "model.score=bilinear" if score else f"{start} scores pairs by a bilinear form"
        for name, loss in ((name, match.loss) for name, match in matches.items()):
            if not loss or declared_loss(loss).input_type not in ("scores", "lists"):
                learner = f"loss={name_of(loss)}" if loss else cls.__name__
                raise UserError(
                    f"{where}: {learner} does not read the score of a pair, so {name} would not train the "
                    "form. Choose a loss of scores, as in loss=cosent, or leave the form out: "
                    f"{'' if 'score' in job.model else '+'}model.score=cosine"
                )

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        super().check_start(job)
        require_start(job.init_from, "biencoder")
        if "templates" not in job.model:
            tell_of_templates(job.init_from)
        matches = [match.loss for match in chosen_losses(job).values() if match.loss]
        nested = nested_losses(build_loss(loss, dim=1, num_classes=2) for loss in matches)
        if any(loss.dims for loss in nested):
            full = cls.embedding_size(job)
            for loss in nested:
                try:
                    loss.dims_of(full)
                except UserError as error:
                    raise UserError(f"loss.{error}") from None

    @classmethod
    def embedding_size(cls, job: JobConfig) -> int:
        """Read the dimension of the embeddings that a job learns. Loads no weights.

        Args:
            job: `init_from`, else `backbone`, names the files.

        Returns:
            Numbers of an embedding.
        """
        return embedding_size(job.init_from or job.backbone.path, revision=job.backbone.revision)

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        depths = self.losses[batch.task].depths if batch.task in self.losses else ()
        if not depths:
            return self.encoded(batch, self.encoder(batch.tokens))
        finished = "layer_embeddings" in self.losses[batch.task].inputs
        embeddings, layers = self.encoder.at_depths(batch.tokens, depths, finished=finished)
        for below in (layer for layer in layers if layer is not embeddings):
            self.watch(below, are_embeddings=True)
        return self.encoded(batch, embeddings, layers)

    def encoded(
        self, batch: Batch, embeddings: Float[Tensor, "sentences dim"], layers: Sequence[Tensor] = ()
    ) -> dict[str, Tensor]:
        """Compute the inputs of a loss from the embeddings of the batch's sentences.

        Args:
            batch: Rows, as positions in its sentences.
            embeddings: One vector for each sentence of `batch.tokens`.
            layers: Embeddings of the same sentences at further layers. (): the loss reads the last layer only.

        Returns:
            Name in `juzhen.core.batch.TENSORS` → tensor with one row per example.
        """
        self.watch(embeddings, are_embeddings=True)
        reads = self.losses[batch.task].inputs if batch.task in self.losses else ()
        return row_tensors(batch, embeddings, self.encoder.pair_scores, reads=reads, layers=layers)

    @property
    def scores_by_cosine(self) -> bool:
        return self.encoder.score_head is None

    def setup(self, stage: str) -> None:
        """Choose the backend of evaluation.

        Raises:
            UserError: A backend that cannot evaluate this model.
        """
        plan = self.trainer.datamodule.test_plan
        if not isinstance(plan, CosinePlan):
            chosen = self.job.evaluation.backend
            if plan is not None and chosen != BackendName.TORCH:
                raise UserError(
                    f"evaluation.backend={chosen}: {type(self).__name__} is evaluated by more than embeddings. "
                    "Leave it at torch"
                )
        elif stage == "fit":
            self._final.try_out()
        elif stage == "test":
            is_first, shared = self.trainer.is_global_zero, self.trainer.strategy.broadcast
            self._final.begin(plan, is_first=is_first, shared=shared)

    @property
    def validates_as_tested(self) -> bool:
        evaluation, plan = self.job.evaluation, self.trainer.datamodule.test_plan
        is_plain = evaluation.backend == BackendName.TORCH and not evaluation.cache_embeddings
        return is_plain and isinstance(plan, CosinePlan)

    @property
    def evaluator(self) -> EmbeddingEvaluator:
        """Evaluator with the job's backend and cache. Validation in training uses neither."""
        return self._final if self._trainer is not None and self._trainer.testing else self._validating


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
            changes=_changes_of(chosen, encoder),
            changes_anchor=self.settings(self.job).changes_anchor,
            seed=self.job.seed,
            sides=self.tokenize,
        )

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        super().check(job, matches)
        TextViews(Views.of(job.model))  # a file of translations is read here, before any data
