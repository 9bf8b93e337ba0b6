"""The settings of `lightning_modules/views.py`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from juzhen.core.kinds import Kind
from juzhen.models.biencoder import BiEncoderSettings
from juzhen.models.crossencoder import NOT_SHARED
from juzhen.models.settings import GONE, SIZED_VIEWS, Job, ModelSettings, Unread, idle_sizes


@dataclass(frozen=True, kw_only=True)
class ViewEncoderSettings(BiEncoderSettings):
    name: ClassVar[str] = "views"
    title: ClassVar[str | None] = None
    input_kind: ClassVar[Kind | None] = Kind.SENTENCE
    loss_kind: ClassVar[Kind | None] = Kind.POSITIVE_PAIR
    reads_not: ClassVar[Mapping[str, str]] = {
        "training.share_sentences": NOT_SHARED,
        **ModelSettings.reads_not,
    }
    for_learning: ClassVar[Mapping[str, Any]] = dict.fromkeys(("views", "changes_anchor", *SIZED_VIEWS), GONE)

    views: Sequence[str]
    changes_anchor: bool
    delete: float
    repeat: float
    cutoff: float
    shuffle: int
    synonym: float
    translations: str | None

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        views = list(job["model"].get("views") or ())
        idle = idle_sizes(views) | ({} if views else {"changes_anchor": False})
        for key, value in idle.items():
            yield f"model.{key}", Unread(value, f"model.views={views} does without; leave it out")
