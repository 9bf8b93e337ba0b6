"""Every result below a folder; and results alone as a small folder, to publish or archive."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.opened import read_json
from juzhen.core.owned import not_ours
from juzhen.core.result import RESULT_FILE, Result
from juzhen.core.whole import KEPT_ASIDE, write_json, writing_to
from juzhen.report.identity import identify

NEEDED_CONFIG = ("model", "backbone", "loss", "schedule", "dataset")
"""Configuration by which a result finds its row."""


def collect(folder: str | Path, *, report: Callable[[str], None]) -> list[Result]:
    """The results below `folder`, as `read_all` finds them."""
    return list(read_all(folder, report=report).values())


def read_all(folder: str | Path, *, report: Callable[[str], None]) -> dict[Path, Result]:
    """File → result, in the order of their paths; superseded attempts are left out.

    report  is called with one line for each file that cannot be read; it is left out and stops nothing

    Raises UserError when the folder does not exist or holds no readable result.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "this is a file, not a folder" if folder.exists() else "no such folder"
        raise UserError(f"{folder}: {what}; give the one that holds the runs, for example runs")
    results = {}
    for path in sorted(folder.rglob(RESULT_FILE)):
        if KEPT_ASIDE in path.relative_to(folder).parts:
            continue
        try:
            results[path] = _read(path)
        except (UserError, OSError) as error:
            report(f"left out: {error}")
    if not results:
        raise UserError(f"{folder}: no result.json of a run below it")
    return results


def _read(path: Path) -> Result:
    result = Result.read(path)
    missing = [key for key in NEEDED_CONFIG if key not in result.config]
    if missing:
        raise UserError(f"{path}: its configuration lacks {', '.join(missing)}")
    try:
        identify(result, before_training=False)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{path}: its configuration belongs to no row of a table ({error!r})") from error
    return result


def export(folder: Path, target: Path, *, report: Callable[[str], None]) -> int:
    """Copies each result below `folder` to the same place below `target`; the number of them.

    Tables and reports can be made from the copy again.
    Weights, logs and texts stay behind, and folders of this machine lose their parents: /home/me/data → data.
    Raises UserError where there is no result, `target` lies within `folder`, or cannot be written to.
    """
    if target.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{target} lies in {folder}, which is read: choose a folder beside it")
    found = read_all(folder, report=report)
    places = {path: target / path.relative_to(folder) for path in found}
    for place in places.values():
        _require_archive(place)
    for path, place in places.items():
        result = without_parents(read_json(path))
        with writing_to(target, "; choose another folder"):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_json(place, result, indent=None, in_own_folder=True)
    return len(found)


def _require_archive(place: Path) -> None:
    """Raises UserError for a result that would be replaced, and is no copy that `export` has made: those lie alone."""
    if place.is_symlink():
        raise not_ours(place, "is a link, and what it leads to is not")
    if place.exists():
        Result.read(place)
        if not {path.name for path in place.parent.iterdir() if path.is_file()} <= {RESULT_FILE}:
            raise not_ours(place.parent, "is a run or holds other files, and no archive that is")


def without_parents(value: Any) -> Any:
    """The same plain data, its absolute paths cut down to their last part; also in words `key=/path`.

    >>> without_parents({"data_dir": "/home/me/data", "command": ["train.py", "init_from=/home/me/runs/a"], "n": 1})
    {'data_dir': 'data', 'command': ['train.py', 'init_from=a'], 'n': 1}
    """
    if isinstance(value, dict):
        return {key: without_parents(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_parents(one) for one in value]
    if not isinstance(value, str):
        return value
    key, equals, path = value.rpartition("=")
    if path.startswith(("/", "~/")):
        return f"{key}{equals}{Path(path).name}"
    return value
