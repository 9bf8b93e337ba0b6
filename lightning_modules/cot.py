"""A bi-encoder that reads sentences through templates and learns from text alone: two stages, or one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from hydra.utils import get_class
from pytorch_lightning.utilities import rank_zero_only

from encoders.prompt_collate import PromptCollator
from encoders.prompt_encoder import PromptEncoder
from encoders.token_cache import CachedTokenizer
from lightning_modules.biencoder import BiEncoder
from losses.loss import LossOutput
from schema.batch import Batch
from schema.config import JobConfig
from schema.errors import UserError
from schema.examples import Kind
from schema.prompts import Prompts


class CotEncoder(BiEncoder):
    """A sentence in the anchor's template shall find itself in the positive's, and not in the negative's.

    Numbers and templates are those of schema.prompts.Prompts. Any set can be learnt from: of pairs, their sentences
    are. What stands for a sentence in evaluation, and in the encoder that a run leaves behind, is what the anchor's
    template gives, by the function that was trained. `variant` is read by those who name runs only.
    """

    reads = Kind.SENTENCE
    gives = Kind.POSITIVE_PAIR

    def __init__(
        self,
        *,
        variant: str = "",
        language: str,
        templates: dict,
        use_negative: bool,
        read: Literal["last", "mean", "pooling"],
        denoise: Literal["none", "positions", "pads"],
        end_to_end: bool,
        match_norm: bool,
        **shared: object,
    ) -> None:
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
        views = Prompts.of(job.model).views
        for _, loss in losses.values():
            if "positive" not in views:
                raise UserError(
                    f"model.templates.{job.model['language']}.positive: training needs a template for the positive"
                )
            if "negative" in views and Kind.TRIPLET not in get_class(loss["_target_"]).takes:
                raise UserError(
                    f"loss={loss['_target_'].split('.')[-2]}: a sentence with a negative template is a triplet, which "
                    "this loss does not take; choose loss=info_nce_pool, or model.use_negative=false"
                )

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> PromptEncoder:
        """The backbone of a run, of `init_from` or of the job, read through the templates of this job."""
        encoder = BiEncoder.load_encoder(job, folder=folder)
        return PromptEncoder.around(encoder, Prompts.of(job.model)).train()

    def objective(self, batch: Batch) -> LossOutput:
        loss, logs = super().objective(batch)
        if self.encoder.norm_ratio is not None:
            logs = logs | {"injected_norm_ratio": self.encoder.norm_ratio}
        return loss, logs
