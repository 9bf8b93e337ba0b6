"""Which keys a job reads: those that it leaves unread are refused where typed, and in no key of a run and no row.

`RULES` is the table. It is read by `launch.preflight`, by `launch.naming.run_key` and by `juzhen.report.identity`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from juzhen.core.named import LEXICAL, name_of

Job = Mapping[str, Any]
"""A composed configuration in plain containers, of today or as a result has stored it."""

GONE, AS_IT_IS = object(), object()
"""What stands for an unread key in the key of a run and in its row: nothing; its value, for what only speaks to
people, or could not be typed."""

SIZED_VIEWS = {
    "delete": 0.1,
    "repeat": 0.2,
    "cutoff": 0.2,
    "shuffle": 4,
    "synonym": 0.3,
    "translations": None,
}
"""Key of a view's size → its value where the view is not among those that are chosen."""

VIEW_OF_KEY = {"translations": "translation"}

LEARNING_KEYS: dict[str, dict[str, Any]] = {
    "CrossEncoder": {"symmetric_training": False},
    "CropEncoder": dict.fromkeys(("shares", "delete", "neighbour_share", "mlm_weight", "mask_rate"), GONE),
    "ViewEncoder": dict.fromkeys(("views", "changes_anchor", *SIZED_VIEWS), GONE),
    "Guided": dict.fromkeys(("teacher", "teacher_revision", "teacher_prompt"), GONE),
}
"""Class of a model → its keys that are about learning alone, and what stands for them where nothing is learnt."""

FROM_TEXT = ("MaskedLanguageModel", "CropEncoder", "ViewEncoder", "CotEncoder")
"""Models that make rows of their own from sentences: none of them comes twice in a batch."""

MADE = {
    "CropEncoder": "positive_pair",
    "ViewEncoder": "positive_pair",
    "CotEncoder": "positive_pair",
    "Distill": "sentence",
    "DistillTranslations": "sentence",
}
"""Class of a model → kind of the rows that it makes, for which its loss is chosen."""

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


def model_class(job: Job) -> str:
    return str((job.get("model") or {}).get("_target_", "")).rpartition(".")[2]


def is_lexical(job: Job) -> bool:
    return name_of(job["model"]) in LEXICAL or model_class(job) in ("Lexical", "BM25")


def learns(job: Job) -> bool:
    return bool(job.get("dataset")) and not is_lexical(job)


def is_model(job: Job, *names: str) -> bool:
    return model_class(job) in names


def _schedule(job: Job) -> Mapping[str, Any]:
    found = job.get("schedule")
    return found if isinstance(found, Mapping) else {}


def _stages(job: Job) -> list[tuple[str, list[str], Mapping[str, Any]]]:
    """Name, sets and own numbers of each stage."""
    schedule, sets = _schedule(job), list(job.get("dataset") or ())
    if schedule.get("name") != "serial":
        return [("", sets, {})]
    described = {
        name: (schedule.get("stages") or {}).get(name) or {} for name in schedule.get("order") or sets
    }
    return [(name, list(one.get("dataset") or [name]), one) for name, one in described.items()]


def _own(job: Job, name: str, key: str) -> Any:
    """What a set has of its own under schedule.sets."""
    return (((_schedule(job).get("sets") or {}).get(name)) or {}).get(key)


def _overruled(job: Job) -> dict[str, Any]:
    """Keys of the job for which every set, or every stage, has a value of its own."""
    stages, found = _stages(job), {}
    for key, place in (("loss", "loss"), ("batch_size", "training.batch_size")):
        by_stage = [
            _below(one, place) is not None or all(_own(job, name, key) is not None for name in sets)
            for _, sets, one in stages
        ]
        if all(by_stage):
            found[place] = GONE if key == "loss" else AS_IT_IS
    for group in ("training", "optimizer"):
        owned = [set(one.get(group) or {}) for _, _, one in stages]
        found |= {f"{group}.{key}": AS_IT_IS for key in (set.intersection(*owned) if owned else ())}
    return found


def _overruled_in_stages(job: Job) -> dict[str, Any]:
    """Numbers of stages that a set of theirs has of its own."""
    return {
        f"schedule.stages.{name}.{place}": AS_IT_IS
        for name, sets, one in _stages(job)
        for key, place in (("loss", "loss"), ("batch_size", "training.batch_size"))
        if _below(one, place) is not None and any(_own(job, each, key) is not None for each in sets)
    }


def _kinds(job: Job) -> set[str]:
    """Kinds of examples that losses are chosen for."""
    if made := MADE.get(model_class(job)):
        return {made}
    return {str(one.get("view") or one.get("kind")) for one in job["dataset"].values()}


def _unused_losses(job: Job) -> dict[str, Any]:
    loss = job.get("loss") or {}
    kinds = () if "_target_" in loss else set(loss) - _kinds(job)
    return {f"loss.{kind}": AS_IT_IS for kind in kinds}


def _unused_views(group: str, job: Job) -> dict[str, Any]:
    settings = job.get(group) or {}
    chosen = list(settings.get("views") or ())
    keys: dict[str, Any] = {
        key: one for key, one in SIZED_VIEWS.items() if VIEW_OF_KEY.get(key, key) not in chosen
    }
    if not chosen:
        keys |= {"changes_anchor": False} if group == "model" else {"probability": GONE, "sets": GONE}
    return {f"{group}.{key}": one if group == "model" else GONE for key, one in keys.items()}


def _templates(job: Job) -> dict[str, Any]:
    """Keys of a model with templates that its other keys leave without a meaning."""
    model = job["model"]
    language, templates = model.get("language"), model.get("templates") or {}
    if language not in templates:  # sets do not agree, which matters to a job that learns alone
        return {}
    keys: dict[str, Any] = {f"model.templates.{one}": GONE for one in templates if one != language}
    if templates[language].get("stage_2") is None:
        keys |= {"model.end_to_end": True, "model.match_norm": False}
    if not model.get("use_negative"):
        keys[f"model.templates.{language}.negative"] = GONE
    return keys


def _has(job: Job, *kinds: str) -> bool:
    every = [*(job.get("dataset") or {}).values(), *(job.get("evaluate") or {}).values()]
    return any(one.get("kind") in kinds for one in every if isinstance(one, Mapping))


def _are_built_in(job: Job) -> bool:
    every = [*(job.get("dataset") or {}).values(), *(job.get("evaluate") or {}).values()]
    return not (job.get("evaluation") or {}).get("transfer") and all(one.get("source") for one in every)


def _is_here(path: Any) -> bool:
    """Whether an encoder lies in a folder, or in the box: a revision is of the hub."""
    text = str(path or "")
    return text.startswith("builtin/") or Path(text).expanduser().is_dir()


def _below(node: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; None where there is none."""
    value: Any = node
    for word in key.split("."):
        value = value.get(word) if isinstance(value, Mapping) else None
    return value


def _all_sets_have(job: Job, key: str) -> bool:
    own = [(one.get("learning") or {}).get(key) for one in job["dataset"].values()]
    return all(one is not None for one in own)


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
    Rule(lambda job: is_model(job, "BM25"), {"evaluation.transfer": GONE}, "BM25 gives no features; {pick}"),
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
            | {"evaluation.untrained": GONE, "evaluation.without_leaks": GONE, "backbone.learning_rate": GONE}
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
        lambda job: _is_here((job.get("backbone") or {}).get("path")),
        {"backbone.revision": AS_IT_IS},
        "{path} is a folder here, and a revision is of the hub; {pick}",
    ),
    Rule(
        lambda job: _is_here(job["model"].get("teacher")),
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
        },
        "a cross-encoder has no embeddings; {pick}, or choose what its head sees: model.pooling=cls or mean",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoder"),
        {"evaluation.backend": "torch", "evaluation.cache_embeddings": False, "evaluation.transfer": GONE},
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
        _templates,
        "the templates are those of model.language={language}, with stage_2={stage_2} and "
        "use_negative={use_negative}, which leave it unread",
    ),
    Rule(
        lambda job: is_model(job, "ViewEncoder"),
        partial(_unused_views, "model"),
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
        partial(_unused_views, "augmentation"),
        "augmentation.views={changes} does without; {pick}, or name its view there",
    ),
    Rule(
        lambda job: all(len(sets) < 2 for _, sets, _ in _stages(job)),
        {"schedule.sample_by": "size", "schedule.temperature": 1.0, "schedule.sets.*.weight": GONE},
        "no stage mixes several sets; {pick}",
    ),
    Rule(learns, _overruled, "every set or stage has its own in its place; {pick}"),
    Rule(
        learns,
        _overruled_in_stages,
        "a set of that stage has its own under schedule.sets, which would count instead; keep one of the two",
    ),
    Rule(learns, _unused_losses, "the sets of this job have no such rows; {pick}"),
    Rule(
        lambda job: learns(job) and _all_sets_have(job, "temperature"),
        {"loss.temperature": AS_IT_IS},
        "every set has its own, dataset.<name>.learning.temperature; {pick}",
    ),
    Rule(
        lambda job: not ((job.get("evaluation") or {}).get("transfer") or _has(job, "labelled_text")),
        {"evaluation.transfer_limit": 10000},
        "no set is classified; {pick}, or name some: evaluation.transfer=[…]",
    ),
    Rule(
        lambda job: not _has(job, "retrieval", "reranking"),
        {"evaluation.rankings": GONE},
        "no set of this job is ranked; {pick}, or add one, such as +dataset@evaluate.demo_retrieval=demo_retrieval",
    ),
    Rule(
        lambda job: True,
        dict.fromkeys(("evaluate.*.view", "evaluate.*.limit", "evaluate.*.learning"), GONE),
        "the set is scored and not learnt from; {pick} (rows that are scored: evaluation.limit)",
    ),
    Rule(
        _are_built_in,
        {"source": AS_IT_IS},
        "every set of this job says itself where it is from; {pick}",
    ),
)
"""Rules, the first one that speaks of a key gives the reason."""

ONLY_WORDS = {"training.checkpoint_every": "200 steps", "model.untrained_mask": False}
"""Keys that change no numbers though they are read, and what stands for them in the key of a run and in its row."""


def unread(job: Job) -> dict[str, Rule]:
    """Dotted pattern of each key, or group of keys, that the job does not read → the rule that says so."""
    found: dict[str, Rule] = {}
    for rule in RULES if isinstance(job.get("model"), Mapping) else ():
        if rule.when(job):
            found |= {key: rule for key in rule.of(job) if key not in found}
    return found


def why_unread(key: str, job: Job) -> str | None:
    """Why a dotted key, or a group, is not read by a job, and what to type; None for one that is."""
    for pattern, rule in unread(job).items():
        plain = key
        for owner in ("schedule.stages.", "schedule.sets."):  # their keys are those of the job
            if key.startswith(owner) and key.count(".") > 2 and not pattern.startswith("schedule."):
                plain = key.split(".", 3)[3]
        is_it = any(_matches(one, pattern) for one in {key, plain})
        if is_it and not any(_matches(key, one) for one in rule.but):
            return rule.why.format(key=key, pick=PICK, **_words(job))
    return None


def _matches(key: str, pattern: str) -> bool:
    words, wanted = key.split("."), pattern.split(".")
    return len(words) >= len(wanted) and all(map(fnmatchcase, words, wanted))


def _words(job: Job) -> dict[str, Any]:
    """What reasons tell of the job."""
    model, templates = job["model"], job["model"].get("templates") or {}
    return {
        "model": f"model={name_of(model)}",
        "init_from": job.get("init_from"),
        "lr": _below(job, "optimizer.lr"),
        "path": _below(job, "backbone.path"),
        "teacher": model.get("teacher"),
        "language": model.get("language"),
        "stage_2": "null" if _below(templates, f"{model.get('language')}.stage_2") is None else "…",
        "use_negative": str(model.get("use_negative")).lower(),
        "views": f"model.views={list(model.get('views') or ())}",
        "changes": list(_below(job, "augmentation.views") or ()),
    }


def as_read(job: Job) -> dict[str, Any]:
    """The job with what it does not read, or what changes no number, left out or at what stands for it."""
    instead: dict[str, Any] = dict(ONLY_WORDS)
    for pattern, rule in unread(job).items():
        instead[pattern] = rule.of(job)[pattern]
    found: dict[str, Any] = dict(job)
    for pattern, value in instead.items():
        if value is not AS_IT_IS:
            found = _replaced(found, pattern.split("."), value)
    return found


def _replaced(node: Mapping[str, Any], words: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy in which `value` stands at that place, where there is one."""
    copy = dict(node)
    for key in _named(copy, words[0]):
        if len(words) > 1:
            if isinstance(copy[key], Mapping):
                copy[key] = _replaced(copy[key], words[1:], value)
        elif value is GONE:
            del copy[key]
        else:
            copy[key] = value
    return copy


def _named(node: Mapping[str, Any], word: str) -> Iterator[str]:
    yield from [key for key in node if fnmatchcase(str(key), word)]
