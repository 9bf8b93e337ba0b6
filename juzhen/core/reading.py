"""Which keys a job reads: those that it leaves unread are refused where typed, and in no key of a run and no row.

`RULES` is the table. It is read by `launch.unread`, by `launch.naming.run_key` and by `juzhen.report.identity`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
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
    schedule_of,
    stages_of,
    unread_templates,
    unused_losses,
    unused_views,
)


@dataclass(frozen=True)
class Rule:
    """Keys that a job does not read.

    when  of a job; the job must learn, unless `always`
    keys  dotted key, `*` for any one word → what stands for it; a group stands for all that is below it
    name  by which `launch.unread` has the reason, and what to type
    but   keys below them that are read
    """

    when: Callable[[Job], bool]
    keys: Mapping[str, Any] | Callable[[Job], Mapping[str, Any]]
    name: str
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
        "lexical",
    ),
    Rule(
        lambda job: is_model(job, "Lexical") and job["model"].get("method", "tf_idf") == "tf_idf",
        {"model.tokens": GONE},
        "tf_idf",
    ),
    Rule(
        lambda job: is_model(job, "BM25Module"),
        dict.fromkeys(("evaluation.transfer", "evaluation.clusterings"), GONE),
        "bm25",
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
                    "callbacks.weights",
                ),
                GONE,
            )
            | {"evaluation.untrained": GONE, "evaluation.without_leaks": GONE}
            | {"backbone.learning_rate": GONE, "backbone.dropout": GONE}
            | {f"model.{key}": reason for key, reason in LEARNING_KEYS.get(model_class(job), {}).items()}
        ),
        "nothing_learnt",
    ),
    Rule(
        lambda job: bool(job.get("init_from")),
        {"backbone": GONE},
        "init_from",
        but=("backbone.learning_rate",),
    ),
    Rule(
        lambda job: (
            (job.get("optimizer") or {}).get("lr") != (job.get("backbone") or {}).get("learning_rate")
        ),
        {"backbone.learning_rate": AS_IT_IS},
        "learning_rate",
    ),
    Rule(
        lambda job: is_here((job.get("backbone") or {}).get("path")),
        {"backbone.revision": AS_IT_IS},
        "backbone_revision",
    ),
    Rule(
        lambda job: is_here(job["model"].get("teacher")),
        {"model.teacher_revision": AS_IT_IS},
        "teacher_revision",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoderModule"),
        {
            "backbone.pooling": "mean",
            "backbone.normalize": False,
            "backbone.layer_norm": None,
            "backbone.include_prompt": None,
            "backbone.prompts": None,
        },
        "pair_pooling",
    ),
    Rule(
        lambda job: is_model(job, "RerankerModule"),
        {
            "backbone.pooling": "mean",
            "backbone.normalize": False,
            "backbone.layer_norm": None,
            "backbone.include_prompt": None,
            "backbone.prompts": None,
            "backbone.attention": None,
        },
        "answer_pooling",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoderModule", "RerankerModule"),
        {"evaluation.backend": "torch", "evaluation.cache_embeddings": False}
        | dict.fromkeys(("evaluation.transfer", "evaluation.clusterings"), GONE),
        "pair_embeddings",
    ),
    Rule(
        lambda job: is_model(job, "ColBERT"),
        {
            "backbone.pooling": "mean",
            "backbone.normalize": False,
            "backbone.layer_norm": None,
            "backbone.include_prompt": None,
            "backbone.default_prompt_name": None,
        },
        "token_pooling",
    ),
    Rule(
        lambda job: is_model(job, "ColBERT"),
        {"evaluation.backend": "torch", "evaluation.cache_embeddings": False}
        | dict.fromkeys(("evaluation.transfer", "evaluation.clusterings"), GONE),
        "token_embeddings",
    ),
    Rule(
        lambda job: is_model(job, "Splade"),
        {
            "backbone.pooling": "mean",
            "backbone.normalize": False,
            "backbone.layer_norm": None,
            "backbone.include_prompt": None,
        },
        "sparse_pooling",
    ),
    Rule(
        lambda job: is_model(job, "Splade"),
        {"evaluation.backend": "torch", "evaluation.cache_embeddings": False}
        | dict.fromkeys(("evaluation.transfer", "evaluation.clusterings"), GONE),
        "sparse_embeddings",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoderModule", "RerankerModule", *FROM_TEXT),
        {"training.share_sentences": True},
        "not_shared",
    ),
    Rule(
        lambda job: is_model(job, "MaskedLanguageModel"),
        {"loss": GONE, "schedule.sets.*.loss": GONE},
        "no_loss",
    ),
    Rule(
        lambda job: is_model(job, "CotEncoder") and job["model"].get("read") != "pooling",
        {"backbone.pooling": "mean"},
        "read_at_mask",
    ),
    Rule(
        lambda job: is_model(job, "CotEncoder"),
        unread_templates,
        "templates",
    ),
    Rule(
        lambda job: is_model(job, "ViewEncoder"),
        partial(unused_views, "model"),
        "views",
    ),
    Rule(
        lambda job: is_model(job, "CropEncoder") and not job["model"].get("mlm_weight"),
        {"model.mask_rate": 0.15},
        "hidden_tokens",
    ),
    Rule(
        lambda job: is_model(job, "MaskedLanguageModel") and job["model"].get("strategy") != "span",
        {"model.mean_span": 2.0},
        "spans",
    ),
    Rule(
        lambda job: bool(job.get("augmentation")),
        partial(unused_views, "augmentation"),
        "augmentation",
    ),
    Rule(
        lambda job: all(len(sets) < 2 for _, sets, _ in stages_of(job)),
        {"schedule.sample_by": "size", "schedule.temperature": 1.0, "schedule.sets.*.weight": GONE}
        | {"schedule.weigh_loss": False, "schedule.sets.*.loss_weight": GONE},
        "one_set",
    ),
    Rule(
        lambda job: schedule_of(job).get("sample_by") in ("uniform", "round_robin", "blend"),
        {"schedule.temperature": 1.0},
        "equal_shares",
    ),
    Rule(learns, overruled, "overruled"),
    Rule(
        learns,
        overruled_in_stages,
        "overruled_in_stages",
    ),
    Rule(learns, unused_losses, "unused_losses"),
    Rule(
        lambda job: learns(job) and all_sets_have(job, "temperature"),
        {"loss.temperature": AS_IT_IS},
        "set_temperatures",
    ),
    Rule(
        lambda job: not ((job.get("evaluation") or {}).get("transfer") or has_kind(job, "labelled_text")),
        {"evaluation.transfer_limit": 10000},
        "no_transfer",
    ),
    Rule(
        lambda job: not ((job.get("evaluation") or {}).get("transfer") or has_kind(job, "labelled_text")),
        {"evaluation.clusterings": GONE},
        "no_classes",
    ),
    Rule(
        lambda job: not has_kind(job, "retrieval", "reranking"),
        {"evaluation.rankings": GONE},
        "no_ranking",
    ),
    Rule(
        lambda job: True,
        dict.fromkeys(
            ("evaluate.*.view", "evaluate.*.limit", "evaluate.*.learning", "evaluate.*.grades"), GONE
        ),
        "only_scored",
    ),
    Rule(
        lambda job: not (is_model(job, "CrossEncoderModule") and has_loss(job, "ce")),
        {"dataset.*.grades": GONE},
        "grades",
    ),
    Rule(
        are_built_in,
        {"source": AS_IT_IS},
        "built_in",
    ),
)
"""Rules; of several that speak of a key the first counts."""

ONLY_WORDS = {"training.checkpoint_every": "200 steps", "model.untrained_mask": False}
"""Keys that change no numbers though they are read, and what stands for them in the key of a run and in its row."""


def unread(job: Job) -> dict[str, Rule]:
    """Dotted pattern of each key, or group of keys, that the job does not read → the rule that says so."""
    rules: dict[str, Rule] = {}
    for rule in RULES if isinstance(job.get("model"), Mapping) else ():
        if rule.when(job):
            rules |= {key: rule for key in rule.of(job) if key not in rules}
    return rules


def is_below(key: str, pattern: str) -> bool:
    """Whether a dotted key is the pattern's, or below it; `*` stands for any one word."""
    parts, expected = key.split("."), pattern.split(".")
    return len(parts) >= len(expected) and all(map(fnmatchcase, parts, expected))


@cache
def is_below_any(key: str, patterns: tuple[str, ...]) -> bool:
    return any(is_below(key, pattern) for pattern in patterns)


def as_read(job: Job) -> dict[str, Any]:
    """The job with what it does not read, or what changes no number, left out or at what stands for it."""
    instead: dict[str, Any] = dict(ONLY_WORDS)
    for pattern, rule in unread(job).items():
        instead[pattern] = rule.of(job)[pattern]
    read: dict[str, Any] = dict(job)
    for pattern, value in instead.items():
        if value is not AS_IT_IS:
            read = _replaced(read, pattern.split("."), value)
    return _without_later_numbers(read)


LATER_NUMBERS: Mapping[str, Mapping[str, Any]] = {
    "lambda_loss": {"weighting": "ndcg_loss2pp", "k": None, "graded": False},
    "info_nce_guided": {"relative_margin": 0},
}
"""Numbers that a loss did not have in earlier versions, with the value at which it computes what it did then."""


def _without_later_numbers(node: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which losses lack their `LATER_NUMBERS`, so that runs of earlier versions keep their keys."""
    later = LATER_NUMBERS.get(str(node.get("name")), {}) if "_target_" in node else {}
    return {
        key: _without_later_numbers(value) if isinstance(value, Mapping) else value
        for key, value in node.items()
        if key not in later or value != later[key]
    }


def _replaced(node: Mapping[str, Any], parts: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy in which `value` stands at that place, where there is one."""
    copy, part = dict(node), parts[0]
    matching = (
        [key for key in copy if fnmatchcase(str(key), part)] if "*" in part else [part] * (part in copy)
    )
    for key in matching:
        if len(parts) > 1:
            if isinstance(copy[key], Mapping):
                copy[key] = _replaced(copy[key], parts[1:], value)
        elif value is GONE:
            del copy[key]
        else:
            copy[key] = value
    return copy
