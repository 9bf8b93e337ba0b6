"""What a composed job says of itself: its model, sets and stages, and which of its keys others of them leave unread."""

from collections.abc import Mapping
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
    "CrossEncoderModule": {"symmetric_training": False},
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
    "DistillModule": "sentence",
    "DistillTranslations": "sentence",
}
"""Class of a model → kind of the rows that it makes, for which its loss is chosen."""


def model_class(job: Job) -> str:
    return str((job.get("model") or {}).get("_target_", "")).rpartition(".")[2]


def is_lexical(job: Job) -> bool:
    return name_of(job["model"]) in LEXICAL or model_class(job) in ("Lexical", "BM25Module")


def learns(job: Job) -> bool:
    return bool(job.get("dataset")) and not is_lexical(job)


def is_model(job: Job, *names: str) -> bool:
    return model_class(job) in names


def schedule_of(job: Job) -> Mapping[str, Any]:
    schedule = job.get("schedule")
    return schedule if isinstance(schedule, Mapping) else {}


def stages_of(job: Job) -> list[tuple[str, list[str], Mapping[str, Any]]]:
    """Name, sets and own numbers of each stage."""
    schedule, sets = schedule_of(job), list(job.get("dataset") or ())
    if schedule.get("name") != "serial":
        return [("", sets, {})]
    described = {
        name: (schedule.get("stages") or {}).get(name) or {} for name in schedule.get("order") or sets
    }
    return [(name, list(node.get("dataset") or [name]), node) for name, node in described.items()]


def set_value(job: Job, name: str, key: str) -> Any:
    """What a set has of its own under schedule.sets."""
    return (((schedule_of(job).get("sets") or {}).get(name)) or {}).get(key)


def overruled(job: Job) -> dict[str, Any]:
    """Keys of the job for which every set, or every stage, has a value of its own."""
    stages, keys = stages_of(job), {}
    for key, path in (("loss", "loss"), ("batch_size", "training.batch_size")):
        by_stage = [
            value_at(node, path) is not None or all(set_value(job, name, key) is not None for name in sets)
            for _, sets, node in stages
        ]
        if all(by_stage):
            keys[path] = GONE if key == "loss" else AS_IT_IS
    for group in ("training", "optimizer"):
        owned = [set(stage.get(group) or {}) for _, _, stage in stages]
        keys |= {f"{group}.{key}": AS_IT_IS for key in (set.intersection(*owned) if owned else ())}
    return keys


def overruled_in_stages(job: Job) -> dict[str, Any]:
    """Numbers of stages that all their sets have of their own."""
    return {
        f"schedule.stages.{name}.{job_key}": AS_IT_IS
        for name, sets, stage in stages_of(job)
        for key, job_key in (("loss", "loss"), ("batch_size", "training.batch_size"))
        if value_at(stage, job_key) is not None
        and all(set_value(job, each, key) is not None for each in sets)
    }


def kinds_of(job: Job) -> set[str]:
    """Kinds of examples that losses are chosen for."""
    if kind := MADE.get(model_class(job)):
        return {kind}
    return {str(described.get("view") or described.get("kind")) for described in job["dataset"].values()}


def unused_losses(job: Job) -> dict[str, Any]:
    loss = job.get("loss") or {}
    kinds = () if "_target_" in loss else set(loss) - kinds_of(job)
    return {f"loss.{kind}": AS_IT_IS for kind in kinds}


def unused_views(group: str, job: Job) -> dict[str, Any]:
    settings = job.get(group) or {}
    chosen = list(settings.get("views") or ())
    keys: dict[str, Any] = {
        key: reason for key, reason in SIZED_VIEWS.items() if VIEW_OF_KEY.get(key, key) not in chosen
    }
    if not chosen:
        keys |= {"changes_anchor": False} if group == "model" else {"probability": GONE, "sets": GONE}
    return {f"{group}.{key}": reason if group == "model" else GONE for key, reason in keys.items()}


def unread_templates(job: Job) -> dict[str, Any]:
    """Keys of a model with templates that its other keys leave without a meaning."""
    model = job["model"]
    language, templates = model.get("language"), model.get("templates") or {}
    if language is None:
        of_sets = {
            node.get("language") for node in (job.get("dataset") or {}).values() if isinstance(node, Mapping)
        }
        language = of_sets.pop() if len(of_sets) == 1 else None
    if language not in templates:  # sets do not agree, which matters to a job that learns alone
        return {}
    keys: dict[str, Any] = {
        f"model.templates.{name_of_language}": GONE
        for name_of_language in templates
        if name_of_language != language
    }
    if templates[language].get("stage_2") is None:
        keys |= {"model.end_to_end": True, "model.match_norm": False}
    if not model.get("use_negative"):
        keys[f"model.templates.{language}.negative"] = GONE
    return keys


def has_loss(job: Job, name: str) -> bool:
    """Whether a set, a stage or the job itself is given a loss of that name."""
    schedule = schedule_of(job)
    owners = [job, *(schedule.get("stages") or {}).values(), *(schedule.get("sets") or {}).values()]
    losses = [
        node["loss"] for node in owners if isinstance(node, Mapping) and isinstance(node.get("loss"), Mapping)
    ]
    each = [node for loss in losses for node in ([loss] if "_target_" in loss else loss.values())]
    return any(isinstance(node, Mapping) and name in _names_of_loss(node) for node in each)


def _names_of_loss(node: Mapping[str, Any]) -> list[str]:
    """Its name, and that of the loss that it is made around."""
    inner = node.get("of")
    return [name_of(node), *(_names_of_loss(inner) if isinstance(inner, Mapping) else [])]


def has_kind(job: Job, *kinds: str) -> bool:
    sets = [*(job.get("dataset") or {}).values(), *(job.get("evaluate") or {}).values()]
    return any(described.get("kind") in kinds for described in sets if isinstance(described, Mapping))


def are_built_in(job: Job) -> bool:
    sets = [*(job.get("dataset") or {}).values(), *(job.get("evaluate") or {}).values()]
    return not (job.get("evaluation") or {}).get("transfer") and all(
        described.get("source") for described in sets
    )


def is_here(path: Any) -> bool:
    """Whether an encoder lies in a folder, or is built in: a revision is of the hub."""
    text = str(path or "")
    return text.startswith("builtin/") or Path(text).expanduser().is_dir()


def value_at(node: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; None where there is none."""
    value: Any = node
    for word in key.split("."):
        value = value.get(word) if isinstance(value, Mapping) else None
    return value


def all_sets_have(job: Job, key: str) -> bool:
    values = [(node.get("learning") or {}).get(key) for node in job["dataset"].values()]
    return all(value is not None for value in values)
