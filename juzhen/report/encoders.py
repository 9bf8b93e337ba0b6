"""Encoders that a job may start from: what is known of each, and which one suits a use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from juzhen.core.csv_rows import csv_rows
from juzhen.core.opened import read_json
from juzhen.core.places import ROOT

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
        return all(one in self.languages for one in language.split("-") if one)

    @property
    def work(self) -> int:
        """Proportional to the multiplications per token."""
        return self.layers * self.dim**2


def load_models(table: Path = TABLE, bench: Path = BENCH) -> list[Model]:
    """Every encoder on file, those in the box first."""
    speeds = _speeds(bench)
    models = []
    for _, row in csv_rows(table)[1]:
        given: dict[str, Any] = {field.name: row.get(field.name) for field in fields(Model)}
        given |= {key: int(row[key]) for key in ("layers", "dim", "tokens")}
        given |= {"languages": tuple(row["languages"].split()), "research_only": bool(row["research_only"])}
        scores = {key: float(row[key]) for key in ("average", *USES) if row[key]}
        models.append(Model(**given | {"scores": scores, "speed": speeds.get(row["bench"])}))
    return models


def _speeds(bench: Path) -> dict[str, float]:
    if not bench.is_file():
        return {}
    return {
        row["model"]: row["sentences_per_second"] for row in read_json(bench)["rows"] if row["side"] == OURS
    }


def milliseconds(model: Model, models: Sequence[Model]) -> tuple[float, bool] | None:
    """Time per sentence in batches, and whether it was measured; else it follows from the nearest that was."""
    if model.speed is not None:
        return 1000 / model.speed, True
    measured = [one for one in models if one.speed is not None]
    if not measured:
        return None
    near = min(measured, key=lambda one: abs(one.work - model.work))
    assert near.speed is not None
    return 1000 / near.speed * model.work / near.work, False


@dataclass(frozen=True)
class Need:
    """What an encoder is wanted for: a key of USES, one of LANGUAGES; None: no limit."""

    use: str
    language: str
    documents: int | None = None
    latency_ms: float | None = None


def recommendation(need: Need, models: Sequence[Model]) -> Iterator[str]:
    """Lines: which encoder, and why it and not another."""
    reasons = {model.name: _unfit(model, need, models) for model in models}
    fitting = [model for model in models if not reasons[model.name]]
    if chosen := _best(fitting, need):
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
        yield f"- {', '.join(name for name, one in reasons.items() if one == reason)}: {reason}"


def _unfit(model: Model, need: Need, models: Sequence[Model]) -> str:
    """Why an encoder is not for this need; "" where it may be."""
    if not model.reads(need.language):
        return f"reads {' '.join(model.languages)}"
    if need.use not in model.scores or model.scored_in not in need.language:
        return "no published figure on file for this use in this language"
    if model.research_only:
        return f"for research only (published {model.scores[need.use]:.2f})"
    found = milliseconds(model, models)
    if need.latency_ms is not None and found is not None and found[0] > need.latency_ms:
        return f"{_told(found)}, more than {need.latency_ms:g} ms"
    return ""


def _best(fitting: Sequence[Model], need: Need) -> Model | None:
    """The highest figure; with very many documents the smallest index among those that are nearly as good."""
    if not fitting:
        return None
    top = max(model.scores[need.use] for model in fitting)
    if (need.documents or 0) >= MANY:
        fitting = [model for model in fitting if model.scores[need.use] >= top - MARGIN]
        return min(fitting, key=lambda model: (model.dim, -model.scores[need.use]))
    return max(fitting, key=lambda model: model.scores[need.use])


def _reasons(chosen: Model, fitting: Sequence[Model], need: Need, models: Sequence[Model]) -> Iterator[str]:
    others = ", ".join(f"{one.name} {one.scores[need.use]:.2f}" for one in fitting if one is not chosen)
    yield f"published {need.use} {chosen.scores[need.use]:.2f}" + (
        f"; the others that fit: {others}" if others else ""
    )
    yield f"figures: {SOURCES[chosen.source]}"
    yield f"license {chosen.license}, {chosen.tokens} tokens, {chosen.dim} numbers per sentence"
    if found := milliseconds(chosen, models):
        yield f"{_told(found)} on the machine of results/bench; a sentence that comes alone takes longer"
    if need.documents is not None:
        size = 4 * chosen.dim * need.documents / 1e6
        how = (
            "use an approximate index" if need.documents >= MANY else "which an exact search reads per query"
        )
        yield f"{need.documents:,} documents: an index of {size:,.0f} MB in float32, {how}"
    if chosen.prompts:
        names = chosen.prompts.split()
        default = next((name[:-1] for name in names if name.endswith("*")), "none")
        yield (
            f"prompts {chosen.prompts.replace('*', '').replace(' ', ', ')}; before every sentence stands {default}, "
            "another one by encode(…, prompt_name=…)"
        )


def _told(found: tuple[float, bool]) -> str:
    milliseconds, is_measured = found
    return f"{milliseconds:.1f} ms a sentence in batches" + (
        "" if is_measured else ", estimated by layers × dim²"
    )
