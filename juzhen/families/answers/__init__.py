"""Language models that score a query and a document by their answer.

Below are the settings of `lightning_modules/reranker.py`, which need no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from juzhen.core.kinds import UNSCORED_BY_PAIRS, Kind
from juzhen.models.settings import EMBEDDED, NO_EMBEDDINGS, NOT_SHARED, POOLED, ModelSettings

READS_ANSWER = (
    "model=reranker reads the answer at the last token, and looks to the left. Leave it out. What stands around texts "
    "is model.template"
)


@dataclass(frozen=True, kw_only=True)
class RerankerModuleSettings(ModelSettings):
    name: ClassVar[str] = "reranker"
    module: ClassVar[str] = "reranker"
    title: ClassVar[str | None] = "reranker"
    provides: ClassVar[tuple[str, ...]] = ("scores", "lists")
    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED_BY_PAIRS
    reads_not: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*POOLED, "backbone.prompts", "backbone.attention"), READS_ANSWER),
        **dict.fromkeys(EMBEDDED, NO_EMBEDDINGS),
        "training.share_sentences": NOT_SHARED,
        **ModelSettings.reads_not,
    }
    no_common_start: ClassVar[str] = "a reranker starts from a decoder"

    true_answer: str | None
    false_answer: str | None
    instruction: str | None
    template: str | None
