"""The settings of `lightning_modules/biencoder.py`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from juzhen.models.settings import ModelSettings


@dataclass(frozen=True, kw_only=True)
class BiEncoderSettings(ModelSettings):
    name: ClassVar[str] = "biencoder"
    title: ClassVar[str | None] = ""

    score: Literal["cosine", "bilinear"] | None = None  # text models have none
