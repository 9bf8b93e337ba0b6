"""Which keys a job reads: those that it leaves unread are refused where typed, and in no key of a run and no row.

`juzhen.core.reading_rules` is the table. Who reads it: `launch.preflight`, `launch.naming.run_key`,
`juzhen.report.identity`.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from juzhen.core.named import name_of
from juzhen.core.reading_jobs import AS_IT_IS, GONE, PICK, Job, Rule, value_at
from juzhen.core.reading_rules import RULES

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
