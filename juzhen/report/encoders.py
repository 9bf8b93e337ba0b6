"""Encoders that a job may start from: what is known of each, and which one suits a use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from juzhen.core.csv_rows import csv_rows
from juzhen.core.opened import read_shaped
from juzhen.core.places import ROOT
from juzhen.core.shape import Object

TABLE = Path(__file__).parent / "published" / "encoders" / "encoders.csv"
BENCH = ROOT / "results" / "bench" / "encoding.json"
"""Sentences per second of our own, of encoders that were measured; not in an installed library."""

OURS = "ours torch"
USES = {
    "sts": "similarity of sentences",
    "retrieval": "finding passages",
    "rerank": "putting passages in order",
    "classification": "telling the class of a text",
    "clustering": "finding groups of texts",
}
ON_SETS = {
    "classification": "the evidence: mean accuracy of a linear classifier over embeddings, on nine sets of "
    "reviews, news and intents; on your own: juzhen transfer ENCODER SET",
    "clustering": "the evidence: mean V-measure of k-means over embeddings, on four sets of papers and news",
}
"""What a published figure of a use was measured by, where the name does not say it."""
LANGUAGES = ("zh", "en", "en-zh")

SOURCES = {
    "FlagEmbedding": "C-MTEB, the table in the README of github.com/FlagOpen/FlagEmbedding",
    "gte-small-zh": "C-MTEB, the table on huggingface.co/thenlper/gte-small-zh",
    "sbert.net": "sbert.net, Pretrained Models: sentence embeddings as sts, semantic search as retrieval",
}

MANY = 1_000_000
"""Documents from which a smaller index is worth MARGIN points."""
MARGIN = 1.0


@dataclass(frozen=True)
class Model:
    """A backbone of `conf/backbone`.

    base      what it was trained from
    tokens    a sentence may have, special ones and a prompt included
    prompts   names of its prompts; * marks the one before every sentence
    scores    average and each of USES → published figure; those that were not found are missing
    scored_in  language of the texts that they are of
    source    a key of SOURCES; "" without figures
    speed     sentences per second, measured on the machine of BENCH; None: not measured
    """

    name: str
    path: str
    base: str
    layers: int
    dim: int
    tokens: int
    languages: tuple[str, ...]
    prompts: str
    license: str
    research_only: bool
    scores: Mapping[str, float]
    scored_in: str
    source: str
    speed: float | None

    def reads(self, language: str) -> bool:
        """Whether it reads one of LANGUAGES; "" is any."""
        return all(part in self.languages for part in language.split("-") if part)

    @property
    def work(self) -> int:
        """Proportional to the multiplications per token."""
        return self.layers * self.dim**2


@dataclass(frozen=True)
class Need:
    """What an encoder is wanted for: a key of USES, one of LANGUAGES; None: no limit."""

    use: str
    language: str
    documents: int | None = None
    latency_ms: float | None = None


def load_models(table: Path = TABLE, bench: Path = BENCH) -> list[Model]:
    """Every encoder on file, built-in encoders first."""
    shape = Object({"model": str, "side": str, "sentences_per_second": float})
    measured = (
        read_shaped(bench, Object({"rows": [shape]}), "Take the file away")["rows"] if bench.is_file() else []
    )
    speeds = {row["model"]: row["sentences_per_second"] for row in measured if row["side"] == OURS}
    models = []
    for _, row in csv_rows(table)[1]:
        values: dict[str, Any] = {field.name: row.get(field.name) for field in fields(Model)}
        values |= {key: int(row[key]) for key in ("layers", "dim", "tokens")}
        values |= {"languages": tuple(row["languages"].split()), "research_only": bool(row["research_only"])}
        scores = {key: float(row[key]) for key in ("average", *USES) if row[key]}
        models.append(Model(**values | {"scores": scores, "speed": speeds.get(row["bench"])}))
    return models


def milliseconds(model: Model, models: Sequence[Model]) -> tuple[float, str] | None:
    """Time per sentence in batches, and in words; where it was not measured, by the nearest that was."""
    measured = {other.work: other.speed for other in reversed(models) if other.speed is not None}
    if model.speed is None and not measured:
        return None
    work = model.work if model.speed is not None else min(measured, key=lambda work: abs(work - model.work))
    time = 1000 / (model.speed or measured[work] or 1) * model.work / work
    estimated = ", estimated by layers × dim²" if model.speed is None else ""
    return time, f"{time:.1f} ms a sentence in batches{estimated}"


def recommendation(need: Need, models: Sequence[Model]) -> Iterator[str]:
    """Lines: which encoder, and why it and not another."""
    reasons = {model.name: _unfit(model, need, models) for model in models}
    fitting = [model for model in models if not reasons[model.name]]
    if fitting:
        chosen = _best(fitting, need)
        yield f"{chosen.name} ({chosen.path}) for {USES[need.use]}, {need.language}"
        yield from (f"- {line}" for line in _reasons(chosen, fitting, need, models))
    else:
        yield f"none of these for {USES[need.use]}, {need.language}: train one, from mini_zh or a larger one"
    if need.use in ON_SETS:
        yield f"- {ON_SETS[need.use]}"
    if need.use == "rerank":
        yield (
            "- it compares two embeddings; a cross-encoder reads both texts at once, which orders better and costs one "
            "pass per candidate"
        )
    yield "Left out:"
    for reason in dict.fromkeys(filter(None, reasons.values())):
        yield f"- {', '.join(name for name, other in reasons.items() if other == reason)}: {reason}"


def _unfit(model: Model, need: Need, models: Sequence[Model]) -> str:
    """Why an encoder is not for this need; "" where it may be."""
    if not model.reads(need.language):
        return f"reads {' '.join(model.languages)}"
    if need.use not in model.scores or model.scored_in not in need.language:
        return "no published figure on file for this use in this language"
    if model.research_only:
        return f"for research only (published {model.scores[need.use]:.2f})"
    time = milliseconds(model, models)
    if need.latency_ms is not None and time is not None and time[0] > need.latency_ms:
        return f"{time[1]}, more than {need.latency_ms:g} ms"
    return ""


def _best(fitting: Sequence[Model], need: Need) -> Model:
    """The highest figure; with very many documents the smallest index among those that are nearly as good."""
    top = max(fitting, key=lambda model: model.scores[need.use])
    if (need.documents or 0) < MANY:
        return top
    near = [model for model in fitting if model.scores[need.use] >= top.scores[need.use] - MARGIN]
    return min(near, key=lambda model: (model.dim, -model.scores[need.use]))


def _reasons(chosen: Model, fitting: Sequence[Model], need: Need, models: Sequence[Model]) -> Iterator[str]:
    scores = [f"{model.name} {model.scores[need.use]:.2f}" for model in fitting if model is not chosen]
    beside = f"; the others that fit: {', '.join(scores)}" if scores else ""
    yield f"published {need.use} {chosen.scores[need.use]:.2f}{beside}"
    yield f"figures: {SOURCES[chosen.source]}"
    yield f"license {chosen.license}, {chosen.tokens} tokens, {chosen.dim} numbers per sentence"
    if time := milliseconds(chosen, models):
        yield f"{time[1]} on the machine of results/bench; a sentence that comes alone takes longer"
    if need.documents is not None:
        size, is_large = 4 * chosen.dim * need.documents / 1e6, need.documents >= MANY
        search = "use an approximate index" if is_large else "which an exact search reads per query"
        yield f"{need.documents:,} documents: an index of {size:,.0f} MB in float32, {search}"
    if names := chosen.prompts.split():
        default = next((name[:-1] for name in names if name.endswith("*")), "none")
        yield (
            f"prompts {', '.join(names).replace('*', '')}; before every sentence stands {default}, "
            "another one by encode(…, prompt_name=…)"
        )
