"""Training of a result in the terms of published figures, and what it lacks."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from juzhen.core.examples import Kind
from juzhen.core.nodes import BY_KIND, WITHOUT_BATCH, name_of
from juzhen.core.result import Result
from juzhen.identity import is_curriculum

CUSTOMARY = {
    "scored_pair": "cosine",
    "labelled_pair": "online_contrastive",
    "nli_pair": "softmax",
    "positive_pair": "info_nce",
    "triplet": "info_nce",
}
"""Row type → loss of the published Chinese report, as in `loss=by_kind`."""

READINGS = {"simclue_positive": "simclue", "simclue_rank": "simclue"}
"""Sets that are variants of another set, with their own files and row type."""

WHOLE_SETS = Path(__file__).parent / "published" / "sets" / "train_rows.csv"


@dataclass(frozen=True)
class Training:
    """Training in the terms that decide whether a published figure is comparable.

    Attributes:
        family: biencoder, crossencoder, cot, …
        sets: Stages in order, `a>b`, and sets of a stage by name, `a+b`. A set with converted rows names the row type:
            `simclue[positive_pair]`.
        loss: by_kind if every set had the customary loss of its row type, otherwise names: `ce`, `cosine+softmax`.
        supervision: "none" if all training rows were sentences, otherwise "labels".
        start: Initial weights, or "" for those of the backbone.
    """

    family: str
    sets: str
    loss: str
    start: str = ""
    supervision: str = "labels"


def training_of(result: Result) -> Training:
    """Derive the training from the configuration and the row types that were read."""
    stages = [sorted(_lessons(result, index, names)) for index, names in enumerate(stage_sets(result))]
    customary = all(CUSTOMARY.get(kind) == loss for stage in stages for _, kind, loss in stage)
    kinds = {kind for stage in stages for _, kind, _ in stage}
    losses = dict.fromkeys(loss for stage in stages for _, _, loss in stage)
    model = result.config["model"]
    reads_no_mask = name_of(model) == "cot" and model.get("read") == "pooling"
    return Training(
        family="biencoder" if reads_no_mask else name_of(model),
        sets=">".join("+".join(name for name, _, _ in stage) for stage in stages),
        loss=BY_KIND if customary else "+".join(losses),
        start=str(result.config.get("init_from") or ("merged models" if "merge" in result.config else "")),
        supervision="none" if kinds == {Kind.SENTENCE} else "labels",
    )


def stage_sets(result: Result) -> list[list[str]]:
    """Sets of each stage, oldest first."""
    if is_curriculum(result):
        return [stage.split("+") for stage in result.trained_on]
    return [list(result.trained_on)] if result.trained_on else []


def set_names(sets: str) -> list[str]:
    """Sets of a training, without row types.

    >>> set_names("a[triplet]+b>c")
    ['a', 'b', 'c']
    """
    return re.sub(r"\[\w+\]", "", sets).replace("+", ">").split(">") if sets else []


def stand_ins(result: Result) -> list[str]:
    """Explain how the training was less than the sets' names suggest, one phrase per set."""
    phrases = []
    for name in dict.fromkeys(name for stage in stage_sets(result) for name in stage):
        described = result.config["dataset"].get(name) or {}
        less = [*_missing_files(described), *_missing_rows(result, name, described)]
        if count := (described.get("learning") or {}).get("num_negatives"):
            less.append(f"at most {count} negatives of a row")
        if less:
            phrases.append(f"{name}: {', '.join(less)}")
    limits = [result.config.get("debug_rows"), (result.config.get("evaluation") or {}).get("limit")]
    if limit := min(filter(None, limits), default=None):
        phrases.append(f"scored on at most {limit:,} rows of a split")
    if result.config.get("filter_leaks"):
        phrases.append("without the rows that an evaluation set has too")
    return phrases


def _lessons(result: Result, index: int, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """For each set of a stage its name in references, the row type that was read, and the loss."""
    lessons = []
    for name in names:
        described = result.config["dataset"].get(name) or {}
        loss = _loss_node(result, index, name)
        read = result.data.get(f"train/{name}", {}).get("kind") if index == result.stage else None
        kind = read or described.get("convert_to") or described.get("view") or described.get("kind") or ""
        used = name_of(loss if "_target_" in loss else loss.get(kind, {}))
        if (described.get("learning") or {}).get("in_batch") is False:
            used = WITHOUT_BATCH.get(used, used)
        is_own = kind == described.get("kind", kind) and name not in READINGS
        lessons.append((READINGS.get(name, name) + ("" if is_own else f"[{kind}]"), kind, used))
    return lessons


def _loss_node(result: Result, index: int, name: str) -> Mapping[str, Any]:
    """Loss of a set in a stage, or the table of losses by row type.

    The result of a stage has its own loss instead of the job's. An earlier stage's loss is under `earlier`. Without
    that key it is unknown.
    """
    schedule = result.config["schedule"]
    if isinstance(schedule, str):
        return result.config["loss"]
    of_set: dict[str, Any] = (schedule.get("sets") or {}).get(name) or {}
    if of_set.get("loss"):
        return of_set["loss"]
    order = schedule["order"] or list(result.config["dataset"])
    losses: list[Any] = [((schedule.get("stages") or {}).get(stage) or {}).get("loss") for stage in order]
    if index < len(losses) and losses[index]:
        return losses[index]
    if index >= result.stage or not (result.stage < len(losses) and losses[result.stage]):
        return result.config["loss"]
    return (result.config.get("earlier") or {}).get("loss") or {"_target_": "unknown", "name": "unknown"}


def chosen_layout(described: Mapping[str, Any]) -> Mapping[str, Any]:
    """Chosen layout of the files of a set, or {}."""
    return (described.get("layouts") or {}).get(described.get("layout") or "") or {}


def train_files(layout: Mapping[str, Any]) -> list[str]:
    files = (layout.get("files") or {}).get("train") or []
    return [files] if isinstance(files, str) else list(files)


def _missing_files(described: Mapping[str, Any]) -> list[str]:
    """Files of a joined set that the chosen layout omits."""
    layouts = map(train_files, (described.get("layouts") or {}).values())
    used = train_files(chosen_layout(described))
    published = max((files for files in layouts if set(used) < set(files)), key=len, default=[])
    if not published:
        return []
    both = (used, [file for file in published if file not in used])
    return [" without ".join(" and ".join(Path(file).parts[0] for file in files) for files in both)]


def _missing_rows(result: Result, name: str, described: Mapping[str, Any]) -> list[str]:
    """Number of training rows, if the set has more or may have more."""
    limits = [limit for limit in (described.get("limit"), result.config.get("debug_rows")) if limit]
    read, published = result.data.get(f"train/{name}", {}), whole_rows(name, described)
    converted = described.get("convert_to") or described.get("view")
    is_own = (read.get("kind") or converted or described.get("kind")) == described.get("kind")
    if limits and (published is None or not is_own):
        return [f"at most {min(limits):,} rows"]  # of another kind: so many are left after the view
    counts = [*limits, *([read["rows"]] if read and is_own else []), _promised(described)]
    count = min((count for count in counts if count is not None), default=None)
    if count is None or published is None or count >= published:
        return []
    return [f"{'' if is_own else 'made of '}{count:,} of {published:,} rows"]


def whole_rows(name: str, described: Mapping[str, Any]) -> int | None:
    """Training rows of the set as published: from the reference, or from its description."""
    return _on_file().get(name) or _promised(described)


def _promised(described: Mapping[str, Any]) -> int | None:
    return (chosen_layout(described).get("rows") or described.get("rows") or {}).get("train")


@cache
def _on_file() -> dict[str, int]:
    with WHOLE_SETS.open(encoding="utf-8", newline="") as file:
        return {row["dataset"]: int(row["rows"]) for row in csv.DictReader(file)}
