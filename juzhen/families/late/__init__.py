"""Late interaction: a vector for each token (ColBERT), and encoders apart for queries and documents.

Below are the settings of `lightning_modules/colbert.py`, which need no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from juzhen.core.kinds import UNSCORED_BY_TOKENS, Kind
from juzhen.models.settings import EMBEDDED, POOLED, ModelSettings

POOLS_NONE = (
    "model=colbert has a vector for each token, of length 1, and pools none. Leave it out. Its markers are "
    "backbone.prompts"
)
NO_VECTOR = "model=colbert has no vector of a text. Leave it out, or type model=biencoder"


@dataclass(frozen=True, kw_only=True)
class ColBERTSettings(ModelSettings):
    name: ClassVar[str] = "colbert"
    module: ClassVar[str] = "colbert"
    provides: ClassVar[tuple[str, ...]] = ("scores", "cosines", "lists", "tokens")
    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED_BY_TOKENS
    reads_not: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*POOLED, "backbone.default_prompt_name"), POOLS_NONE),
        **dict.fromkeys(EMBEDDED, NO_VECTOR),
        **ModelSettings.reads_not,
    }

    dim: int | None
    query_length: int | None
    expansion: bool | None
    expansion_attends: bool | None
    skip_punctuation: bool | None
    markers: bool

    @classmethod
    def label(cls) -> str:
        return cls.class_name()  # as its paper spells it
