"""Finds results below a folder, also those of mteb, and copies them into a small folder to publish or archive."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict

from juzhen.core.atomic_write import KEPT_ASIDE, write_json
from juzhen.core.errors import UserError
from juzhen.core.file_guard import LINK, not_overwritable
from juzhen.core.kinds import MTEB_SCORE
from juzhen.core.paths import ROOT, files_below
from juzhen.core.progress import tell
from juzhen.core.result import RESULT_FILE, Result, Score
from juzhen.core.safe_open import read_json, read_shaped
from juzhen.core.schema import Number, Text
from juzhen.report.compare import load_reference
from juzhen.report.row_identity import identify
from juzhen.report.training import Audit

if TYPE_CHECKING:
    from juzhen.report.build import Report


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
    for path in files_below(folder, MODEL_FILE):
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


SHIPPED_AUDIT = ROOT / "results" / "leaks" / "pairs.json"
NEEDED_CONFIG = ("model", "backbone", "loss", "schedule", "dataset")
"""Configuration keys that assign a result to a row."""


def collect(*folders: str | Path, report: Callable[[str], None], with_debug: bool = False) -> list[Result]:
    """Read the results below some folders, of runs and of the package mteb.

    Results of debug runs are left out if there are others.

    Args:
        folders: Folders with runs, at any depth.
        report: Called with a line about each skipped file.
        with_debug: Keep results of debug runs.

    Returns:
        The results, in the order of their paths.

    Raises:
        UserError: A folder that is missing, or has no result below it.
    """
    found: dict[Path, Result] = {}
    for folder in folders:
        of_mteb = read_mteb(Path(folder), report=report)
        if not of_mteb or files_below(folder, RESULT_FILE):
            found |= {path.resolve(): result for path, result in read_all(folder, report=report).items()}
        found |= of_mteb
    results = list(found.values())
    whole = [result for result in results if with_debug or not result.is_debug]
    if whole and len(whole) < len(results):
        report(f"left out: results of debug runs ({len(results) - len(whole)}); --debug shows them")
    return whole or results


def read_all(folder: str | Path, *, report: Callable[[str], None]) -> dict[Path, Result]:
    """Read the results below a folder, without superseded attempts.

    Args:
        folder: Folder with runs, at any depth.
        report: Called with a line about each unreadable file, which is skipped.

    Returns:
        File → result, in the order of their paths.

    Raises:
        UserError: The folder is missing or has no readable result.
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "this is a file, not a folder" if folder.exists() else "no such folder"
        raise UserError(f"{folder}: {problem}. Give the folder that contains the runs, for example runs")
    results = {}
    for path in files_below(folder, RESULT_FILE):
        try:
            if KEPT_ASIDE not in path.relative_to(folder).parts:
                results[path] = _read(path)
        except (UserError, OSError) as error:
            report(f"left out: {error}")
    if not results:
        raise UserError(
            f"{folder}: no result.json of a run below it. Give the folder of a finished run, or of several"
        )
    return results


def _read(path: Path) -> Result:
    result = Result.read(path)
    if missing := [key for key in NEEDED_CONFIG if key not in result.config]:
        raise UserError(f"{path}: its configuration lacks {', '.join(missing)}. Leave this result out")
    try:
        identify(result, before_training=False)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(
            f"{path}: its configuration fits no row of a table ({error!r}). Leave this result out"
        ) from error
    return result


def read_report(
    *folders: Path,
    metric: str | None,
    split: str | None,
    reference: Path | None,
    leaks: Path | None,
    with_debug: bool = False,
) -> "Report":
    """Compute the report of the runs below some folders.

    Args:
        folders: Folders with runs, at any depth.
        metric: Metric of the matrix.
        split: Split of the columns.
        reference: Folder of published numbers. None takes the included ones.
        leaks: File of a leak audit. None takes the included one.
        with_debug: Keep results of debug runs.

    Returns:
        The report.
    """
    audit_file = leaks or (SHIPPED_AUDIT if SHIPPED_AUDIT.exists() else None)
    audit = Audit.read(audit_file) if audit_file else None
    results = collect(*folders, report=tell, with_debug=with_debug)
    numbers = load_reference(reference)
    from juzhen.report.build import build_report  # loads pandas, which a mistake should not wait for

    return build_report(results, metric=metric, split=split, reference=numbers, audit=audit, runs=folders[0])


def export(folder: Path, target: Path, *, report: Callable[[str], None]) -> int:
    """Copy each result below `folder` to the same place below `target`.

    Tables and reports can be made from the copy. Weights, logs and texts are not copied, and folders of this machine
    lose their parents: /home/me/data → data.

    Args:
        folder: Folder with runs, at any depth.
        target: Folder for the copies.
        report: Called with a line about each skipped file.

    Returns:
        The number of results.

    Raises:
        UserError: No results, or `target` is inside `folder`.
    """
    if target.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{target}: is inside {folder}. Choose a folder outside")
    copies = {path: target / path.relative_to(folder) for path in read_all(folder, report=report)}
    for copy in copies.values():
        # What is replaced is a copy that `export` has made: those lie alone.
        if copy.is_symlink():
            raise not_overwritable(copy, LINK)
        if copy.exists():
            Result.read(copy)
            if {path.name for path in copy.parent.iterdir() if path.is_file()} != {RESULT_FILE}:
                raise not_overwritable(
                    copy.parent, "is a run or holds other files, and is not an archive of results"
                )
    for path, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_json(copy, without_parents(read_json(path)), indent=None, in_own_folder=True)
    return len(copies)


def without_parents(value: Any) -> Any:
    """Shorten absolute paths in plain data to their last part, also in words `key=/path`.

    Args:
        value: Plain data.

    Returns:
        The data with short paths.

    Example:
        >>> without_parents({"data_dir": "/home/me/data", "command": ["train.py", "init_from=/home/me/runs/a"], "n": 1})
        {'data_dir': 'data', 'command': ['train.py', 'init_from=a'], 'n': 1}
    """
    if isinstance(value, dict):
        return {key: without_parents(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_parents(part) for part in value]
    if not isinstance(value, str):
        return value
    key, equals, path = value.rpartition("=")
    return f"{key}{equals}{Path(path).name}" if path.startswith(("/", "~/")) else value
