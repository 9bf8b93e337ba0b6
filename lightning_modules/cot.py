"""A bi-encoder that reads sentences through templates and learns from text alone: two stages, or one."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pytorch_lightning.utilities import rank_zero_only

from conf.job import JobConfig
from conf.own_classes import own_class
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.named import name_of
from juzhen.encoders.first_look import prompt_at_start
from juzhen.encoders.prefix import TEMPLATES, prompt_refused
from juzhen.encoders.prompts import Prompts
from juzhen.encoders.sentence_encoder import PromptEncoder
from juzhen.encoders.text_collate import PromptCollator
from juzhen.encoders.token_table import CachedTokenizer
from juzhen.losses.loss import LossOutput
from lightning_modules.biencoder import BiEncoder
from lightning_modules.mask_sight import require_sight, require_trained_mask, start_of

log = logging.getLogger(__name__)


class CotEncoder(BiEncoder):
    """A sentence in the anchor's template shall find itself in the positive's, and not in the negative's.

    Numbers and templates are those of `Prompts`. Any set can be learnt from: of pairs, their
    sentences are. What stands for a sentence in evaluation, and in the encoder that a run leaves behind, is what the
    anchor's template gives, by the function that was trained. `variant` is read by those who name runs only.

    A [MASK] that sees nothing of its sentence learns nothing, and one that never stood for a hidden token learns
    slowly: the first is refused, the second too unless `untrained_mask` is true.
    """

    input_kind = Kind.SENTENCE
    loss_kind = Kind.POSITIVE_PAIR

    @dataclass(frozen=True, kw_only=True)
    class Settings(BiEncoder.Settings):
        variant: str = ""
        language: str | None
        templates: dict
        use_negative: bool
        read: Literal["last", "mean", "pooling"]
        denoise: Literal["none", "positions", "pads"]
        untrained_mask: bool = False
        end_to_end: bool
        match_norm: bool

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        tokenize = CachedTokenizer(
            self.encoder,
            self.job.cache_dir,
            progress=self.job.logger.progress and rank_zero_only.rank == 0,
        )
        self.collate = PromptCollator(tokenize, self.encoder)

    @classmethod
    def check(cls, job: JobConfig, losses: Mapping[str, tuple[Kind, Mapping[str, Any]]]) -> None:
        super().check(job, losses)
        if not job.dataset:
            return  # templates are those of the folder, where it has some
        views = Prompts.of(job.model).views
        for _, loss in losses.values():
            if "positive" not in views:
                raise UserError(
                    f"model.templates.{job.model['language']}.positive: training needs a template for the positive"
                )
            if "negative" in views and Kind.TRIPLET not in own_class(loss["_target_"]).input_kinds:
                raise UserError(
                    f"loss={name_of(loss)}: a sentence with a negative template is a triplet, which "
                    "this loss does not take; choose loss=info_nce_pool, or model.use_negative=false"
                )

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        if prompt := prompt_at_start(job.backbone, start=job.init_from):
            raise prompt_refused(TEMPLATES, prompt)
        if job.dataset and job.model["read"] != "pooling":
            require_trained_mask(job)
            _tell_of_other_languages(job)

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> PromptEncoder:
        """The backbone of a run, of `init_from` or of the job, read through the templates of this job.

        A job that learns nothing reads through the templates that a folder was saved with. Raises UserError where
        [MASK] sees nothing of the sentence that it is to learn from.
        """
        encoder = BiEncoder.load_encoder(job, folder=folder)
        if not job.dataset and isinstance(encoder, PromptEncoder):
            if job.model["language"] is not None and Prompts.of(job.model) != encoder.prompts:
                log.warning(
                    "%s: sentences are read through the templates that it was saved with", start_of(job)
                )
            return encoder
        encoder = PromptEncoder.around(encoder, Prompts.of(job.model)).train()
        if job.dataset and folder is None:
            require_sight(encoder, start_of(job))
        return encoder

    def objective(self, batch: Batch) -> LossOutput:
        loss, logs = super().objective(batch)
        if self.encoder.norm_ratio is not None:
            logs = logs | {"injected_norm_ratio": self.encoder.norm_ratio}
        return loss, logs


def _tell_of_other_languages(job: JobConfig) -> None:
    """Sentences of any language are read through the templates that are learnt: a person should know."""
    language = job.model["language"]
    others = [name for name, one in job.evaluate.items() if one.language != language]
    if others:
        log.warning(
            "model.language=%s: %s %s in another language, and read through the same templates",
            language,
            ", ".join(others),
            "is" if len(others) == 1 else "are",
        )
