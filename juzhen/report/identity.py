"""Which results belong to one row of a matrix, and what that row is called."""

from collections.abc import Mapping, Sequence
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

NOT_PART_OF_THE_ROW = {
    *NOT_PART_OF_THE_RUN,
    *("seed", "evaluate", "evaluation", "dataset", "schedule"),
    "on_bad_row",  # where it ended well nothing else was read
}
"""Configuration that changes no numbers, but for what `_arithmetic` takes of it; `dataset` and `schedule` are told by
what was trained on."""

TRAINING_ONLY = ("loss", "training", "optimizer", "augmentation")
"""Configuration that means nothing for weights that were not trained."""

DESCRIPTIONS = ("about", "license", "origin", "rows")
"""Keys of a data set that say something about it, or check it, and change no row."""

WEIGHTS_ONLY = ("backbone", "init_from")
"""Configuration that means nothing for a lexical baseline."""


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
    learnt = bool(result.trained_on) and not before_training
    job = result.config if learnt else {**result.config, "dataset": {}}
    config = as_read(job)
    left_out = set(NOT_PART_OF_THE_ROW)
    if name_of(config["model"]) in LEXICAL:
        trained_on = "lexical"
        left_out.update(TRAINING_ONLY, WEIGHTS_ONLY)
    elif not learnt:
        trained_on = ""
        left_out.update(TRAINING_ONLY)
    else:
        stages = result.trained_on
        trained_on = ">".join(stages) if is_curriculum(result) else "+".join(sorted(stages))
    settings = without_paths({key: value for key, value in config.items() if key not in left_out})
    backbone = settings.get("backbone", {}).get("name") or ""
    if "backbone" in settings:
        settings["backbone"] = deciding_backbone(settings["backbone"])
    if trained_on != "lexical":
        settings |= _arithmetic(config)
    if limit := (config.get("evaluation") or {}).get("limit"):
        settings["evaluation.limit"] = limit
    if not (settings.get("augmentation") or {}).get("views"):
        settings.pop("augmentation", None)  # nothing was changed, as before there was such a thing
    if settings.pop("filter_leaks", False) and trained_on not in ("", "lexical"):
        # Then what is evaluated on decides what was trained on.
        settings["filter_leaks"] = "+".join(sorted({*config.get("evaluate", {}), *config["dataset"]}))
    if trained_on not in ("", "lexical"):
        # A dataset's own view or limit decides too, but only of the sets that this stage has seen.
        seen = [name for stage in result.trained_on for name in stage.split("+")]
        settings["dataset"] = {name: _rows_of(config["dataset"].get(name) or {}) for name in seen}
        settings["loss"] = _losses_in_use(settings.get("loss") or {}, settings["dataset"])
        settings |= without_paths(_own_numbers(config["schedule"], result.stage, seen))
        settings |= {"callbacks": deciding_callbacks(config.get("callbacks") or {})}
    return Identity(trained_on, tuple(sorted(_flatten(settings).items())), backbone, tuple(unread(job)))


def _arithmetic(config: Mapping[str, Any]) -> dict[str, Any]:
    """What numbers are computed in: the same weights and rows give others in bf16, or in 8 bits, by compiled layers,
    which draw another dropout.

    A result from before there was a choice of back ends was encoded by torch.
    """
    hardware, evaluation = config.get("hardware") or {}, config.get("evaluation") or {}
    found = {"evaluation.backend": evaluation.get("backend", "torch")}
    found |= {"hardware.precision": hardware["precision"]} if "precision" in hardware else {}
    return found | ({"hardware.compile": True} if hardware.get("compile") else {})


def _losses_in_use(
    loss: Mapping[str, Any], sets: Mapping[str, Mapping[str, Any] | None]
) -> Mapping[str, Any]:
    """Of a table kind → loss the kinds that the sets have, or are turned into; all where they have none of them."""
    kinds = {one.get("view") or one.get("kind") for one in sets.values() if one is not None}
    return {kind: one for kind, one in loss.items() if kind in kinds} or loss


def row_name(result: Result) -> str:
    """The row of a sweep that the result is the end of; "" for a stage on the way there, or where no sweep named it."""
    schedule = result.config["schedule"]
    stages = 1
    if is_curriculum(result) and not isinstance(schedule, str):
        stages = len(schedule["order"] or result.config["dataset"])
    return str(result.config.get("sweep_row") or "") if result.stage == stages - 1 else ""


def _rows_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the training rows of a set; of its layouts the chosen one."""
    kept = {key: value for key, value in deciding_set(described).items() if key not in DESCRIPTIONS}
    if described.get("layouts"):
        kept["layouts"] = {
            name: one for name, one in described["layouts"].items() if name == described["layout"]
        }
    return kept


def _own_numbers(schedule: Mapping[str, Any] | str, stage: int, seen: Sequence[str]) -> dict[str, Any]:
    """What sets, and the stages before this one, had of their own; this one's numbers are the result's."""
    if isinstance(schedule, str):
        return {}
    own: dict[str, Any] = {
        "schedule.sets": {name: one for name, one in schedule["sets"].items() if name in seen}
    }
    order = schedule["order"] or seen
    earlier = {str(i): schedule["stages"].get(name) for i, name in enumerate(order[:stage])}
    own["schedule.stages"] = {place: one for place, one in earlier.items() if one}
    if schedule["sample_by"] != "size" or schedule["temperature"] != 1:
        own["schedule.sampling"] = f"{schedule['sample_by']}, temperature {schedule['temperature']}"
    return {key: one for key, one in own.items() if one}


def is_curriculum(result: Result) -> bool:
    """Several stages. A serial job of one stage that mixes its sets is none, though it names them one by one."""
    schedule = result.config["schedule"]
    if isinstance(schedule, str):
        return schedule == "serial"
    return schedule["name"] == "serial" and len(schedule["order"] or result.config["dataset"]) > 1


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = str(value)
    return flat
