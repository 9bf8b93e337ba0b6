"""The settings of `lightning_modules/lexical.py`: models without an encoder, which go by the terms that texts share."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from juzhen.core.kinds import UNSCORED_BY_BM25, Kind
from juzhen.core.nodes import name_of
from juzhen.models.settings import GONE, Job, ModelSettings, Unread

OF_LEARNING = (
    *("backbone", "init_from", "dataset", "loss", "training", "optimizer", "augmentation", "schedule"),
    *("filter_leaks", "hardware.precision", "hardware.compile"),
    *(
        "evaluation.untrained",
        "evaluation.without_leaks",
        "evaluation.backend",
        "evaluation.cache_embeddings",
    ),
)
"""What is of weights and of learning alone."""

TF_IDF = "lexical"
LEXICAL = (TF_IDF, "bm25")
"""Names of the models of this file."""


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(ModelSettings):
    """What the models of this file share."""

    trains: ClassVar[bool] = False

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        why = (
            f"model={name_of(job['model'])} learns nothing and has no encoder; leave it out (sets to score: "
            "'dataset=[]' +dataset@evaluate.<name>=<name>, or a suite)"
        )
        yield from ((key, Unread(GONE, why)) for key in OF_LEARNING)
        yield from super().unread(job)


@dataclass(frozen=True, kw_only=True)
class LexicalSettings(BaselineSettings):
    name: ClassVar[str] = "lexical"

    method: Literal["tf_idf", "jaccard", "dice"] = "tf_idf"
    tokens: Literal["characters", "jieba"] = "characters"

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        if job["model"].get("method", "tf_idf") == "tf_idf":
            why = "TF-IDF goes by characters and their pairs; leave it out, or type model.method=jaccard or dice"
            yield "model.tokens", Unread(GONE, why)


@dataclass(frozen=True, kw_only=True)
class BM25ModuleSettings(BaselineSettings):
    name: ClassVar[str] = "bm25"
    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED_BY_BM25
    reads_not: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("evaluation.transfer", "evaluation.clusterings"), "BM25 gives no features; leave it out"
        ),
        **ModelSettings.reads_not,
    }

    tokens: Literal["characters", "jieba"]
    k1: float
    b: float
