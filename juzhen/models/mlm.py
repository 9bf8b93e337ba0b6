"""The settings of `lightning_modules/mlm.py`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from juzhen.core.kinds import Kind
from juzhen.models.settings import NOT_SHARED, BiEncoderSettings, Job, ModelSettings, Unread

NO_LOSS = (
    "{model} learns without a loss. Leave it out, or choose a model that learns by one, such as model=views"
)


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelSettings(BiEncoderSettings):
    name: ClassVar[str] = "mlm"
    module: ClassVar[str] = "mlm"
    title: ClassVar[str | None] = None
    input_kind: ClassVar[Kind | None] = Kind.SENTENCE
    unscored: ClassVar[Mapping[Kind, str]] = {}
    metric: ClassVar[str] = "mlm_accuracy"
    reads_not: ClassVar[Mapping[str, str]] = {
        "training.share_sentences": NOT_SHARED,
        "loss": NO_LOSS,
        "schedule.sets.*.loss": NO_LOSS,
        **ModelSettings.reads_not,
    }

    mask_rate: float
    strategy: str
    mean_span: float
    mask_share: float
    random_share: float

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        if job["model"].get("strategy") != "span":
            yield "model.mean_span", Unread(2.0, "it is for model.strategy=span. Leave it out")
