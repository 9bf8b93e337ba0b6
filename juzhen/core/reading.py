"""Which keys a job reads: those that it leaves unread are refused where typed, and in no key of a run and no row.

`RULES` is the table. It is read by `launch.preflight`, by `launch.naming.run_key` and by `juzhen.report.identity`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from juzhen.core.job_facts import (
    AS_IT_IS,
    FROM_TEXT,
    GONE,
    LEARNING_KEYS,
    Job,
    all_sets_have,
    are_built_in,
    has_kind,
    has_loss,
    is_here,
    is_lexical,
    is_model,
    learns,
    model_class,
    overruled,
    overruled_in_stages,
    stages_of,
    unread_templates,
    unused_losses,
    unused_views,
    value_at,
)
from juzhen.core.named import name_of

PICK = "leave it out"


@dataclass(frozen=True)
class Rule:
    """Keys that a job does not read.

    when  of a job; the job must learn, unless `always`
    keys  dotted key, `*` for any one word → what stands for it; a group stands for all that is below it
    why   what is in its place, and what to type
    but   keys below them that are read
    """

    when: Callable[[Job], bool]
    keys: Mapping[str, Any] | Callable[[Job], Mapping[str, Any]]
    why: str
    but: Sequence[str] = ()

    def of(self, job: Job) -> Mapping[str, Any]:
        return self.keys(job) if callable(self.keys) else self.keys


RULES: tuple[Rule, ...] = (
    Rule(
        is_lexical,
        dict.fromkeys(
            ("backbone", "init_from", "dataset", "loss", "training", "optimizer", "augmentation", "schedule"),
            GONE,
        )
        | dict.fromkeys(("filter_leaks", "hardware.precision", "hardware.compile"), GONE)
        | {
            f"evaluation.{key}": GONE for key in ("untrained", "without_leaks", "backend", "cache_embeddings")
        },
        "{model} learns nothing and has no encoder; {pick} (sets to score: 'dataset=[]' "
        "+dataset@evaluate.<name>=<name>, or a suite)",
    ),
    Rule(
        lambda job: is_model(job, "Lexical") and job["model"].get("method", "tf_idf") == "tf_idf",
        {"model.tokens": GONE},
        "TF-IDF goes by characters and their pairs; {pick}, or type model.method=jaccard or dice",
    ),
    Rule(
        lambda job: is_model(job, "BM25"),
        dict.fromkeys(("evaluation.transfer", "evaluation.clusterings"), GONE),
        "BM25 gives no features; {pick}",
    ),
    Rule(
        lambda job: not learns(job),
        lambda job: (
            dict.fromkeys(
                (
                    "loss",
                    "training",
                    "optimizer",
                    "augmentation",
                    "schedule",
                    "filter_leaks",
                    "callbacks.mining",
                ),
                GONE,
            )
            | {"evaluation.untrained": GONE, "evaluation.without_leaks": GONE}
            | {"backbone.learning_rate": GONE, "backbone.dropout": GONE}
            | {f"model.{key}": one for key, one in LEARNING_KEYS.get(model_class(job), {}).items()}
        ),
        "nothing is learnt with dataset=[]; {pick}, or name sets: 'dataset=[demo_sts]'",
    ),
    Rule(
        lambda job: bool(job.get("init_from")),
        {"backbone": GONE},
        "init_from={init_from} takes the place of the backbone. To change the encoder that is there, type "
        "backbone=local backbone.path=<its encoder folder> {key}=… in place of init_from; a learning rate is "
        "optimizer.lr=…",
        but=("backbone.learning_rate",),
    ),
    Rule(
        lambda job: (
            (job.get("optimizer") or {}).get("lr") != (job.get("backbone") or {}).get("learning_rate")
        ),
        {"backbone.learning_rate": AS_IT_IS},
        "optimizer.lr={lr} takes its place; type one of the two",
    ),
    Rule(
        lambda job: is_here((job.get("backbone") or {}).get("path")),
        {"backbone.revision": AS_IT_IS},
        "{path} is a folder here, and a revision is of the hub; {pick}",
    ),
    Rule(
        lambda job: is_here(job["model"].get("teacher")),
        {"model.teacher_revision": AS_IT_IS},
        "{teacher} is a folder here, and a revision is of the hub; {pick}",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoder"),
        {
            "backbone.pooling": "mean",
            "backbone.normalize": False,
            "backbone.layer_norm": None,
            "backbone.include_prompt": None,
            "backbone.prompts": None,
        },
        "a cross-encoder has no embeddings; {pick}, or choose what its head sees: model.pooling=cls or mean",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoder"),
        {"evaluation.backend": "torch", "evaluation.cache_embeddings": False}
        | dict.fromkeys(("evaluation.transfer", "evaluation.clusterings"), GONE),
        "a cross-encoder has no embeddings; {pick}, or type model=biencoder",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoder", *FROM_TEXT),
        {"training.share_sentences": True},
        "no sentence is encoded twice for a batch of {model}; {pick}",
    ),
    Rule(
        lambda job: is_model(job, "MaskedLanguageModel"),
        {"loss": GONE, "schedule.sets.*.loss": GONE},
        "{model} learns without a loss; {pick}, or choose a model that learns by one, such as model=views",
    ),
    Rule(
        lambda job: is_model(job, "CotEncoder") and job["model"].get("read") != "pooling",
        {"backbone.pooling": "mean"},
        "{model} reads a sentence at [MASK]; {pick}, or type model.read=pooling",
    ),
    Rule(
        lambda job: is_model(job, "CotEncoder"),
        unread_templates,
        "the templates are those of model.language={language}, with stage_2={stage_2} and "
        "use_negative={use_negative}, which leave it unread",
    ),
    Rule(
        lambda job: is_model(job, "ViewEncoder"),
        partial(unused_views, "model"),
        "{views} does without; {pick}",
    ),
    Rule(
        lambda job: is_model(job, "CropEncoder") and not job["model"].get("mlm_weight"),
        {"model.mask_rate": 0.15},
        "no token is hidden with model.mlm_weight=0; {pick}, or type a weight",
    ),
    Rule(
        lambda job: is_model(job, "MaskedLanguageModel") and job["model"].get("strategy") != "span",
        {"model.mean_span": 2.0},
        "it is for model.strategy=span; {pick}",
    ),
    Rule(
        lambda job: bool(job.get("augmentation")),
        partial(unused_views, "augmentation"),
        "augmentation.views={changes} does without; {pick}, or name its view there",
    ),
    Rule(
        lambda job: all(len(sets) < 2 for _, sets, _ in stages_of(job)),
        {"schedule.sample_by": "size", "schedule.temperature": 1.0, "schedule.sets.*.weight": GONE},
        "no stage mixes several sets; {pick}",
    ),
    Rule(learns, overruled, "every set or stage has its own in its place; {pick}"),
    Rule(
        learns,
        overruled_in_stages,
        "a set of that stage has its own under schedule.sets, which would count instead; keep one of the two",
    ),
    Rule(learns, unused_losses, "the sets of this job have no such rows; {pick}"),
    Rule(
        lambda job: learns(job) and all_sets_have(job, "temperature"),
        {"loss.temperature": AS_IT_IS},
        "every set has its own, dataset.<name>.learning.temperature; {pick}",
    ),
    Rule(
        lambda job: not ((job.get("evaluation") or {}).get("transfer") or has_kind(job, "labelled_text")),
        {"evaluation.transfer_limit": 10000},
        "no set is classified; {pick}, or name some: evaluation.transfer=[…]",
    ),
    Rule(
        lambda job: not ((job.get("evaluation") or {}).get("transfer") or has_kind(job, "labelled_text")),
        {"evaluation.clusterings": GONE},
        "no set of this job has texts with classes; {pick}, or add one, such as +dataset@evaluate.tnews=tnews",
    ),
    Rule(
        lambda job: not has_kind(job, "retrieval", "reranking"),
        {"evaluation.rankings": GONE},
        "no set of this job is ranked; {pick}, or add one, such as +dataset@evaluate.demo_retrieval=demo_retrieval",
    ),
    Rule(
        lambda job: True,
        dict.fromkeys(
            ("evaluate.*.view", "evaluate.*.limit", "evaluate.*.learning", "evaluate.*.grades"), GONE
        ),
        "the set is scored and not learnt from; {pick} (rows that are scored: evaluation.limit)",
    ),
    Rule(
        lambda job: not (is_model(job, "CrossEncoder") and has_loss(job, "ce")),
        {"dataset.*.grades": GONE},
        "grades are classes for model=crossencoder loss=ce alone; {pick}",
    ),
    Rule(
        are_built_in,
        {"source": AS_IT_IS},
        "every set of this job says itself where it is from; {pick}",
    ),
)
"""Rules, the first one that speaks of a key gives the reason."""

ONLY_WORDS = {"training.checkpoint_every": "200 steps", "model.untrained_mask": False}
"""Keys that change no numbers though they are read, and what stands for them in the key of a run and in its row."""


def unread(job: Job) -> dict[str, Rule]:
    """Dotted pattern of each key, or group of keys, that the job does not read → the rule that says so."""
    rules: dict[str, Rule] = {}
    for rule in RULES if isinstance(job.get("model"), Mapping) else ():
        if rule.when(job):
            rules |= {key: rule for key in rule.of(job) if key not in rules}
    return rules


def why_unread(key: str, job: Job) -> str | None:
    """Why a dotted key, or a group, is not read by a job, and what to type; None for one that is."""
    for pattern, rule in unread(job).items():
        plain = key
        for owner in ("schedule.stages.", "schedule.sets."):  # their keys are those of the job
            if key.startswith(owner) and key.count(".") > 2 and not pattern.startswith("schedule."):
                plain = key.split(".", 3)[3]
        is_it = any(is_below(key_below, pattern) for key_below in {key, plain})
        if is_it and not any(is_below(key, one) for one in rule.but):
            return rule.why.format(key=key, pick=PICK, **_words(job))
    return None


def is_below(key: str, pattern: str) -> bool:
    """Whether a dotted key is the pattern's, or below it; `*` stands for any one word."""
    parts, expected = key.split("."), pattern.split(".")
    return len(parts) >= len(expected) and all(map(fnmatchcase, parts, expected))


def _words(job: Job) -> dict[str, Any]:
    """What reasons tell of the job."""
    model, templates = job["model"], job["model"].get("templates") or {}
    return {
        "model": f"model={name_of(model)}",
        "init_from": job.get("init_from"),
        "lr": value_at(job, "optimizer.lr"),
        "path": value_at(job, "backbone.path"),
        "teacher": model.get("teacher"),
        "language": model.get("language"),
        "stage_2": "null" if value_at(templates, f"{model.get('language')}.stage_2") is None else "…",
        "use_negative": str(model.get("use_negative")).lower(),
        "views": f"model.views={list(model.get('views') or ())}",
        "changes": list(value_at(job, "augmentation.views") or ()),
    }


def as_read(job: Job) -> dict[str, Any]:
    """The job with what it does not read, or what changes no number, left out or at what stands for it."""
    instead: dict[str, Any] = dict(ONLY_WORDS)
    for pattern, rule in unread(job).items():
        instead[pattern] = rule.of(job)[pattern]
    read: dict[str, Any] = dict(job)
    for pattern, value in instead.items():
        if value is not AS_IT_IS:
            read = _replaced(read, pattern.split("."), value)
    return read


def _replaced(node: Mapping[str, Any], parts: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy in which `value` stands at that place, where there is one."""
    copy = dict(node)
    for key in _named(copy, parts[0]):
        if len(parts) > 1:
            if isinstance(copy[key], Mapping):
                copy[key] = _replaced(copy[key], parts[1:], value)
        elif value is GONE:
            del copy[key]
        else:
            copy[key] = value
    return copy


def _named(node: Mapping[str, Any], word: str) -> Iterator[str]:
    yield from [key for key in node if fnmatchcase(str(key), word)]
