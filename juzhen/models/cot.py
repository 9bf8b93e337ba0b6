"""The settings of `lightning_modules/cot.py`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from juzhen.core.kinds import Kind
from juzhen.core.nodes import name_of
from juzhen.models.biencoder import BiEncoderSettings
from juzhen.models.crossencoder import NOT_SHARED
from juzhen.models.settings import GONE, Job, ModelSettings, Unread


@dataclass(frozen=True, kw_only=True)
class CotEncoderSettings(BiEncoderSettings):
    name: ClassVar[str] = "cot"
    title: ClassVar[str | None] = None
    input_kind: ClassVar[Kind | None] = Kind.SENTENCE
    loss_kind: ClassVar[Kind | None] = Kind.POSITIVE_PAIR
    reads_not: ClassVar[Mapping[str, str]] = {
        "training.share_sentences": NOT_SHARED,
        **ModelSettings.reads_not,
    }
    changes_nothing: ClassVar[Mapping[str, Any]] = {"untrained_mask": False}

    variant: str = ""
    language: str | None
    templates: dict[str, Any]
    use_negative: bool
    read: Literal["last", "mean", "pooling"]
    denoise: Literal["none", "positions", "pads"]
    untrained_mask: bool = False
    end_to_end: bool
    match_norm: bool

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        model = job["model"]
        if model.get("read") != "pooling":
            why = (
                f"model={name_of(model)} reads a sentence at [MASK]; leave it out, or type model.read=pooling"
            )
            yield "backbone.pooling", Unread("mean", why)
        templates = model.get("templates") or {}
        stage_2 = (templates.get(model.get("language")) or {}).get("stage_2")
        why = (
            f"the templates are those of model.language={model.get('language')}, with "
            f"stage_2={'null' if stage_2 is None else '…'} and use_negative={str(model.get('use_negative')).lower()}, "
            "which leave it unread"
        )
        for key, value in _idle_templates(job).items():
            yield key, Unread(value, why)


def _idle_templates(job: Job) -> dict[str, Any]:
    """Keys of templates that other keys leave without a meaning → what stands for them."""
    model = job["model"]
    language, templates = model.get("language"), model.get("templates") or {}
    if language is None:
        sets = (job.get("dataset") or {}).values()
        languages = {described.get("language") for described in sets if isinstance(described, Mapping)}
        language = languages.pop() if len(languages) == 1 else None
    if language not in templates:  # sets do not agree, which matters to a job that learns alone
        return {}
    keys: dict[str, Any] = {f"model.templates.{other}": GONE for other in templates if other != language}
    if templates[language].get("stage_2") is None:
        keys |= {"model.end_to_end": True, "model.match_norm": False}
    if not model.get("use_negative"):
        keys[f"model.templates.{language}.negative"] = GONE
    return keys
