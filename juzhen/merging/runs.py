"""Merge runs into a run: an encoder and a result, so that tables show it with its parents."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.file_guard import claim_dir, require_apart, require_outside
from juzhen.core.machine import describe_environment
from juzhen.core.result import RESULT_FILE, Result, weights_digest
from juzhen.core.row_scores import ROWS_FILE, RowScores
from juzhen.data.loading import load_job_data
from juzhen.data.spec import configured_set
from juzhen.encoders.resolve_path import ENCODER_FOLDER
from juzhen.encoders.save import save_encoder
from juzhen.evaluation.run import EvaluationRun
from juzhen.evaluation.saved_run import SavedRun, load_start
from juzhen.evaluation.scoring import fitted_thresholds
from juzhen.evaluation.settings import EvaluationSettings, device_name
from juzhen.merging.merge import Merged, MergeRecipe, dev_settings, merge_models, opened_models
from juzhen.models import settings_of
from juzhen.report.row_identity import identify

MIX: dict[str, Any] = {
    "name": "mix",
    "order": None,
    "stages": {},
    "sets": {},
    "sample_by": "size",
    "temperature": 1.0,
    "store": None,
}
"""Where the sets of a merged model stand in the form of a job: side by side, since none came after another."""

SUMS = ("steps", "rows_seen", "train_seconds")


def merge_runs(
    folders: Sequence[str | Path],
    out: Path,
    recipe: MergeRecipe,
    *,
    base: str | Path | None = None,
    dataset: Sequence[str] = (),
    data_dir: str | Path | None = None,
    progress: bool = False,
) -> tuple[Result | None, Merged]:
    """Merge runs or encoders, and write the result to a folder.

    If all are finished runs, `out` becomes a run: the encoder is scored on the sets of its parents, and the result
    records the recipe and the cost. Otherwise `out` becomes an encoder folder without result.

    Args:
        folders: Runs or encoder folders.
        out: Folder of the result.
        recipe: Method, weights and options.
        base: Default: the weights that all runs started from, if they are the same.
        dataset: Sets that choose the weights. Default: the training sets of the runs.
        data_dir: Default: where the first run read its sets.
        progress: Show progress bars.

    Returns:
        The result, None for encoders without runs, and the merged weights.

    Raises:
        UserError: As `juzhen.merge`, and a folder that is not new, empty or an unfinished merge.
    """
    since = time.monotonic()
    require_apart(out, *folders)
    require_outside(out)
    if (out / RESULT_FILE).exists():
        raise UserError(f"{out}: holds a finished run. Choose another folder")
    parents = [Result.read(folder) for folder in folders if (Path(folder) / RESULT_FILE).is_file()]
    are_runs = len(parents) == len(folders)
    others = sorted({path.name for path in out.glob("[!.]*")} - {ENCODER_FOLDER, ROWS_FILE})
    if are_runs and others:
        raise UserError(f"{out}: holds {others[0]}, which no merge writes first. Choose a new folder")
    recipe.check(len(folders), base=base, sets=dataset, finds_base=are_runs)
    start, start_name = (base, str(base)) if base is not None else (None, "")
    if recipe.needs_base and base is None:
        start, start_name = _common_start(parents)
    settings, chosen = None, list(dataset)
    if are_runs:
        config = _config(parents, recipe, start_name)
        settings = EvaluationSettings.of(config)
        settings.data_dir = str(data_dir or settings.data_dir)
        config["data_dir"] = settings.data_dir
    models = opened_models(folders, start if recipe.needs_base else None, start_name)
    merged = merge_models(models, recipe, _choosing(settings, chosen, data_dir) if recipe.needs_dev else None)
    card = _card(out, folders, parents, recipe, merged, start_name)
    if settings is None:
        save_encoder(merged.encoder, out, card=card)
        return None, merged
    claim_dir(out)
    result = _result(out, folders, parents, config, merged)
    _score(result, merged.encoder, settings, out, card, since, progress=progress)
    return result, merged


def _choosing(
    settings: EvaluationSettings | None, names: Sequence[str], data_dir: str | Path | None
) -> EvaluationSettings:
    """Return the dev splits of the named sets, or of the training sets."""
    if settings is None:
        return dev_settings([configured_set(name) for name in names], data_dir=data_dir or "data")
    described = settings.evaluate | settings.dataset
    sets = {name: described.get(name) or configured_set(name) for name in names or settings.dataset}
    evaluation = replace(settings.evaluation, splits=["dev"], bootstrap_samples=0, transfer=[])
    return replace(settings, dataset={}, evaluate=sets, evaluation=evaluation)


def _common_start(parents: Sequence[Result]) -> tuple[Any, str]:
    """Return the encoder that all runs started from, and its name. Raises UserError if starts differ."""
    starts = []
    for result in parents:
        backbone = {
            key: value for key, value in result.config["backbone"].items() if key not in ("name", "adapter")
        }
        draws = backbone.get("initialize") == "random" or backbone.get("layers") is not None
        starts.append((result.config.get("init_from"), backbone, result.seed if draws else None))
    if any(start != starts[0] for start in starts):
        raise UserError(
            "the runs started from different weights. Name the base that their training is counted from"
        )
    path, backbone, _ = starts[0]
    obstacle = settings_of(parents[0].config["model"]).no_common_start
    if not path and obstacle:
        raise UserError(f"{obstacle}. Name a run of an untrained one as the base")
    return load_start(parents[0]), str(path or backbone["path"])


def _config(parents: Sequence[Result], recipe: MergeRecipe, base: str) -> dict[str, Any]:
    """Return the configuration of the first run with the sets of all runs and the recipe in `merge`."""
    models = {
        (result.config["model"].get("_target_"), result.config["model"].get("name")) for result in parents
    }
    if len(models) > 1:
        raise UserError(
            f"the runs are of {len(models)} kinds: {', '.join(sorted(str(name) for _, name in models))}. Merge runs "
            "of one kind"
        )
    config = dict(parents[0].config)
    trained_on = _trained_on(parents)
    described: dict[str, Any] = {}
    for result in parents:
        described = (result.config.get("evaluate") or {}) | result.config["dataset"] | described
    config["dataset"] = {name: described.pop(name) for name in trained_on}
    config["evaluate"] = described | {
        name: result.config["evaluate"][name]
        for result in reversed(parents)
        for name in trained_on
        if name in (result.config.get("evaluate") or {})
    }
    config["schedule"] = MIX
    config["evaluation"] = config["evaluation"] | {"untrained": False, "without_leaks": False}
    config["sweep_row"] = None
    method = recipe.method
    config["merge"] = {
        "method": method,
        "weights": "dev" if recipe.needs_dev else None if recipe.weights is None else list(recipe.weights),
        "parents": sorted(map(_row, parents)),
    }
    if recipe.needs_base:
        config["merge"] |= {"base": base, "scale": recipe.scale}
    if method in ("ties", "dare"):
        config["merge"]["density"] = recipe.density
    return config


def _row(result: Result) -> str:
    """Return a run's name without its seed, and eight hex digits, equal for all seeds."""
    row = identify(result, before_training=False)
    digest = hashlib.sha256(repr((row.trained_on, row.settings)).encode()).hexdigest()[:8]
    return f"{result.name.removesuffix(f'-s{result.seed}')} {digest}"


def _trained_on(parents: Sequence[Result]) -> list[str]:
    return list(
        dict.fromkeys(name for result in parents for stage in result.trained_on for name in stage.split("+"))
    )


def _result(
    out: Path,
    folders: Sequence[str | Path],
    parents: Sequence[Result],
    config: Mapping[str, Any],
    merged: Merged,
) -> Result:
    seeds = {result.seed for result in parents}
    costs = [_cost(Path(folder), result) for folder, result in zip(folders, parents, strict=True)]
    described = [
        {
            "name": result.name,
            "key": result.key,
            "seed": result.seed,
            "trained_on": result.trained_on,
            "weights": result.measured_weights,
            "weight": weight,
            **cost,
        }
        for result, weight, cost in zip(parents, merged.weights, costs, strict=True)
    ]
    deciding = [config["merge"], [parent["weights"] for parent in described], merged.weights]
    data: dict[str, Any] = {}
    for result in parents:
        data |= {key: about for key, about in result.data.items() if key.startswith("train/")}
    return Result(
        name=out.name,
        key=hashlib.sha256(json.dumps(deciding, default=str).encode()).hexdigest()[:8],
        trained_on=_trained_on(parents),
        scores={},
        config=dict(config) | {"seed": min(seeds), "name": out.name},
        data=data,
        training={name: sum(cost[name] or 0 for cost in costs) for name in SUMS}
        | {"selected_on": merged.sets, "weights": merged.weights, "parents": described}
        | {"tried": [[list(weights), value] for weights, value in merged.tried.items()]},
        environment={},
        seed=min(seeds),
    )


def _cost(folder: Path, result: Result) -> dict[str, Any]:
    """Total steps, rows and seconds of a run's stages, None if unknown."""
    stages = [result]
    for index in range(result.stage):
        stages.append(Result.read(SavedRun(folder).earlier(index).folder))
    sums = {}
    for name in SUMS:
        values = [stage.training.get(name) for stage in stages]
        sums[name] = None if None in values else sum(filter(None, values))
    return sums


def _score(
    result: Result,
    encoder: Any,
    settings: EvaluationSettings,
    out: Path,
    card: dict[str, Any],
    since: float,
    *,
    progress: bool,
) -> None:
    """Score the encoder on the sets of its parents. Write encoder, rows and, last, the result."""
    run = EvaluationRun(encoder, settings, None, progress)
    result.training["merge_seconds"] = round(time.monotonic() - since, 3)
    result.training["train_seconds"] = round(
        result.training["train_seconds"] + result.training["merge_seconds"], 3
    )
    sets = replace(settings, dataset={}, evaluate=settings.evaluate | settings.dataset)
    data = load_job_data(sets, {}, unscored=run.evaluator.unscored)
    evaluation, rows = run(data.evaluation, data.tasks, seen={})
    result.scores = evaluation.scores | data.missing
    result.data |= rows
    result.thresholds = fitted_thresholds(evaluation.rows)
    result.transfer = {task.name: task.described() for task in data.tasks}
    result.unscored = data.unscored
    result.environment = describe_environment() | {"device": device_name(settings.hardware)}
    result.finished_at = datetime.now(UTC).isoformat(timespec="seconds")
    card["thresholds"] = {name: threshold.value for name, threshold in result.thresholds.items()}
    card["spearman_percent"] = {
        key: round(100 * score.value, 2)
        for key, score in result.scores.items()
        if key.endswith("/spearman") and score.value is not None
    }
    save_encoder(
        encoder, out / ENCODER_FOLDER, card={key: value for key, value in card.items() if value != {}}
    )
    result.weights = weights_digest(out / ENCODER_FOLDER)
    RowScores(result.weights, evaluation.rows).write(out / ROWS_FILE)
    result.write(out)


def _card(
    out: Path,
    folders: Sequence[str | Path],
    parents: Sequence[Result],
    recipe: MergeRecipe,
    merged: Merged,
    base: str,
) -> dict[str, Any]:
    """Return facts for the README: the method, the parents with their weights, and differing licences."""
    labels = (
        [result.name for result in parents]
        if len(parents) == len(folders)
        else [Path(path).name for path in folders]
    )
    labels = [f"{number}: {label}" for number, label in enumerate(labels, start=1)]
    card: dict[str, Any] = {"name": out.name, "merged by": recipe.method}
    card |= {"base": Path(base).name} if recipe.needs_base and base else {}
    card |= {"trained_on": _trained_on(parents)} if parents else {}
    card |= {"weights chosen on": [f"dev/{name}" for name in merged.sets]} if merged.sets else {}
    card["parents"] = dict(zip(labels, merged.weights, strict=True))
    if len({*merged.licences}) > 1:
        card["licences"] = {
            label: name or "not named" for label, name in zip(labels, merged.licences, strict=True)
        }
    return card
