"""The settings of `lightning_modules/crossencoder.py`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from juzhen.core.kinds import UNSCORED_BY_PAIRS, Kind
from juzhen.core.nodes import loss_names
from juzhen.models.settings import CHOSEN, EMBEDDED, GRADES, POOLED, Job, ModelSettings, Unread

NOT_POOLED = (
    "a cross-encoder has no embeddings; leave it out, or choose what its head sees: model.pooling=cls or mean"
)
NO_EMBEDDINGS = "a cross-encoder has no embeddings; leave it out, or type model=biencoder"
NOT_SHARED = "no sentence is encoded twice for a batch of {model}; leave it out"


@dataclass(frozen=True, kw_only=True)
class CrossEncoderModuleSettings(ModelSettings):
    name: ClassVar[str] = "crossencoder"
    title: ClassVar[str | None] = "cross-encoder"
    provides: ClassVar[tuple[str, ...]] = ("scores", "logits", "lists", "drawn_lists")
    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED_BY_PAIRS
    reads_not: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*POOLED, "backbone.prompts"), NOT_POOLED),
        **dict.fromkeys(EMBEDDED, NO_EMBEDDINGS),
        "training.share_sentences": NOT_SHARED,
    }
    for_learning: ClassVar[Mapping[str, Any]] = {"symmetric_training": False}
    no_common_start: ClassVar[str] = "a cross-encoder starts with a new head"

    pooling: Literal["cls", "mean"] | None
    segments: bool | None
    symmetric: bool | None
    symmetric_training: bool
    head_dropout: float | None = None  # runs of before have none

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        if "ce" not in loss_names(job):
            yield "dataset.*.grades", Unread(CHOSEN["dataset.*.grades"], GRADES)
