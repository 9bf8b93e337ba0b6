"""Results that the package mteb has written, as rows of a matrix: one for each model and revision."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from juzhen.core.errors import UserError
from juzhen.core.kinds import MTEB_SCORE
from juzhen.core.result import Result, Score
from juzhen.core.safe_open import read_shaped
from juzhen.core.schema import Number, Text

MODEL_FILE = "model_meta.json"
SPLITS = {"validation": "dev"}
METRICS = {"cosine_spearman": "spearman", "spearman": "spearman", "ndcg_at_10": "ndcg_at_10"}
"""Metric of mteb → ours with the same values. The main score of other tasks keeps the name that mteb gives it."""


class ModelForm(TypedDict):
    name: Text | None
    revision: NotRequired[Text | None]


class SubsetForm(TypedDict):
    main_score: Number | None
    hf_subset: NotRequired[Text]


class TaskForm(TypedDict):
    task_name: Text
    scores: dict[Text, list[SubsetForm]]


def read_mteb(folder: Path, *, report: Callable[[str], None]) -> dict[Path, Result]:
    """Read the results of mteb below a folder.

    Args:
        folder: Folder that mteb, or `juzhen mteb`, wrote to, or one above it.
        report: Called with a line about each skipped file.

    Returns:
        model_meta.json → the scores of its model, which count as untrained: mteb does not record training data.
    """
    found = {}
    for path in sorted(folder.rglob(MODEL_FILE)):
        scores: dict[str, Score] = {}
        try:
            model = read_shaped(path, ModelForm, "Leave this model out")
        except (UserError, OSError) as error:
            report(f"left out: {error}")
            continue
        for file in sorted(path.parent.glob("*.json")):
            try:
                scores |= {} if file == path else _scores(read_shaped(file, TaskForm, "Leave this task out"))
            except (UserError, OSError) as error:
                report(f"left out: {error}")
        if scores:
            found[path.resolve()] = _result(model, scores)
    return found


def _scores(task: dict[str, Any]) -> dict[str, Score]:
    scores = {}
    for split, subsets in task["scores"].items():
        for subset in subsets:
            value = subset["main_score"]
            same = (
                ours for theirs, ours in METRICS.items() if value is not None and subset.get(theirs) == value
            )
            name = task["task_name"] + (f"-{subset.get('hf_subset')}" if len(subsets) > 1 else "")
            column = f"{SPLITS.get(split, split)}/{name.replace('/', '-')}"
            scores[f"{column}/{next(same, MTEB_SCORE)}"] = Score(value)
    return scores


def _result(model: dict[str, Any], scores: dict[str, Score]) -> Result:
    name = str(model["name"] or "unnamed model")
    config = {
        "model": {"_target_": "lightning_modules.biencoder.BiEncoder", "name": "biencoder"},
        "backbone": {"path": name, "revision": model.get("revision")},
        "loss": {},
        "dataset": {},
        "schedule": "serial",
        "sweep_row": name,
    }
    key = f"{name}-{model.get('revision')}"
    return Result(name, key, [], scores, config, data={}, training={}, environment={}, seed=0)
