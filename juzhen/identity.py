"""Settings that decide the numbers of a job, in three readings. Needs no torch.

`unread` finds keys that a job does not read. `deciding_settings` is the content of a run key, `stage_settings` that of
a stage digest. `juzhen.report.row_identity` finds the row of a table. Each model declares in its settings which keys it
reads (`juzhen.models`).
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from juzhen.core.aliases import with_current_keys, with_old_keys, with_old_options
from juzhen.core.errors import UserError
from juzhen.core.paths import as_recorded, is_here
from juzhen.core.safe_open import open_regular_file
from juzhen.encoders.layout import read_layout
from juzhen.encoders.resolve_path import ADAPTER, ADAPTER_WEIGHTS, BASE_FILE, encoder_source
from juzhen.models import settings_of
from juzhen.models.settings import (
    AS_IT_IS,
    GONE,
    OFF,
    Job,
    ModelSettings,
    Unread,
    idle_sizes,
    name_of,
    numbers_of,
    without,
    without_later_numbers,
)

# Unread keys.


def unread(job: Job) -> dict[str, Unread]:
    """Return the keys that a job does not read.

    Args:
        job: Composed configuration in plain containers, with names of today or of 0.2.

    Returns:
        Pattern of dotted keys → rule. The first rule of a key counts. Empty without a model.
    """
    if not isinstance(job.get("model"), Mapping):
        return {}
    job = with_current_keys(job)
    model = settings_of(job["model"])
    of_model = [*model.unread(job)]
    rules = [
        *_nothing_learnt(job, model),
        *_of_start(job),
        *of_model,
        *_of_sets(job, model),
        *_of_scores(job),
    ]
    keys: dict[str, Unread] = {}
    for key, rule in rules if model.trains else [*of_model, *rules]:
        keys.setdefault(key, rule)
    return keys


def why_unread(key: str, job: Job) -> str | None:
    """Explain why a job does not read a key, and what to type.

    Args:
        key: Dotted key. Keys of a stage or a set are resolved.
        job: Composed configuration in plain containers.

    Returns:
        The reason and the way out, without full stop. None if the job reads the key.
    """
    for pattern, rule in unread(job).items():
        plain = key
        for owner in ("schedule.stages.", "schedule.sets.") if rule.in_stages else ():
            if key.startswith(owner) and key.count(".") > 2 and not pattern.startswith("schedule."):
                plain = key.split(".", 3)[3]
        is_it = any(is_below(name, pattern) for name in {key, plain})
        if is_it and not any(is_below(key, pattern) for pattern in rule.but):
            return rule.why.replace("{key}", key)
    return None


def as_read(job: Job) -> dict[str, Any]:
    """Copy a job without keys that are unread or change no number.

    Some of these keys are replaced by a default instead, so that older runs keep their keys.

    Args:
        job: Composed configuration in plain containers. It is not changed.

    Returns:
        A copy with the key names of today.
    """
    job = with_current_keys(job)
    instead: dict[str, Any] = {"training.checkpoint_every": "200 steps"}
    if isinstance(job.get("model"), Mapping):
        unchanging = settings_of(job["model"]).changes_nothing
        instead |= {f"model.{key}": value for key, value in unchanging.items()}
    instead |= {pattern: rule.instead for pattern, rule in unread(job).items()}
    read: dict[str, Any] = dict(job)
    for pattern, value in instead.items():
        if value is not AS_IT_IS:
            read = _replaced(read, pattern.split("."), value)
    return without_later_numbers(read)


def is_below(key: str, pattern: str) -> bool:
    """Check whether a dotted key matches a pattern, or is below a match. `*` matches any one part.

    Args:
        key: Dotted key.
        pattern: Dotted key in which a part may have `*`.

    Returns:
        True also for the key itself.
    """
    parts, expected = key.split("."), pattern.split(".")
    return len(parts) >= len(expected) and all(map(fnmatchcase, parts, expected))


@cache
def is_below_any(key: str, patterns: tuple[str, ...]) -> bool:
    """Check whether a dotted key matches one of several patterns, or is below a match.

    Args:
        key: Dotted key.
        patterns: As in `is_below`.

    Returns:
        False for no patterns.
    """
    return any(is_below(key, pattern) for pattern in patterns)


Rules = Iterator[tuple[str, Unread]]


def learns(job: Job) -> bool:
    """Check whether a job trains.

    Args:
        job: Composed configuration in plain containers.

    Returns:
        False without training sets, and for a model that never trains.
    """
    return bool(job.get("dataset")) and settings_of(job["model"]).trains


def _nothing_learnt(job: Job, model: type[ModelSettings]) -> Rules:
    if learns(job):
        return
    why = "nothing is trained with dataset=[]. Leave it out, or name sets: 'dataset=[demo_sts]'"
    for key in (
        *("loss", "training", "optimizer", "augmentation", "schedule", "filter_leaks"),
        *("callbacks.mining", "callbacks.weights", "evaluation.untrained", "evaluation.without_leaks"),
        *("evaluation.verdict", "backbone.learning_rate", "backbone.dropout"),
    ):
        yield key, Unread(GONE, why)
    for key, value in model.for_learning.items():
        yield f"model.{key}", Unread(value, why)


def _of_start(job: Job) -> Rules:
    backbone = job.get("backbone") or {}
    if start := job.get("init_from"):
        why = (
            f"init_from={start} replaces the backbone. To change that encoder, type "
            "backbone=local backbone.path=<its encoder folder> {key}=… instead of init_from. A learning rate is "
            "optimizer.lr=…"
        )
        yield "backbone", Unread(GONE, why, but=("backbone.learning_rate",))
    rate = (job.get("optimizer") or {}).get("lr")
    if rate != backbone.get("learning_rate"):
        why = f"optimizer.lr={rate} replaces it. Type one of the two"
        yield "backbone.learning_rate", Unread(AS_IT_IS, why)
    if is_here(backbone.get("path")):
        why = f"{backbone.get('path')} is a local folder, and only models of the hub have revisions. Leave it out"
        yield "backbone.revision", Unread(AS_IT_IS, why)


def _of_sets(job: Job, model: type[ModelSettings]) -> Rules:
    """Keys that sets, stages and augmentation leave unread."""
    if augmentation := job.get("augmentation"):
        views = list(augmentation.get("views") or ())
        why = f"augmentation.views={views} does not use it. Leave it out, or add its view there"
        for key in (*idle_sizes(views), *(() if views else ("probability", "sets"))):
            yield f"augmentation.{key}", Unread(GONE, why)
    stages = _stages(job)
    if all(len(sets) < 2 for _, sets, _ in stages):
        why = "no stage mixes several sets. Leave it out"
        for key, value in (("sample_by", "size"), ("temperature", 1.0), ("sets.*.weight", GONE)):
            yield f"schedule.{key}", Unread(value, why)
        for key, value in (("weigh_loss", False), ("sets.*.loss_weight", GONE)):
            yield f"schedule.{key}", Unread(value, why)
    sample_by = _schedule(job).get("sample_by")
    if sample_by in ("uniform", "round_robin", "blend"):
        why = f"schedule.sample_by={sample_by} ignores it. Leave it out, or type schedule.sample_by=weight"
        yield "schedule.temperature", Unread(1.0, why)
    if not learns(job):
        return
    for key, value in _overruled(job).items():
        why = "every set or stage has its own value. Leave it out"
        yield key, Unread(value, why, in_stages=False)
    for name, sets, stage in stages:
        for key, path in OF_EACH_SET.items():
            if _value_at(stage, path) is not None and _all_have(job, sets, key):
                why = "each set of that stage has its own value under schedule.sets, which wins. Keep one of the two"
                yield f"schedule.stages.{name}.{path}", Unread(AS_IT_IS, why)
    loss, sets = job.get("loss") or {}, job["dataset"].values()
    kinds = (
        {model.loss_kind}
        if model.loss_kind
        else {str(node.get("convert_to") or node.get("kind")) for node in sets}
    )
    for kind in () if "_target_" in loss else set(loss) - kinds:
        yield f"loss.{kind}", Unread(AS_IT_IS, "the sets of this job have no such rows. Leave it out")
    if all((node.get("learning") or {}).get("temperature") is not None for node in sets):
        why = "every set has its own dataset.<name>.learning.temperature. Leave it out"
        yield "loss.temperature", Unread(AS_IT_IS, why)


def _of_scores(job: Job) -> Rules:
    """Keys that evaluation sets and metrics leave unread."""
    described = [*(job.get("dataset") or {}).values(), *(job.get("evaluate") or {}).values()]
    kinds = {node.get("kind") for node in described if isinstance(node, Mapping)}
    transfer = (job.get("evaluation") or {}).get("transfer")
    if not (transfer or "labelled_text" in kinds):
        why = "no set is classified. Leave it out, or name sets: evaluation.transfer=[…]"
        yield "evaluation.transfer_limit", Unread(10000, why)
        why = (
            "no set of this job has texts with classes. Leave it out, or add one, such as "
            "+dataset@evaluate.tnews=tnews"
        )
        yield "evaluation.clusterings", Unread(GONE, why)
    if not kinds & {"retrieval", "reranking"}:
        why = (
            "no set of this job is ranked. Leave it out, or add one, such as "
            "+dataset@evaluate.demo_retrieval=demo_retrieval"
        )
        yield "evaluation.rankings", Unread(GONE, why)
    for key in ("convert_to", "limit", "learning", "grades"):
        why = "the set is only evaluated. Leave it out (evaluation.limit limits evaluation rows)"
        yield f"evaluate.*.{key}", Unread(GONE, why)
    if not transfer and all(node.get("source") for node in described):
        yield "source", Unread(AS_IT_IS, "every set of this job names its own source. Leave it out")


OF_EACH_SET = {"loss": "loss", "batch_size": "training.batch_size"}
"""Key of a set under schedule.sets → key of the job that it overrides."""


def _schedule(job: Job) -> Mapping[str, Any]:
    schedule = job.get("schedule")
    return schedule if isinstance(schedule, Mapping) else {}


def _stages(job: Job) -> list[tuple[str, list[str], Mapping[str, Any]]]:
    schedule, sets = _schedule(job), list(job.get("dataset") or ())
    if schedule.get("name") != "serial":
        return [("", sets, {})]
    described = {
        name: (schedule.get("stages") or {}).get(name) or {} for name in schedule.get("order") or sets
    }
    return [(name, list(node.get("dataset") or [name]), node) for name, node in described.items()]


def _all_have(job: Job, sets: Sequence[str], key: str) -> bool:
    """Check whether all sets have a value under schedule.sets."""
    own = _schedule(job).get("sets") or {}
    return all((own.get(name) or {}).get(key) is not None for name in sets)


def _overruled(job: Job) -> dict[str, Any]:
    """Keys of the job that every set or stage overrides → replacement."""
    stages = _stages(job)
    keys = {
        path: GONE if key == "loss" else AS_IT_IS
        for key, path in OF_EACH_SET.items()
        if all(_value_at(stage, path) is not None or _all_have(job, sets, key) for _, sets, stage in stages)
    }
    for group in ("training", "optimizer"):
        owned = [set(stage.get(group) or {}) for _, _, stage in stages]
        keys |= {f"{group}.{key}": AS_IT_IS for key in (set.intersection(*owned) if owned else ())}
    return keys


def _value_at(node: Mapping[str, Any], key: str) -> Any:
    value: Any = node
    for word in key.split("."):
        value = value.get(word) if isinstance(value, Mapping) else None
    return value


def _replaced(node: Mapping[str, Any], parts: Sequence[str], value: Any) -> dict[str, Any]:
    """Copy settings with `value` at an existing place."""
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


# Deciding settings.

PROMPT_KEYS = ("prompts", "default_prompt_name", "include_prompt")
"""Keys of a backbone for its prompt, and for pooling the prompt."""

LATER: Any = {"optimizer": {"layer_decay": None, "state_bits": 32}, "training": {"keep": "checkpoint"}}
"""Group → keys that older runs lacked, with the value that these had."""

NOT_PART_OF_THE_RUN = (
    "hydra", "name", "hardware", "callbacks", "logger", "data_dir", "cache_dir", "output_dir", "run_dir", "resume",
    "trial", "sweep_row",
)  # fmt: skip
"""Top-level keys for speed, folders and messages. Callbacks that decide weights are handled separately.

Two values of `hardware` still count: precision, because bf16 gives other products, and compile, because it draws other
dropout masks. Accelerator, devices, threads and micro-batches change rounding and dropout as another seed would, but
not the computation.
"""


def without_paths(settings: Any) -> Any:
    """Replace models and losses, at any depth, by their names and numbers.

    Args:
        settings: Plain data of any depth. They are not changed.

    Returns:
        A copy. Options of losses have their names of 0.2, of which keys are made.

    >>> without_paths({"loss": {"_target_": "juzhen.losses.pairs.Circle", "name": "circle", "margin": 0.2}})
    {'loss': {'name': 'circle', 'margin': 0.2}}
    """
    if isinstance(settings, list):
        return [without_paths(value) for value in settings]
    if not isinstance(settings, Mapping):
        return settings
    if "_target_" in settings:
        name = name_of(settings)
        off = OFF.get(name, {})
        read = {key: value for key, value in settings.items() if off.get(key) != value}
        settings = {"name": name} | numbers_of(with_old_options(read))
    return {key: without_paths(value) for key, value in settings.items()}


def deciding_callbacks(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the callbacks that decide the weights.

    Args:
        chosen: Name → settings of a callback. By default a callback does not decide the weights.

    Returns:
        Name → settings of those with `decides_weights`.
    """
    nodes = {name: node for name, node in chosen.items() if isinstance(node, Mapping)}
    return {name: without_paths(node) for name, node in nodes.items() if node.get("decides_weights")}


def deciding_set(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of a data set, without later keys that it leaves to the loss.

    Args:
        described: Settings of the set.

    Returns:
        A copy.
    """
    settings = {
        key: value
        for key, value in described.items()
        if key not in ("symmetric", "grades") or value is not None
    }
    if isinstance(settings.get("learning"), Mapping):
        settings["learning"] = {
            key: value for key, value in settings["learning"].items() if value is not None
        }
    if not settings.get("learning"):
        settings.pop("learning", None)
    return settings


def deciding_backbone(backbone: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a backbone, without its name and without an unset adapter, attention and prompt.

    Spellings of one path, such as ./a/ and a, are equal. The first revision of a built-in encoder has its plain name,
    as in older results.

    Args:
        backbone: Settings of the group `backbone`.

    Returns:
        A copy.
    """
    return {
        key: re.sub(r"^(builtin/.*)@1$", r"\1", os.path.normpath(value))
        if key == "path" and isinstance(value, str)
        else value
        for key, value in backbone.items()
        if key != "name" and not (key in (*PROMPT_KEYS, "adapter", "attention") and value is None)
    }


def deciding_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a model without its variant. A teacher counts by its weights.

    Args:
        model: Settings of the group `model`, with its language filled in.

    Returns:
        A copy, with a digest instead of the teacher's path. A missing teacher keeps its path.
    """
    deciding = {key: value for key, value in without_paths(model).items() if key != "variant"}
    if deciding.get("teacher_prompt") is None:
        deciding.pop("teacher_prompt", None)  # older runs lack the key
    if deciding.get("teacher"):
        with suppress(UserError):  # the job itself refuses a missing teacher
            deciding["teacher"] = _weights_digest(Path(encoder_source(as_recorded(deciding["teacher"]))))
    return deciding


def with_language(config: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in `language` of a model from the sets of the job, if it is null and the sets agree.

    Training sets decide. Without training, evaluation sets decide. A set of translations counts for both languages.
    Languages with equal templates agree, as in model=simcse.

    Args:
        config: Composed configuration in plain containers.

    Returns:
        A copy of its part `model`. `language` stays null if the sets disagree.
    """
    model = dict(config.get("model") or {})
    if model.get("language", "") is not None:
        return model
    sets = config.get("dataset") or config.get("evaluate") or {}
    languages = [word for described in sets.values() for word in (described.get("language") or "").split("-")]
    templated = [language for language in dict.fromkeys(languages) if language in model["templates"]]
    unused = () if model.get("use_negative") else ("negative",)
    texts = [
        {view: text for view, text in model["templates"][language].items() if view not in unused}
        for language in templated
    ]
    if templated and all(text == texts[0] for text in texts):
        model["language"] = templated[0]
    return model


def deciding_augmentation(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an augmentation that decide numbers. A file of translations counts by its content.

    Args:
        settings: Settings of the group `augmentation`.

    Returns:
        The settings with a digest of the file. {} without views.
    """
    views = list(settings.get("views") or ())
    if not views:
        return {}
    deciding = {key: settings.get(key) for key in ("views", "probability", "sets", *views) if key in settings}
    if "translation" in views:
        path = Path(settings.get("translations") or "").expanduser()
        is_there = path.is_file()  # the job itself refuses a missing file
        deciding["translations"] = _file_digest(path, path.stat().st_mtime_ns) if is_there else str(path)
    return deciding


WHOLE_OR_ADAPTER = ("model.safetensors", ADAPTER_WEIGHTS)


def _weights_digest(folder: Path) -> str:
    """Digest of the weights below a run or encoder folder, or the path if there are none. The job reports that."""
    for encoder in (folder / "encoder", folder):
        first = [encoder / name for name in WHOLE_OR_ADAPTER if (encoder / name).is_file()]
        if first:
            # A head, layers after pooling, and the base of an adapter have separate files.
            files = first[:1]
            files += sorted(path for path in encoder.rglob("*.safetensors") if path not in files)
            files += [path for path in (encoder / name for name in (ADAPTER, BASE_FILE)) if path.is_file()]
            digests = [_file_digest(path, path.stat().st_mtime_ns) for path in files] + _prompt(encoder)
            return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()
    return str(folder)


def _prompt(folder: Path) -> list[str]:
    """The prompt of an encoder and whether it is pooled, if it has a prompt."""
    with suppress(UserError):  # the job itself refuses broken files
        prompts = read_layout(folder).prompts
        return [f"{prompts.text!r} {prompts.include_prompt}"] if prompts.text else []
    return []


@lru_cache(maxsize=8)
def _file_digest(path: Path, modified_ns: int) -> str:
    """Digest of a file. `modified_ns` only keeps the cache up to date."""
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The key of a run.


def key_of_settings(deciding: Mapping[str, Any]) -> str:
    """Compute a run key.

    Args:
        deciding: Output of `deciding_settings`. Its order counts.

    Returns:
        Eight hexadecimal digits.
    """
    text = json.dumps(deciding, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def deciding_settings(config: Job) -> dict[str, Any]:
    """Collect every setting that decides the numbers of a run.

    Unread keys are left out. Models and losses count by name, wherever their classes are defined, and a backbone by
    path. An initial encoder and a teacher count by weights and prompt. The order of mappings is kept, because a
    curriculum [a, b] is not [b, a].

    Args:
        config: Composed configuration in plain containers. It is not changed.

    Returns:
        Plain data with the key names of 0.2.
    """
    config = as_read(config)
    deciding = without_paths({key: value for key, value in config.items() if key not in NOT_PART_OF_THE_RUN})
    if isinstance(config.get("backbone"), Mapping):
        deciding["backbone"] = deciding_backbone(config["backbone"])
    for group, later in LATER.items():
        if isinstance(config.get(group), Mapping):
            deciding[group] = without(config[group], later)
    for group in ("dataset", "evaluate"):
        if isinstance(config.get(group), Mapping):
            deciding[group] |= {
                name: deciding_set(node)
                for name, node in deciding[group].items()
                if isinstance(node, Mapping)
            }
    if isinstance(config.get("schedule"), Mapping):
        deciding["schedule"].pop("store", None)
        if not deciding["schedule"].get("weigh_loss"):  # older runs lack the key
            deciding["schedule"].pop("weigh_loss", None)
    if config.get("init_from"):
        deciding["init_from"] = _weights_digest(Path(config["init_from"]))
    hardware = config.get("hardware") or {}
    deciding["precision"] = hardware.get("precision")
    if hardware.get("compile"):  # older runs lack the key
        deciding["compile"] = True
    if augmentation := deciding_augmentation(deciding.pop("augmentation", None) or {}):
        deciding["augmentation"] = augmentation
    if callbacks := deciding_callbacks(config.get("callbacks") or {}):
        deciding["callbacks"] = callbacks
    deciding["model"] = deciding_model(with_language(config))
    evaluation = (config.get("evaluation") or {}).items()
    deciding["evaluation"] = {
        key: sorted({*value}) if isinstance(value, list) else value  # the order does not matter
        for key, value in evaluation
        if key not in ("cache_embeddings", "verdict") and (key not in ("rankings", "limit") or value)
    }
    return with_old_keys(deciding)


# The digest of a stage.


def stage_settings(
    job: Any, losses: Mapping[str, Any], rows: Mapping[str, Any], weights: Any
) -> dict[str, Any]:
    """Collect every setting that decides the weights after a stage.

    Args:
        job: Job of the stage.
        losses: Set → row type and settings of its loss.
        rows: Digests of training rows, and of rows that choose weights.
        weights: Factor for the loss of each set, or nothing.

    Returns:
        Plain data with the key names of 0.2.
    """
    training = without(vars(job.training), LATER["training"])
    training.pop("checkpoint_every")
    schedule = job.schedule
    sampling = [
        schedule.sample_by,
        schedule.temperature,
        {name: [numbers.weight, numbers.batch_size] for name, numbers in schedule.sets.items()},
    ]
    deciding = {
        "seed": job.seed,
        "precision": job.hardware.precision,
        "compile": job.hardware.compile,
        "model": deciding_model(job.model),
        "loss": {name: [kind, without_paths(loss)] for name, (kind, loss) in losses.items()},
        "training": training,
        "optimizer": without(vars(job.optimizer), LATER["optimizer"]),
        "sampling": sampling if len(losses) > 1 or schedule.sets else [],
        **rows,
    }
    if weights:
        deciding["loss_weights"] = weights
    if augmentation := deciding_augmentation(vars(job.augmentation)):
        deciding["augmentation"] = augmentation
    if callbacks := deciding_callbacks(job.callbacks):
        deciding["callbacks"] = callbacks
    return with_old_keys(deciding)
