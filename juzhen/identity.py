"""What decides the numbers of a job, in four readings. Needs no torch.

`unread` names the keys that a job does not read, `deciding_settings` is what the key of its run is made of,
`stage_settings` what the digest of a stage is made of, `identify` the row of a table. What a model reads, its settings
say (`juzhen.models`).
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from juzhen.core.aliases import with_current_keys, with_old_keys
from juzhen.core.errors import UserError
from juzhen.core.nodes import LATER_NUMBERS, OFF, name_of, numbers_of
from juzhen.core.paths import as_recorded, is_here
from juzhen.core.result import Result
from juzhen.core.safe_open import open_regular_file
from juzhen.encoders.layout import read_layout
from juzhen.encoders.resolve_path import ADAPTER, ADAPTER_WEIGHTS, BASE_FILE, encoder_source
from juzhen.models import settings_of
from juzhen.models.settings import AS_IT_IS, GONE, Job, ModelSettings, Unread, idle_sizes

# What a job does not read.


def unread(job: Job) -> dict[str, Unread]:
    """Dotted pattern of each key, or group of keys, that a job does not read; `*` stands for any one word."""
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
    """Why a dotted key, or a group, is not read by a job, and what to type; None for one that is."""
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
    """The job with what it does not read, or what changes no number, left out or at what stands for it."""
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
    return _without_later_numbers(read)


def is_below(key: str, pattern: str) -> bool:
    """Whether a dotted key is the pattern's, or below it; `*` stands for any one word."""
    parts, expected = key.split("."), pattern.split(".")
    return len(parts) >= len(expected) and all(map(fnmatchcase, parts, expected))


@cache
def is_below_any(key: str, patterns: tuple[str, ...]) -> bool:
    return any(is_below(key, pattern) for pattern in patterns)


Rules = Iterator[tuple[str, Unread]]


def learns(job: Job) -> bool:
    return bool(job.get("dataset")) and settings_of(job["model"]).trains


def _nothing_learnt(job: Job, model: type[ModelSettings]) -> Rules:
    if learns(job):
        return
    why = "nothing is learnt with dataset=[]; leave it out, or name sets: 'dataset=[demo_sts]'"
    for key in (
        *("loss", "training", "optimizer", "augmentation", "schedule", "filter_leaks"),
        *("callbacks.mining", "callbacks.weights", "evaluation.untrained", "evaluation.without_leaks"),
        *("backbone.learning_rate", "backbone.dropout"),
    ):
        yield key, Unread(GONE, why)
    for key, value in model.for_learning.items():
        yield f"model.{key}", Unread(value, why)


def _of_start(job: Job) -> Rules:
    backbone = job.get("backbone") or {}
    if start := job.get("init_from"):
        why = (
            f"init_from={start} takes the place of the backbone. To change the encoder that is there, type "
            "backbone=local backbone.path=<its encoder folder> {key}=… in place of init_from; a learning rate is "
            "optimizer.lr=…"
        )
        yield "backbone", Unread(GONE, why, but=("backbone.learning_rate",))
    rate = (job.get("optimizer") or {}).get("lr")
    if rate != backbone.get("learning_rate"):
        why = f"optimizer.lr={rate} takes its place; type one of the two"
        yield "backbone.learning_rate", Unread(AS_IT_IS, why)
    if is_here(backbone.get("path")):
        why = f"{backbone.get('path')} is a folder here, and a revision is of the hub; leave it out"
        yield "backbone.revision", Unread(AS_IT_IS, why)


def _of_sets(job: Job, model: type[ModelSettings]) -> Rules:
    """What the numbers of sets, stages and augmentation leave unread."""
    if augmentation := job.get("augmentation"):
        views = list(augmentation.get("views") or ())
        why = f"augmentation.views={views} does without; leave it out, or name its view there"
        for key in (*idle_sizes(views), *(() if views else ("probability", "sets"))):
            yield f"augmentation.{key}", Unread(GONE, why)
    stages = _stages(job)
    if all(len(sets) < 2 for _, sets, _ in stages):
        why = "no stage mixes several sets; leave it out"
        for key, value in (("sample_by", "size"), ("temperature", 1.0), ("sets.*.weight", GONE)):
            yield f"schedule.{key}", Unread(value, why)
        for key, value in (("weigh_loss", False), ("sets.*.loss_weight", GONE)):
            yield f"schedule.{key}", Unread(value, why)
    sample_by = _schedule(job).get("sample_by")
    if sample_by in ("uniform", "round_robin", "blend"):
        why = f"schedule.sample_by={sample_by} takes all sets alike; leave it out, or type schedule.sample_by=weight"
        yield "schedule.temperature", Unread(1.0, why)
    if not learns(job):
        return
    for key, value in _overruled(job).items():
        why = "every set or stage has its own in its place; leave it out"
        yield key, Unread(value, why, in_stages=False)
    for name, sets, stage in stages:
        for key, path in OF_EACH_SET.items():
            if _value_at(stage, path) is not None and _all_have(job, sets, key):
                why = (
                    "each set of that stage has its own under schedule.sets, which would count instead; keep one of "
                    "the two"
                )
                yield f"schedule.stages.{name}.{path}", Unread(AS_IT_IS, why)
    loss, sets = job.get("loss") or {}, job["dataset"].values()
    kinds = (
        {model.loss_kind}
        if model.loss_kind
        else {str(node.get("convert_to") or node.get("kind")) for node in sets}
    )
    for kind in () if "_target_" in loss else set(loss) - kinds:
        yield f"loss.{kind}", Unread(AS_IT_IS, "the sets of this job have no such rows; leave it out")
    if all((node.get("learning") or {}).get("temperature") is not None for node in sets):
        why = "every set has its own, dataset.<name>.learning.temperature; leave it out"
        yield "loss.temperature", Unread(AS_IT_IS, why)


def _of_scores(job: Job) -> Rules:
    """What sets that are only scored, and what is measured of them, leave unread."""
    described = [*(job.get("dataset") or {}).values(), *(job.get("evaluate") or {}).values()]
    kinds = {node.get("kind") for node in described if isinstance(node, Mapping)}
    transfer = (job.get("evaluation") or {}).get("transfer")
    if not (transfer or "labelled_text" in kinds):
        why = "no set is classified; leave it out, or name some: evaluation.transfer=[…]"
        yield "evaluation.transfer_limit", Unread(10000, why)
        why = (
            "no set of this job has texts with classes; leave it out, or add one, such as "
            "+dataset@evaluate.tnews=tnews"
        )
        yield "evaluation.clusterings", Unread(GONE, why)
    if not kinds & {"retrieval", "reranking"}:
        why = (
            "no set of this job is ranked; leave it out, or add one, such as "
            "+dataset@evaluate.demo_retrieval=demo_retrieval"
        )
        yield "evaluation.rankings", Unread(GONE, why)
    for key in ("convert_to", "limit", "learning", "grades"):
        why = "the set is scored and not learnt from; leave it out (rows that are scored: evaluation.limit)"
        yield f"evaluate.*.{key}", Unread(GONE, why)
    if not transfer and all(node.get("source") for node in described):
        yield "source", Unread(AS_IT_IS, "every set of this job says itself where it is from; leave it out")


OF_EACH_SET = {"loss": "loss", "batch_size": "training.batch_size"}
"""What a set may have of its own under schedule.sets → the key of the job in whose place it is."""


def _schedule(job: Job) -> Mapping[str, Any]:
    schedule = job.get("schedule")
    return schedule if isinstance(schedule, Mapping) else {}


def _stages(job: Job) -> list[tuple[str, list[str], Mapping[str, Any]]]:
    """Name, sets and own numbers of each stage."""
    schedule, sets = _schedule(job), list(job.get("dataset") or ())
    if schedule.get("name") != "serial":
        return [("", sets, {})]
    described = {
        name: (schedule.get("stages") or {}).get(name) or {} for name in schedule.get("order") or sets
    }
    return [(name, list(node.get("dataset") or [name]), node) for name, node in described.items()]


def _all_have(job: Job, sets: Sequence[str], key: str) -> bool:
    """Whether all of some sets have a value of their own under schedule.sets."""
    own = _schedule(job).get("sets") or {}
    return all((own.get(name) or {}).get(key) is not None for name in sets)


def _overruled(job: Job) -> dict[str, Any]:
    """Keys of the job for which every set, or every stage, has a value of its own → what stands for them."""
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
    """The value at a dotted key; None where there is none."""
    value: Any = node
    for word in key.split("."):
        value = value.get(word) if isinstance(value, Mapping) else None
    return value


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


# What of it decides numbers.

PROMPT_KEYS = ("prompts", "default_prompt_name", "include_prompt")
"""Keys of a backbone: what stands before every sentence, and whether it is pooled."""

NOT_PART_OF_THE_RUN = (
    "hydra", "name", "hardware", "callbacks", "logger", "data_dir", "cache_dir", "output_dir", "run_dir", "resume",
    "trial", "sweep_row",
)  # fmt: skip
"""Top-level keys that change speed, places or messages, not the numbers. Callbacks that decide weights count.

Two values of `hardware` count, too: the precision and compiling, which has another dropout. The accelerator, devices,
threads and micro-batches change rounding and the draws of dropout, as another machine or another seed would.
"""


def without_paths(settings: Any) -> Any:
    """Settings in which models and losses, at any depth, are told by their names alone.

    >>> without_paths({"loss": {"_target_": "juzhen.losses.pairs.Circle", "name": "circle", "margin": 0.2}})
    {'loss': {'name': 'circle', 'margin': 0.2}}
    """
    if isinstance(settings, list):
        return [without_paths(value) for value in settings]
    if not isinstance(settings, Mapping):
        return settings
    if "_target_" in settings:
        name, numbers = name_of(settings), numbers_of(settings)
        off = OFF.get(name, {})
        settings = {"name": name} | {key: value for key, value in numbers.items() if off.get(key) != value}
    return {key: without_paths(value) for key, value in settings.items()}


def deciding_callbacks(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The callbacks that decide the weights. {} by default."""
    nodes = {name: node for name, node in chosen.items() if isinstance(node, Mapping)}
    return {name: without_paths(node) for name, node in nodes.items() if node.get("decides_weights")}


def deciding_optimizer(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    """Its numbers, without a decay by layers where there is none, and without 32 bits: as before these could be set."""
    absent = {"layer_decay": None, "state_bits": 32}
    return {key: value for key, value in optimizer.items() if key not in absent or value != absent[key]}


def deciding_set(described: Mapping[str, Any]) -> dict[str, Any]:
    """A data set's description without what it leaves to the loss: as before it could say how it is learnt from."""
    settings = {
        key: value
        for key, value in described.items()
        if key not in ("symmetric", "grades") or value is not None
    }
    if isinstance(settings.get("learning"), Mapping):
        settings["learning"] = {
            key: value for key, value in settings["learning"].items() if value is not None
        }
    return (
        settings
        if settings.get("learning")
        else {key: value for key, value in settings.items() if key != "learning"}
    )


def deciding_backbone(backbone: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without its name, and without adapter, attention and prompts that it leaves open: as once.

    A path counts as one, however it is spelt: ./a/ is a. The first revision of a built-in encoder counts by its plain
    name, as in results from before there was a second one.
    """
    return {
        key: re.sub(r"^(builtin/.*)@1$", r"\1", os.path.normpath(value))
        if key == "path" and isinstance(value, str)
        else value
        for key, value in backbone.items()
        if key != "name" and not (key in (*PROMPT_KEYS, "adapter", "attention") and value is None)
    }


def deciding_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model without the name that they go by, which changes no numbers; a teacher by its weights."""
    deciding = {key: value for key, value in without_paths(model).items() if key != "variant"}
    if deciding.get("teacher_prompt") is None:
        deciding.pop("teacher_prompt", None)  # runs from before there was such a key stay
    if deciding.get("teacher"):
        with suppress(UserError):  # a teacher that is not there is told of by the job
            deciding["teacher"] = _weights_digest(Path(encoder_source(as_recorded(deciding["teacher"]))))
    return deciding


def with_language(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the model, `language` filled in by the sets of the job where it is null and they agree.

    The sets that are learnt from decide; where nothing is learnt, those that are evaluated on. A set of translations
    counts for both of its languages. Languages whose templates are the same, as those of model=simcse are, agree.
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
    """What of an augmentation decides numbers, a file of translations by its content; {} where it changes nothing."""
    views = list(settings.get("views") or ())
    if not views:
        return {}
    deciding = {key: settings.get(key) for key in ("views", "probability", "sets", *views) if key in settings}
    if "translation" in views:
        path = Path(settings.get("translations") or "").expanduser()
        is_there = path.is_file()  # where it is not, the job will say so
        deciding["translations"] = _file_digest(path, path.stat().st_mtime_ns) if is_there else str(path)
    return deciding


WHOLE_OR_ADAPTER = ("model.safetensors", ADAPTER_WEIGHTS)


def _weights_digest(folder: Path) -> str:
    """Digest of the weights below a run or encoder folder; the path itself where there are none (the job will say)."""
    for encoder in (folder / "encoder", folder):
        first = [encoder / name for name in WHOLE_OR_ADAPTER if (encoder / name).is_file()]
        if first:
            # A head, or layers after pooling, lie in files of their own, and so does what an adapter says of its base.
            files = first[:1]
            files += sorted(path for path in encoder.rglob("*.safetensors") if path not in files)
            files += [path for path in (encoder / name for name in (ADAPTER, BASE_FILE)) if path.is_file()]
            digests = [_file_digest(path, path.stat().st_mtime_ns) for path in files] + _prompt(encoder)
            return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()
    return str(folder)


def _prompt(folder: Path) -> list[str]:
    """What stands before every sentence, and whether it is pooled; nothing where nothing does."""
    with suppress(UserError):  # of broken files the job will speak
        prompts = read_layout(folder).prompts
        return [f"{prompts.text!r} {prompts.include_prompt}"] if prompts.text else []
    return []


@lru_cache(maxsize=8)
def _file_digest(path: Path, modified_ns: int) -> str:
    """Digest of a file; `modified_ns` only tells the cache when it is out of date."""
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The key of a run.


def key_of_settings(deciding: Mapping[str, Any]) -> str:
    """The key of what `deciding_settings` gave: eight hex digits."""
    text = json.dumps(deciding, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def deciding_settings(config: Job) -> dict[str, Any]:
    """Everything that decides the numbers of a run, in plain containers.

    What the job does not read is left out. Models and losses count by their names, wherever their classes lie, a
    backbone by its path. An encoder to start from, and a teacher, count by their weights and their prompt, not by their
    paths. The order of mappings is kept: a curriculum [a, b] is another run than [b, a].
    """
    config = as_read(config)
    deciding = without_paths({key: value for key, value in config.items() if key not in NOT_PART_OF_THE_RUN})
    if isinstance(config.get("backbone"), Mapping):
        deciding["backbone"] = deciding_backbone(config["backbone"])
    if isinstance(config.get("optimizer"), Mapping):
        deciding["optimizer"] = deciding_optimizer(config["optimizer"])
    for group in ("dataset", "evaluate"):
        if isinstance(config.get(group), Mapping):
            deciding[group] |= {
                name: deciding_set(node)
                for name, node in deciding[group].items()
                if isinstance(node, Mapping)
            }
    if isinstance(config.get("schedule"), Mapping):
        deciding["schedule"].pop("store", None)
        if not deciding["schedule"].get("weigh_loss"):  # runs from before there was such a key stay
            deciding["schedule"].pop("weigh_loss", None)
    if config.get("init_from"):
        deciding["init_from"] = _weights_digest(Path(config["init_from"]))
    hardware = config.get("hardware") or {}
    deciding["precision"] = hardware.get("precision")
    if hardware.get("compile"):  # runs from before it counted stay
        deciding["compile"] = True
    if augmentation := deciding_augmentation(deciding.pop("augmentation", None) or {}):
        deciding["augmentation"] = augmentation
    if callbacks := deciding_callbacks(config.get("callbacks") or {}):
        deciding["callbacks"] = callbacks
    deciding["model"] = deciding_model(with_language(config))
    evaluation = (config.get("evaluation") or {}).items()
    deciding["evaluation"] = {
        key: sorted({*value}) if isinstance(value, list) else value  # in whatever order they are asked for
        for key, value in evaluation
        if key != "cache_embeddings" and (key not in ("rankings", "limit") or value)
    }
    return with_old_keys(deciding)


# The digest of a stage.


def stage_settings(
    job: Any, losses: Mapping[str, Any], rows: Mapping[str, Any], weights: Any
) -> dict[str, Any]:
    """All of a stage's job that decides the weights after it, in plain containers.

    job      of the stage, with the types of its keys
    losses   set → kind of its rows and settings of the loss that learns from them
    rows     digests of the rows that are learnt from, and of those that choose weights
    weights  what multiplies the loss of each set; none: nothing does
    """
    training = {key: value for key, value in vars(job.training).items() if key != "checkpoint_every"}
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
        "optimizer": deciding_optimizer(vars(job.optimizer)),
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


# The row of a table.

NOT_PART_OF_THE_ROW = {
    *NOT_PART_OF_THE_RUN,
    *("seed", "evaluate", "evaluation", "dataset", "schedule"),
    "on_bad_row",  # where it ended well nothing else was read
}
"""Configuration that changes no numbers, but for what `_arithmetic` takes of it; `dataset` and `schedule` are told by
what was trained on."""

TRAINING_ONLY = ("loss", "training", "optimizer", "augmentation")
"""Configuration that means nothing for weights that were not trained."""

WEIGHTS_ONLY = ("backbone", "init_from")
"""Configuration that means nothing for a lexical baseline."""

DESCRIPTIONS = ("about", "license", "origin", "rows")
"""Keys of a data set that say something about it, or check it, and change no row."""

CHOICE = ("validate_every", "patience", "monitor")
"""Keys of training that say when validations choose weights: they mean nothing where the last ones are taken."""


GROUPS = {"averaging": "average", "mining": "mining", "set_weights": "weights"}
"""Module of a callback → the group that it is one choice of."""

CHOICES = {"GradNorm": "gradnorm"}
"""Class of a callback → what is typed for it, where that is not the name of the class in lower case."""


@dataclass(frozen=True)
class Identity:
    """What two results share when only their seeds differ.

    trained_on  "a>b" for a curriculum, "a+b" for a mixture, "" for no training, "lexical" for a lexical baseline
    settings    the deciding configuration as sorted (dotted key, value) pairs; models and losses by their names
    backbone    what the backbone is called, "" where it has no name; decides nothing
    unread      patterns of keys that the job does not read; decides nothing
    """

    trained_on: str
    settings: tuple[tuple[str, str], ...]
    backbone: str = field(default="", compare=False)
    unread: tuple[str, ...] = field(default=(), compare=False)

    def reads(self, key: str) -> bool:
        """Whether the job reads a dotted key."""
        return not is_below_any(key, self.unread)


def identify(result: Result, *, before_training: bool) -> Identity:
    """The identity of a result, or of the weights it started from."""
    is_trained = bool(result.trained_on) and not before_training
    job = result.config if is_trained else {**result.config, "dataset": {}}
    config = as_read(job)
    excluded = set(NOT_PART_OF_THE_ROW)
    if not settings_of(config["model"]).trains:
        trained_on, is_trained = "lexical", False
        excluded.update(TRAINING_ONLY, WEIGHTS_ONLY)
    elif not is_trained:
        trained_on = ""
        excluded.update(TRAINING_ONLY)
    else:
        stages = result.trained_on
        trained_on = ">".join(stages) if is_curriculum(result) else "+".join(sorted(stages))
    if merge := config.get("merge"):  # what its parents were trained with, their rows say
        excluded.update(TRAINING_ONLY)
    settings = without_paths({key: value for key, value in config.items() if key not in excluded})
    backbone = settings.get("backbone", {}).get("name") or ""
    if "backbone" in settings:
        settings["backbone"] = deciding_backbone(settings["backbone"])
    if trained_on != "lexical":
        settings |= _arithmetic(config)
    if limit := (config.get("evaluation") or {}).get("limit"):
        settings["evaluation.limit"] = limit
    augmentation = settings.pop("augmentation", None) or {}
    if views := augmentation.get("views"):  # else nothing was changed
        settings["augmentation"] = {**augmentation, "views": " ".join(views)}
    if settings.pop("filter_leaks", False) and is_trained:
        # Then what is evaluated on decides what was trained on.
        settings["filter_leaks"] = "+".join(sorted({*(config.get("evaluate") or {}), *config["dataset"]}))
    if isinstance(training := settings.get("training"), Mapping):
        # Where no dev set could choose weights, the last ones were taken, wherever validations were.
        chosen = result.training.get("selected_on", True)
        idle = {"checkpoint_every", *(() if chosen else CHOICE)}
        settings["training"] = {key: value for key, value in training.items() if key not in idle}
    if is_trained and not merge:
        # A dataset's own view or limit decides too, but only of the sets that this stage has seen.
        seen = [name for stage in result.trained_on for name in stage.split("+")]
        settings["dataset"] = {name: _deciding_rows(config["dataset"].get(name) or {}) for name in seen}
        settings["loss"] = _losses_in_use(settings.get("loss") or {}, settings["dataset"])
        settings |= without_paths(_schedule_of_row(config["schedule"], result.stage, seen))
        settings["callbacks"] = _callbacks(config.get("callbacks") or {})
    flat = tuple(sorted(_flatten(with_old_keys(settings)).items()))
    return Identity(trained_on, flat, backbone, tuple(unread(job)))


def _arithmetic(config: Mapping[str, Any]) -> dict[str, Any]:
    """What numbers are computed in: the same weights and rows give others in bf16, or in 8 bits, by compiled layers,
    which draw another dropout.
    """
    hardware, evaluation = config.get("hardware") or {}, config.get("evaluation") or {}
    settings = {"evaluation.backend": evaluation.get("backend", "torch")}
    settings |= {"hardware.precision": hardware["precision"]} if "precision" in hardware else {}
    return settings | ({"hardware.compile": True} if hardware.get("compile") else {})


def _losses_in_use(loss: Mapping[str, Any], sets: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of a table kind → loss the kinds that the sets have, or are turned into; all where they have none of them."""
    kinds = {described.get("convert_to") or described.get("kind") for described in sets.values()}
    return {kind: node for kind, node in loss.items() if kind in kinds} or loss


def _deciding_rows(described: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the training rows of a set; of its layouts the chosen one."""
    settings = {key: value for key, value in deciding_set(described).items() if key not in DESCRIPTIONS}
    if layouts := described.get("layouts"):
        chosen = described["layout"]
        settings["layouts"] = {chosen: layouts[chosen]} if chosen in layouts else {}
    return settings


def _schedule_of_row(schedule: Mapping[str, Any] | str, stage: int, seen: Sequence[str]) -> dict[str, Any]:
    """What sets, and the stages before this one, had of their own; this one's numbers are the result's."""
    if isinstance(schedule, str):
        return {}
    order = schedule["order"] or seen
    earlier = {str(number): schedule["stages"].get(name) for number, name in enumerate(order[:stage])}
    settings: dict[str, Any] = {
        "schedule.sets": {name: numbers for name, numbers in schedule["sets"].items() if name in seen},
        "schedule.stages": {number: numbers for number, numbers in earlier.items() if numbers},
    }
    usual = {"schedule.sample_by": "size", "schedule.temperature": 1, "schedule.weigh_loss": False}
    settings |= {key: schedule.get(key.removeprefix("schedule."), value) for key, value in usual.items()}
    return {key: value for key, value in settings.items() if value and value != usual.get(key)}


def deciding_choices(result: Result) -> list[str]:
    """What the callbacks are called that decided the weights of a trained row: `weights: gradnorm`, `average: ema`."""
    return [node["name"] for node in _callbacks(as_read(result.config).get("callbacks") or {}).values()]


def _callbacks(chosen: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The numbers of callbacks that decide weights, each with the name of the choice."""
    described = {}
    for name, numbers in deciding_callbacks(chosen).items():
        *_, module, kind = chosen[name]["_target_"].split(".")
        choice = CHOICES.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()
        if module == "mining":
            choice = "ance" if numbers.get("background") else "dynamic"
            choice = "static" if numbers.get("every_steps") is None else choice
        called = name if name == module != "mining" else f"{GROUPS.get(module, name)}: {choice}"
        described[name] = {key: value for key, value in numbers.items() if key != "decides_weights"}
        described[name]["name"] = called
    return described


def is_curriculum(result: Result) -> bool:
    """Several stages. A serial job of one stage that mixes its sets is none, though it names them one by one."""
    schedule = result.config["schedule"]
    if isinstance(schedule, str):
        return schedule == "serial"
    return schedule["name"] == "serial" and len(schedule["order"] or result.config["dataset"]) > 1


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        flat |= _flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: str(value)}
    return flat
