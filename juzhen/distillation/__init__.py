"""Students: smaller encoders initialised from a larger one.

Below are the settings of `lightning_modules/distill.py`, which need no torch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from juzhen.core.kinds import Kind
from juzhen.core.paths import is_here
from juzhen.models.settings import AS_IT_IS, GONE, BiEncoderSettings, Job, Unread


@dataclass(frozen=True, kw_only=True)
class TaughtSettings(BiEncoderSettings):
    module: ClassVar[str] = "distill"
    title: ClassVar[str | None] = None

    teacher: str
    teacher_revision: str | None
    teacher_prompt: str | None

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        teacher = job["model"].get("teacher")
        if is_here(teacher):
            why = f"{teacher} is a folder here, and a revision is of the hub. Leave it out"
            yield "model.teacher_revision", Unread(AS_IT_IS, why)


@dataclass(frozen=True, kw_only=True)
class DistillModuleSettings(TaughtSettings):
    name: ClassVar[str] = "distill"
    input_kind: ClassVar[Kind | None] = Kind.SENTENCE
    loss_kind: ClassVar[Kind | None] = Kind.SENTENCE
    provides: ClassVar[tuple[str, ...]] = ("teacher",)

    center: float
    projection: Literal["drop", "keep", "pca"]


@dataclass(frozen=True, kw_only=True)
class DistillTranslationsSettings(DistillModuleSettings):
    name: ClassVar[str] = "distill_translations"
    input_kind: ClassVar[Kind | None] = Kind.POSITIVE_PAIR


@dataclass(frozen=True, kw_only=True)
class GuidedSettings(TaughtSettings):
    name: ClassVar[str] = "guided"
    provides: ClassVar[tuple[str, ...]] = ("guide",)
    for_learning: ClassVar[Mapping[str, Any]] = dict.fromkeys(
        ("teacher", "teacher_revision", "teacher_prompt"), GONE
    )
