"""Sparse encoders: a weight for each token of the vocabulary (SPLADE).

Below are the settings of `lightning_modules/splade.py`, which need no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from juzhen.core.kinds import UNSCORED_BY_WEIGHTS, Kind
from juzhen.models.settings import EMBEDDED, POOLED, ModelSettings

TAKES_MAXIMUM = (
    "model=splade takes the maximum of what tokens say of the vocabulary. Leave it out, or type "
    "model.pooling=sum"
)
NO_EMBEDDING = "model=splade has no embedding of a text. Leave it out, or type model=biencoder"


@dataclass(frozen=True, kw_only=True)
class SpladeSettings(ModelSettings):
    name: ClassVar[str] = "splade"
    module: ClassVar[str] = "splade"
    title: ClassVar[str | None] = "SPLADE"
    provides: ClassVar[tuple[str, ...]] = ("scores", "lists", "tokens")
    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED_BY_WEIGHTS
    reads_not: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(POOLED, TAKES_MAXIMUM),
        **dict.fromkeys(EMBEDDED, NO_EMBEDDING),
        **ModelSettings.reads_not,
    }

    pooling: str | None
    activation: str | None
    query_flops: float
    document_flops: float
    flops_warmup_percent: float
