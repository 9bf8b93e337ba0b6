"""Identity of the rows of a matrix, which decides the results that belong to one row, and their labels."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from juzhen.core.aliases import with_old_keys
from juzhen.core.result import Result
from juzhen.core.text import short_where_apart, with_few_digits
from juzhen.identity import (
    LATER,
    NOT_PART_OF_THE_RUN,
    as_read,
    deciding_backbone,
    deciding_callbacks,
    deciding_set,
    is_below_any,
    unread,
    without_paths,
)
from juzhen.models import all_settings, settings_of
from juzhen.models.settings import without

NOT_PART_OF_THE_ROW = {
    *NOT_PART_OF_THE_RUN,
    *("seed", "evaluate", "evaluation", "dataset", "schedule"),
    "on_bad_row",  # a finished run read the same rows
}
"""Keys that do not distinguish rows, apart from those in `_arithmetic`. `dataset` and `schedule` are represented by the
training sets.
"""

TRAINING_ONLY = ("loss", "training", "optimizer", "augmentation")
"""Keys without a meaning for untrained weights."""

WEIGHTS_ONLY = ("backbone", "init_from")
"""Keys without a meaning for a lexical baseline."""

DESCRIPTIONS = ("about", "license", "origin", "rows")
"""Keys of a data set that describe or check it, and change no row."""

CHOICE = ("validate_every", "patience", "monitor")
"""Keys of training that choose a validation. They have no meaning if the last weights are used."""


GROUPS = {"averaging": "average", "mining": "mining", "set_weights": "weights"}
"""Module of a callback → its group."""

CHOICES = {"GradNorm": "gradnorm"}
"""Class of a callback → its option, if that is not the class name in lower case."""


@dataclass(frozen=True)
class Identity:
    """Identity of a result, shared by results that differ only in their seeds.

    Attributes:
        trained_on: "a>b" for a curriculum, "a+b" for a mixture, "" for no training, "lexical" for a lexical baseline.
        settings: Deciding configuration as sorted (dotted key, value) pairs. Models and losses count by name.
        backbone: Name of the backbone, or "". Not compared.
        unread: Patterns of unread keys. Not compared.
    """

    trained_on: str
    settings: tuple[tuple[str, str], ...]
    backbone: str = field(default="", compare=False)
    unread: tuple[str, ...] = field(default=(), compare=False)

    def reads(self, key: str) -> bool:
        """Check whether the job reads a dotted key.

        Args:
            key: Dotted key.

        Returns:
            False if the key or a key above it is unread.
        """
        return not is_below_any(key, self.unread)


def identify(result: Result, *, before_training: bool) -> Identity:
    """Find the identity of a result.

    Args:
        result: Result of a run.
        before_training: True for the row of its initial weights.

    Returns:
        The identity. A lexical baseline has the same one in both cases.
    """
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
    if merge := config.get("merge"):  # the rows of its parents have their training
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
    if views := augmentation.get("views"):  # otherwise nothing was changed
        settings["augmentation"] = {**augmentation, "views": " ".join(views)}
    if settings.pop("filter_leaks", False) and is_trained:
        # Evaluation sets then decide which training rows remain.
        settings["filter_leaks"] = "+".join(sorted({*(config.get("evaluate") or {}), *config["dataset"]}))
    if isinstance(training := settings.get("training"), Mapping):
        # Without a dev set the last weights were used, whatever the validations.
        chosen = result.training.get("selected_on", True)
        idle = {"checkpoint_every", *(() if chosen else CHOICE)}
        kept = without(training, LATER["training"])
        settings["training"] = {key: value for key, value in kept.items() if key not in idle}
    if is_trained and not merge:
        # The conversion or limit of a set decides too, for sets that this stage has seen.
        seen = [name for stage in result.trained_on for name in stage.split("+")]
        settings["dataset"] = {name: _deciding_rows(config["dataset"].get(name) or {}) for name in seen}
        kinds = {each.get("convert_to") or each.get("kind") for each in settings["dataset"].values()}
        loss = settings.get("loss") or {}  # of a loss by row kind those in use, without any all
        settings["loss"] = {kind: node for kind, node in loss.items() if kind in kinds} or loss
        settings |= without_paths(_schedule_of_row(config["schedule"], result.stage, seen))
        settings["callbacks"] = _callbacks(config.get("callbacks") or {})
    flat = tuple(sorted(_flatten(with_old_keys(settings)).items()))
    return Identity(trained_on, flat, backbone, tuple(unread(job)))


def _arithmetic(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the arithmetic: bf16, 8 bits and compiled layers give other numbers for equal weights and rows."""
    hardware, evaluation = config.get("hardware") or {}, config.get("evaluation") or {}
    settings = {"evaluation.backend": evaluation.get("backend", "torch")}
    settings |= {"hardware.precision": hardware["precision"]} if "precision" in hardware else {}
    return settings | ({"hardware.compile": True} if hardware.get("compile") else {})


def _deciding_rows(described: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that decide the training rows of a set. Only the chosen layout counts."""
    settings = {key: value for key, value in deciding_set(described).items() if key not in DESCRIPTIONS}
    if layouts := described.get("layouts"):
        chosen = described["layout"]
        settings["layouts"] = {chosen: layouts[chosen]} if chosen in layouts else {}
    return settings


def _schedule_of_row(schedule: Mapping[str, Any] | str, stage: int, seen: Sequence[str]) -> dict[str, Any]:
    """Settings of sets and earlier stages. The settings of this stage belong to the result."""
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
    """Name the callbacks that decided the weights of a trained row.

    Args:
        result: Result of a trained run.

    Returns:
        Options such as "mining: dynamic" or "gradnorm". Empty without such callbacks.
    """
    return [node["name"] for node in _callbacks(as_read(result.config).get("callbacks") or {}).values()]


def _callbacks(chosen: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Numbers of callbacks that decide weights, each with the name of its choice."""
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
    """True for a curriculum of several stages.

    Args:
        result: Result of a run. One stage that lists its sets is not a curriculum.

    Returns:
        False for one stage.
    """
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


BACKBONE = "backbone.path"
LONGEST = 24
"""Longest value in a label. A longer one is shown from its first difference."""
LONGEST_LABEL = 40

ABSENT = "None"
UNTRAINED = "untrained"
DEFAULT_METHOD = "tf_idf"
"""Default of a lexical baseline, which then has its plain name."""

PHRASES = {
    "backbone.layers": "{} layers",
    "backbone.initialize": "{} weights",
    "backbone.pooling": "{} pooling",
    "backbone.max_length": "{} tokens",
    "backbone.dropout": "dropout {}",
    "backbone.default_prompt_name": "prompt {}",
    "optimizer.lr": "lr {}",
    "training.batch_size": "batches of {}",
    "training.duration": "{}",
    "training.validate_every": "validated every {}",
    "evaluation.backend": "{}",
    "filter_leaks": "without the rows of {}",
    "init_from": "from {}",
    "debug_rows": "{} rows",
    "merge.weights": "weights {}",
    "merge.density": "density {}",
    "merge.scale": "scale {}",
    "merge.base": "from {}",
    "augmentation.views": "augmentation: {}",
    "schedule.sample_by": "sampling: {}",
    "schedule.temperature": "sampling temperature {}",
}
"""Setting → format in a label."""

WORDS = {
    "model.name": {kind.name: kind.label() for kind in all_settings().values()},
    "backbone.adapter.kind": {ABSENT: "", "lora": "LoRA", "dora": "DoRA"},
    "hardware.precision": {"32-true": "", "bf16-mixed": "bf16", "16-mixed": "fp16"},
    "hardware.compile": {"True": "compiled"},
    "evaluation.backend": {"torch": ""},
    "loss.name": {ABSENT: "by_kind"},
}
"""Setting → value → words in a label. Usual values are empty."""

FIRST = (
    "model.name", BACKBONE, "loss.name", "init_from", "backbone.adapter.kind", "hardware.precision",
    "evaluation.backend", "training.duration", "optimizer.lr", "training.batch_size",
)  # fmt: skip
"""Settings that distinguish rows before all others."""


def row_name(result: Result) -> str:
    """Name that a sweep gave to the row of a result.

    Args:
        result: Result of a stage.

    Returns:
        The name, or "" for an earlier stage, or without a name.
    """
    schedule = result.config["schedule"]
    stages = 1
    if is_curriculum(result) and not isinstance(schedule, str):
        stages = len(schedule["order"] or result.config["dataset"])
    return str(result.config.get("sweep_row") or "") if result.stage == stages - 1 else ""


def label_rows(identities: Sequence[Identity], names: Sequence[str] = ()) -> list[str]:
    """Make a distinct label for each row: its name, and the settings that distinguish it from rows of that name.

    Args:
        identities: Identity of each row.
        names: Names from sweeps, or "". A row without a name is named by its training.

    Returns:
        The labels.
    """
    names = [
        name or _name(row) for name, row in zip(names or [""] * len(identities), identities, strict=True)
    ]
    settings = [_settings(identity) for identity in identities]
    backbones = _backbones(identities)
    keys = sorted({key for group in settings for key in group}, key=_in_order)
    phrases: list[dict[str, str]] = [{} for _ in identities]

    def tell(rows: Sequence[int], key: str) -> list[str]:
        """Format a setting of each row. It becomes part of their labels if they differ."""
        values = [settings[row].get(key) if identities[row].reads(key) else None for row in rows]
        texts = [_phrase(key, value, values, backbones) for value in values]
        for row, text in zip(rows, texts, strict=True):
            phrases[row] |= {key: text} if text and len({*texts}) > 1 else {}
        return texts

    def part(rows: Sequence[int], start: int) -> None:
        """Distinguish rows with equal labels so far, by the settings from `start` on."""
        for position, key in enumerate(keys[start:] if len(rows) > 1 else (), start=start + 1):
            texts = tell(rows, key)
            if len({*texts}) > 1:
                for text in dict.fromkeys(texts):
                    part([row for row, other in zip(rows, texts, strict=True) if other == text], position)
                return

    for name in dict.fromkeys(names):
        namesakes = [row for row, other in enumerate(names) if other == name]
        part(namesakes, 0)
        for key in filter(_is_choice, keys):  # none reads as a plain row because another one is told first
            tell(namesakes, key)
    labels = []
    for name, told, row in zip(names, phrases, settings, strict=True):
        words, before = [], ""
        for key in sorted(told, key=keys.index):
            owner, text = _owner(key, row), told[key]
            is_told = owner in (before, "") or _is_choice(key) or text == owner
            words.append(text if is_told else f"{owner} {text}")
            before = owner
        backbone = backbones.get(row.get(BACKBONE, ""))
        if name == UNTRAINED and backbone in words:
            words.remove(backbone)
            name = f"{backbone}, {name}"
        labels.append(", ".join([name, *words]))
    return fitted_labels(labels)


def fitted_labels(labels: Sequence[str]) -> list[str]:
    """Shorten labels to LONGEST_LABEL characters, and number equal ones.

    Args:
        labels: Labels of any length.

    Returns:
        Different labels, in the same order.
    """
    short = [_fitted(label, LONGEST_LABEL) for label in labels]
    counted: list[str] = []
    for place, label in enumerate(short):
        number = f" ({short[: place + 1].count(label)})"
        counted.append(
            label if short.count(label) == 1 else _fitted(label, LONGEST_LABEL - len(number)) + number
        )
    return counted


def _fitted(label: str, length: int) -> str:
    """Shorten a label to a length: keep the first of many sets, and the first and last of many stages.

    >>> _fitted("lcqmc + atec + afqmc + bq + pawsx_zh, cosent", 40)
    'lcqmc + atec + afqmc + 2 more, cosent'
    """
    if len(label) <= length:
        return label
    name, *words = label.split(", ")
    tail = "".join(f", {word}" for word in words)
    sets, stages = name.split(" + "), name.split(" → ")
    if len(stages) > 2:
        label = f"{stages[0]} → … → {stages[-1]}{tail}"
    elif len(sets) > 2:
        texts = [
            f"{' + '.join(sets[:count])} + {len(sets) - count} more{tail}"
            for count in range(len(sets) - 1, 0, -1)
        ]
        label = next((text for text in texts if len(text) <= length), texts[-1])
    half = length // 2
    return label if len(label) <= length else f"{label[:half]}…{label[half + 1 - length :]}"


def label_runs(results: Sequence[Result]) -> list[str]:
    """Make a label for each run. Runs of one row differ by seed, or by folder.

    Args:
        results: Results of the runs.

    Returns:
        Different labels, in the same order.
    """
    rows = [identify(result, before_training=False) for result in results]
    distinct = list(dict.fromkeys(rows))
    names = [
        next(row_name(result) for result, row in zip(results, rows, strict=True) if row == kind)
        for kind in distinct
    ]
    labels = dict(zip(distinct, label_rows(distinct, names), strict=True))
    row_labels = [labels[row] for row in rows]
    seeds = [
        f"{label}, seed {result.seed}" if row_labels.count(label) > 1 else label
        for label, result in zip(row_labels, results, strict=True)
    ]
    return fitted_labels(seeds)


def differing_settings(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """List differing settings that decide numbers, with the value of each run.

    If runs have different losses or models, only the name is listed.

    Args:
        results: Results of the runs, at least one.

    Returns:
        Lines of a dotted key and a value a run. "–" is a setting that a run lacks.
    """
    every = []
    for result in results:
        identity = identify(result, before_training=False)
        facts = {"trained on": identity.trained_on or "nothing", "seed": str(result.seed)}
        every.append(facts | _settings(identity))
    lines, is_merged = [], any("merge" in result.config for result in results)
    for key in dict.fromkeys(key for facts in every for key in facts):
        values = [facts.get(key, ABSENT) for facts in every]
        place = key.rpartition(".")[0]
        names = {str(facts.get(f"{place}.name")) for facts in every} | {
            str(facts.get(f"{key.partition('.')[0]}.name")) for facts in every
        }
        goes_without_saying = len(names - {ABSENT}) > 1 and not key.endswith(".name") and ABSENT in values
        of_training = (*TRAINING_ONLY, "dataset", "schedule", "callbacks")
        of_parents = is_merged and key.partition(".")[0] in of_training
        if len({*values}) > 1 and not (goes_without_saying or of_parents):
            lines.append((key, *("–" if value == ABSENT else value for value in values)))
    return lines


def _name(identity: Identity) -> str:
    settings = dict(identity.settings)
    if identity.trained_on == "lexical":
        method = settings.get("model.method", DEFAULT_METHOD)
        return settings["model.name"] if method == DEFAULT_METHOD else method
    start = settings.get("init_from", ABSENT)
    if merge := settings.get("merge.method"):
        return f"{merge} of {identity.trained_on.replace('+', ' + ')}"
    stages = identity.trained_on.replace("+", " + ").split(">") if identity.trained_on else []
    return " → ".join([*([start] if start != ABSENT else []), *stages]) or UNTRAINED


def _settings(identity: Identity) -> dict[str, str]:
    """Settings of a row. A model has the name of its variant, if there is one."""
    settings = dict(identity.settings)
    variant = settings.pop("model.variant", "")
    return settings | ({"model.name": variant} if variant not in ("", ABSENT) else {})


def _backbones(identities: Sequence[Identity]) -> dict[str, str]:
    """Path of a backbone → its name, or as much of the path as distinguishes it."""
    names = {dict(identity.settings).get(BACKBONE, ""): identity.backbone for identity in identities}
    for parts in (1, 2, 0):  # 0: all of it
        count = Counter(names.values())
        names = {
            path: name if name and count[name] == 1 else "/".join(path.split("/")[-parts:])
            for path, name in names.items()
        }
    return names


def _phrase(key: str, value: str | None, values: Sequence[str | None], backbones: Mapping[str, str]) -> str:
    """Format a setting, or "" if it is usual. `values` are those of all rows to distinguish."""
    if value in (words := WORDS.get(key, {})):
        return words[value]
    word = key.rpartition(".")[2].replace("_", " ")
    if value == "False" and None in values and "True" not in values:  # what is usual is not written
        return f"{word} off"
    if value is None or value in (ABSENT, "False"):
        return WORDS.get(key, {}).get(ABSENT, "")
    if key == BACKBONE:
        return backbones.get(value, value)
    if key.endswith(".name"):
        return value
    if value == "True":
        return word
    if key == "filter_leaks" and len({*values} - {None, ABSENT, "False"}) == 1:
        return "without leaks"  # the names of the sets distinguish no rows
    value = with_few_digits(value, [str(other) for other in values])
    if len(value) > LONGEST:
        return f"{word} {short_where_apart(value, [str(other) for other in values], LONGEST)}"
    return PHRASES.get(key, f"{word} {{}}").format(value)


def _owner(key: str, settings: Mapping[str, str]) -> str:
    """Owner of a setting whose own name is ambiguous: a callback, a set, a stage, an inner loss."""
    group, *parts = key.split(".")
    node = key.rpartition(".")[0]
    if group == "dataset" and parts[1:]:
        sets = {other.split(".")[1] for other in settings if other.startswith("dataset.")}
        return parts[0] if len(sets) > 1 else ""
    if key.startswith(("schedule.sets.", "schedule.stages.")):
        return parts[1] if parts[0] == "sets" else f"stage {int(parts[1]) + 1}"
    if node == "backbone.adapter":
        kind = settings.get(f"{node}.kind", "")
        return WORDS[f"{node}.kind"].get(kind, kind)
    if group in ("callbacks", "loss") and node != group:
        return settings.get(f"{node}.name", "").rpartition(": ")[2]
    return "augmentation" if group == "augmentation" else ""


def _in_order(key: str) -> tuple[int, str, bool, str]:
    """Sort key: FIRST, then names before numbers."""
    group, _, tail = key.partition(".")
    return FIRST.index(key) if key in FIRST else len(FIRST), group, not _is_name(key), tail


def _is_name(key: str) -> bool:
    return key.rpartition(".")[2] in ("name", "path", "kind", "views")


def _is_choice(key: str) -> bool:
    """True for a chosen option of a group that a run can omit."""
    return key in ("augmentation.views", "backbone.adapter.kind", "schedule.sample_by") or (
        key.startswith("callbacks.") and _is_name(key)
    )
