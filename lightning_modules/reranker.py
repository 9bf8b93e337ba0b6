"""A generative reranker: a language model's answer about a query and a document is their score."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conf.job import JobConfig
from juzhen.core.errors import UserError
from juzhen.encoders import load_backbone, load_encoder
from juzhen.encoders.layout import gives_answers
from juzhen.encoders.preflight import prompt_at_start
from juzhen.encoders.prompts import JOINT, refuse_prompt
from juzhen.encoders.resolve_path import download, encoder_folder, locate_folder
from juzhen.families.answers import RerankerModuleSettings
from juzhen.families.answers.encoder import READER, GenerativeReranker
from juzhen.families.registry import family_of
from lightning_modules.base import SentenceModule
from lightning_modules.biencoder import fitted
from lightning_modules.crossencoder import CrossEncoderModule, require_no_embeddings
from lightning_modules.loss_factory import Match
from lightning_modules.starts import require_start


class RerankerModule(CrossEncoderModule):
    """Trains logit(yes) − logit(no) after a prompt about a pair, as in `GenerativeReranker`.

    (Nogueira et al. 2020, https://arxiv.org/abs/2003.06713. Zhang et al. 2025,
    https://arxiv.org/abs/2506.05176)

    `true_answer`, `false_answer`, `instruction` and `template` are those of `GenerativeReranker.around`. A
    None takes the setting of the folder.

    Args:
        encoder: Result of `load_encoder`.
    """

    Settings = RerankerModuleSettings

    def __init__(self, *, encoder: GenerativeReranker, **shared: Any) -> None:
        SentenceModule.__init__(self, **shared)
        self.encoder = encoder  # type: ignore[assignment]
        self.collate = family_of(encoder).collate(encoder, fitted(encoder.inner, self.job))

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        require_no_embeddings(job, "a reranker")
        if job.augmentation.views:
            raise UserError(
                f"augmentation.views={list(job.augmentation.views)}: model=reranker reads texts inside of a question, "
                "which changes of sentences would change, too. Leave augmentation out"
            )

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        require_start(job.init_from, "reranker")
        start = job.init_from or job.backbone.path
        folder = encoder_folder(start) if job.init_from else locate_folder(start)
        if folder is not None and gives_answers(folder):
            for key in ("true_answer", "false_answer", "template"):
                if getattr(cls.settings(job), key) is not None:
                    raise UserError(f"model.{key}: {start} is a reranker, and has its own. Leave it out")
        else:
            refuse_prompt(JOINT, prompt_at_start(job.backbone, start=job.init_from))

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> GenerativeReranker:  # type: ignore[override]
        """Load the reranker that a stage trains. Any other decoder gets a new prompt.

        Args:
            job: Names the start. Its `model` has answers, template and instruction of a new prompt.
            folder: Encoder folder of the stage before, or of a finished run. None: the start of the job.

        Returns:
            The reranker. `model.instruction` replaces that of a saved start.
        """
        settings: Any = RerankerModule.settings(job)
        start = folder or job.init_from
        if start and gives_answers(encoder_folder(start)):
            encoder = GenerativeReranker.load(start).train()
        elif start:
            return _around(load_encoder(start), settings)
        else:
            path = job.backbone.path
            start_folder = locate_folder(path) or download(path, job.backbone.revision)
            inner = load_backbone(job.backbone, seed=job.seed, reader=READER)
            if not gives_answers(start_folder):
                return _around(inner, settings)
            is_read = job.backbone.initialize == "pretrained"
            encoder = GenerativeReranker.of_folder(inner, start_folder, has_weights=is_read).train()
        if settings.instruction and folder is None:
            encoder.instruction = settings.instruction
        return encoder


def _around(inner: Any, settings: Any) -> GenerativeReranker:
    names = ("true_answer", "false_answer", "template", "instruction")
    return GenerativeReranker.around(inner, **{name: getattr(settings, name) for name in names}).train()
