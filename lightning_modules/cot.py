"""A bi-encoder that reads sentences through templates and learns from text alone: two stages, or one."""

import logging
from collections.abc import Mapping
from pathlib import Path

import torch

from conf.job import JobConfig
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.text import counted
from juzhen.encoders.backbone import evaluating
from juzhen.encoders.preflight import prompt_at_start
from juzhen.encoders.prompts import TEMPLATES, Templates, refuse_prompt
from juzhen.encoders.sentence_encoder import PromptEncoder
from juzhen.losses.loss import LossOutput
from juzhen.metrics.geometry import mean_cosine
from juzhen.models.settings import CotEncoderSettings, name_of
from lightning_modules.biencoder import BiEncoder
from lightning_modules.loss_factory import Match, declared_loss

log = logging.getLogger(__name__)

SAME = 0.9999
"""Mean cosine of the states at [MASK] above which they are the same for all sentences, but for rounding."""

SENTENCES = (
    "今天天气很好。",
    "怎么修改绑定的手机号？",
    "两个孩子在公园里踢足球。",
    "The committee rejected the proposal on Monday.",
    "A man is playing the guitar.",
    "How do I reset my password?",
)
"""Sentences that no encoder should take for the same."""

WAY_OUT = (
    "Train it first: python train.py model=mlm 'dataset=[…]' …, then add init_from=<that run> here; or choose a "
    "pretrained backbone, such as backbone=bert_zh"
)


class CotEncoder(BiEncoder):
    """Trains a sentence in the anchor's template to match the positive's template and not the negative's.

    Hyperparameters and templates are those of `Templates`. Any set can be used. A set of pairs contributes
    its sentences. Evaluation and the saved encoder represent a sentence by the anchor's template, with the
    function that was trained. Only run names use `variant`.

    A [MASK] that attends to nothing of its sentence learns nothing, so it is refused. A [MASK] that was never
    pretrained on hidden tokens learns slowly. It is refused unless `untrained_mask` is true.
    """

    Settings = CotEncoderSettings

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        super().check(job, matches)
        if not job.dataset:
            return  # templates are those of the folder, where it has some
        views = Templates.of(job.model).views
        for loss in (match.loss for match in matches.values()):
            if "positive" not in views:
                raise UserError(
                    f"model.templates.{job.model['language']}.positive: training needs a template for the positive"
                )
            if "negative" in views and Kind.TRIPLET not in declared_loss(loss).input_kinds:
                raise UserError(
                    f"loss={name_of(loss)}: a sentence with a negative template is a triplet, which "
                    "this loss does not take. Choose loss=info_nce_pool, or model.use_negative=false"
                )

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        super().check_start(job)
        refuse_prompt(TEMPLATES, prompt_at_start(job.backbone, start=job.init_from))
        if job.dataset and job.model["read"] != "pooling":
            _require_trained_mask(job)
            _tell_of_other_languages(job)

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> PromptEncoder:
        """Load the backbone of a run, of `init_from` or of the job, with the templates of this job.

        A job without training uses the templates saved in the folder.

        Args:
            job: Names the start. Its `model` has the templates.
            folder: Encoder folder of the stage before, or of a finished run. None: the start of the job.

        Returns:
            The encoder. It reads a sentence through the anchor's template.

        Raises:
            UserError: [MASK] attends to nothing of its sentence.
        """
        encoder = BiEncoder.load_encoder(job, folder=folder)
        if not job.dataset and encoder.templates is not None:
            if job.model["language"] is not None and Templates.of(job.model) != encoder.templates:
                log.warning(
                    "%s: sentences are read through the templates that it was saved with",
                    job.init_from or job.backbone.path,
                )
            return encoder
        encoder = PromptEncoder.around(encoder, Templates.of(job.model)).train()
        if job.dataset and folder is None:
            require_sight(encoder, job.init_from or job.backbone.path)
        return encoder

    def objective(self, batch: Batch) -> LossOutput:
        loss, logs = super().objective(batch)
        if self.encoder.norm_ratio is not None:
            logs = logs | {"injected_norm_ratio": self.encoder.norm_ratio}
        return loss, logs


def _tell_of_other_languages(job: JobConfig) -> None:
    """Warn that sentences of any language are read through the trained templates."""
    language = job.model["language"]
    names = [name for name, dataset in job.evaluate.items() if dataset.language != language]
    if names:
        log.warning(
            "model.language=%s: %s %s in another language, and read through the same templates",
            language,
            ", ".join(names),
            "is" if len(names) == 1 else "are",
        )


def _require_trained_mask(job: JobConfig) -> None:
    """Raise UserError if the job alone shows that [MASK] is untrained in its start. Loads no weights."""
    name = job.model["variant"]
    is_random = job.init_from is None and job.backbone.initialize == "random"
    if is_random and not job.model.get("untrained_mask"):
        raise UserError(
            f"model={name} reads a sentence at [MASK], and with backbone.initialize=random [MASK] has learnt nothing. "
            f"{WAY_OUT}. To learn from random weights all the same: model.untrained_mask=true"
        )


@torch.no_grad()
def require_sight(encoder: PromptEncoder, start: str) -> None:
    """Check that the state at [MASK] of the anchor's template depends on the sentence.

    Args:
        encoder: It encodes `SENTENCES`. An encoder that reads the pooled state passes.
        start: Run, folder or hub id for the message.

    Raises:
        UserError: The mean cosine of the states is above `SAME`.
    """
    if encoder.templates.read == "pooling":
        return
    with evaluating(encoder):
        states = encoder.stage_1(encoder.collate(encoder.tokenize(SENTENCES)))
    cosine = mean_cosine(states.numpy())
    if cosine > SAME:
        raise UserError(
            f"{start}: the state at [MASK] is the same whatever the sentence (mean cosine {cosine:.5f} of "
            f"{counted(len(SENTENCES), 'sentences')}), so there is nothing to learn from. {WAY_OUT}"
        )
