"""Which results belong to one row of a matrix, and what that row is called."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from juzhen.core.named import (
    LEXICAL,
    NOT_PART_OF_THE_RUN,
    deciding_backbone,
    deciding_callbacks,
    deciding_set,
    name_of,
    without_paths,
)
from juzhen.core.reading import as_read, is_below, unread
from juzhen.core.result import Result
from juzhen.core.texts import short_where_apart

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

BACKBONE = "backbone.path"
LONGEST = 24
"""Characters of a value that a label shows; of a longer one, those from where it is another."""

ABSENT = "None"
UNTRAINED = "untrained"
DEFAULT_METHOD = "tf_idf"
"""Of a lexical baseline, which then goes by its name alone."""

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
}
"""Setting → how a label says it."""

PRECISIONS = {"32-true": "float32", "bf16-mixed": "bf16", "16-mixed": "fp16"}

GO_WITH = {"optimizer": ("model.name", BACKBONE), "training": ("model.name",), "backbone": (BACKBONE,)}
"""Group of settings → others that it follows: that it differs between rows that differ in these goes without saying."""


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
        return not any(is_below(key, pattern) for pattern in self.unread)


def identify(result: Result, *, before_training: bool) -> Identity:
    """The identity of a result, or of the weights it started from."""
    is_trained = bool(result.trained_on) and not before_training
    job = result.config if is_trained else {**result.config, "dataset": {}}
    config = as_read(job)
    excluded = set(NOT_PART_OF_THE_ROW)
    if name_of(config["model"]) in LEXICAL:
        trained_on, is_trained = "lexical", False
        excluded.update(TRAINING_ONLY, WEIGHTS_ONLY)
    elif not is_trained:
        trained_on = ""
        excluded.update(TRAINING_ONLY)
    else:
        stages = result.trained_on
        trained_on = ">".join(stages) if is_curriculum(result) else "+".join(sorted(stages))
    settings = without_paths({key: value for key, value in config.items() if key not in excluded})
    backbone = settings.get("backbone", {}).get("name") or ""
    if "backbone" in settings:
        settings["backbone"] = deciding_backbone(settings["backbone"])
    if trained_on != "lexical":
        settings |= _arithmetic(config)
    if limit := (config.get("evaluation") or {}).get("limit"):
        settings["evaluation.limit"] = limit
    if not (settings.get("augmentation") or {}).get("views"):
        settings.pop("augmentation", None)  # nothing was changed
    if settings.pop("filter_leaks", False) and is_trained:
        # Then what is evaluated on decides what was trained on.
        settings["filter_leaks"] = "+".join(sorted({*config.get("evaluate", {}), *config["dataset"]}))
    if is_trained:
        # A dataset's own view or limit decides too, but only of the sets that this stage has seen.
        seen = [name for stage in result.trained_on for name in stage.split("+")]
        settings["dataset"] = {name: _deciding_rows(config["dataset"].get(name) or {}) for name in seen}
        settings["loss"] = _losses_in_use(settings.get("loss") or {}, settings["dataset"])
        settings |= without_paths(_schedule(config["schedule"], result.stage, seen))
        settings |= {"callbacks": deciding_callbacks(config.get("callbacks") or {})}
    return Identity(trained_on, tuple(sorted(_flatten(settings).items())), backbone, tuple(unread(job)))


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
    kinds = {described.get("view") or described.get("kind") for described in sets.values()}
    return {kind: node for kind, node in loss.items() if kind in kinds} or loss


def _deciding_rows(described: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the training rows of a set; of its layouts the chosen one."""
    settings = {key: value for key, value in deciding_set(described).items() if key not in DESCRIPTIONS}
    if layouts := described.get("layouts"):
        chosen = described["layout"]
        settings["layouts"] = {chosen: layouts[chosen]} if chosen in layouts else {}
    return settings


def _schedule(schedule: Mapping[str, Any] | str, stage: int, seen: Sequence[str]) -> dict[str, Any]:
    """What sets, and the stages before this one, had of their own; this one's numbers are the result's."""
    if isinstance(schedule, str):
        return {}
    order = schedule["order"] or seen
    earlier = {str(number): schedule["stages"].get(name) for number, name in enumerate(order[:stage])}
    settings: dict[str, Any] = {
        "schedule.sets": {name: numbers for name, numbers in schedule["sets"].items() if name in seen},
        "schedule.stages": {number: numbers for number, numbers in earlier.items() if numbers},
    }
    if schedule["sample_by"] != "size" or schedule["temperature"] != 1:
        settings["schedule.sampling"] = f"{schedule['sample_by']}, temperature {schedule['temperature']}"
    return {key: value for key, value in settings.items() if value}


def is_curriculum(result: Result) -> bool:
    """Several stages. A serial job of one stage that mixes its sets is none, though it names them one by one."""
    schedule = result.config["schedule"]
    if isinstance(schedule, str):
        return schedule == "serial"
    return schedule["name"] == "serial" and len(schedule["order"] or result.config["dataset"]) > 1


def row_name(result: Result) -> str:
    """The row of a sweep that the result is the end of; "" for a stage on the way there, or where no sweep named it."""
    schedule = result.config["schedule"]
    stages = 1
    if is_curriculum(result) and not isinstance(schedule, str):
        stages = len(schedule["order"] or result.config["dataset"])
    return str(result.config.get("sweep_row") or "") if result.stage == stages - 1 else ""


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        flat |= _flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: str(value)}
    return flat


def label_rows(identities: Sequence[Identity], names: Sequence[str] = ()) -> list[str]:
    """One label per row: its name, and the settings in which it differs from its namesakes. No two are equal.

    names  that sweeps gave to rows, "" for a row without one; it is then called by what it was trained on
    """
    names = [
        name or _name(row) for name, row in zip(names or [""] * len(identities), identities, strict=True)
    ]
    settings = [_settings(identity) for identity in identities]
    backbones = _backbones(identities)
    keys = sorted({key for group in settings for key in group}, key=_names_first)
    read = [{key for key in keys if identity.reads(key)} for identity in identities]
    labels, rows = [], list(zip(names, settings, read, strict=True))
    for name, row, row_keys in rows:
        namesakes = [(peer, peer_keys) for other, peer, peer_keys in rows if other == name]
        phrases: list[str] = []
        for key in filter(row_keys.__contains__, keys):
            differing = _difference(
                key, row, [peer for peer, peer_keys in namesakes if key in peer_keys], backbones
            )
            phrases += [phrase for phrase in differing if phrase not in phrases]
        backbone = backbones.get(row.get(BACKBONE, ""))
        if name == UNTRAINED and backbone in phrases:
            phrases.remove(backbone)
            name = f"{backbone}, {name}"
        labels.append(", ".join([name, *phrases]))
    # Equal labels, of rows whose difference is too long to tell, are numbered.
    earlier = [labels[: number + 1].count(label) for number, label in enumerate(labels)]
    counted = zip(labels, earlier, strict=True)
    return [f"{label} ({number})" if labels.count(label) > 1 else label for label, number in counted]


def _name(identity: Identity) -> str:
    settings = dict(identity.settings)
    if identity.trained_on == "lexical":
        method = settings.get("model.method", DEFAULT_METHOD)
        return settings["model.name"] if method == DEFAULT_METHOD else method
    start = settings.get("init_from", ABSENT)
    stages = identity.trained_on.replace("+", " + ").split(">") if identity.trained_on else []
    return " → ".join([*([start] if start != ABSENT else []), *stages]) or UNTRAINED


def _settings(identity: Identity) -> dict[str, str]:
    """The settings of a row; a model goes by the name of its variant where it has one."""
    settings = dict(identity.settings)
    variant = settings.pop("model.variant", "")
    return settings | ({"model.name": variant} if variant not in ("", ABSENT) else {})


def _backbones(identities: Sequence[Identity]) -> dict[str, str]:
    """Path of a backbone → what it is called: its name, or as much of its path as tells it from the others."""
    names = {dict(identity.settings).get(BACKBONE, ""): identity.backbone for identity in identities}
    for parts in (1, 2, 0):  # 0: all of it
        count = Counter(names.values())
        names = {
            path: name if name and count[name] == 1 else "/".join(path.split("/")[-parts:])
            for path, name in names.items()
        }
    return names


def _difference(
    key: str, row: Mapping[str, str], namesakes: Sequence[Mapping[str, str]], backbones: Mapping[str, str]
) -> Iterator[str]:
    """In words a setting in which `row` differs from any of its namesakes, if it does.

    Another loss or model is told by its name alone, and so is another backbone: that their numbers differ too goes
    without saying.
    """
    group, _, tail = key.partition(".")
    before = {f"{group}.name", f"{key.rpartition('.')[0]}.name", *GO_WITH.get(group, ())} - {key}
    peers = [peer for peer in namesakes if all(peer.get(other) == row.get(other) for other in before)]
    if len({settings.get(key) for settings in peers}) == 1:
        return
    value, word = row.get(key), key.rpartition(".")[2].replace("_", " ")
    if key == BACKBONE:
        yield backbones.get(value or "", "no backbone")
    elif key.startswith("model.templates."):
        yield "other templates"
    elif key.endswith(".name"):
        yield value or ("by_kind" if group == "loss" and tail == "name" else "by its kind")
    elif key == "hardware.compile":
        yield "compiled" if value == "True" else "not compiled"
    elif value in ("True", "False"):
        yield word if value == "True" else f"no {word}"
    elif value is None or value == ABSENT:
        yield f"no {word} given"
    elif key == "hardware.precision":
        yield PRECISIONS.get(value, value)
    elif len(value) > LONGEST:
        yield f"{word} {short_where_apart(value, [peer.get(key) or '' for peer in peers], LONGEST)}"
    else:
        yield PHRASES.get(key, f"{word} {{}}").format(value)


def _names_first(key: str) -> tuple[str, bool, str]:
    """Sorts the names that a node goes by before its numbers."""
    group, _, tail = key.partition(".")
    return group, tail not in ("name", "path"), tail
