"""Every result below a folder; and results alone as a small folder, to publish or archive."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.core.atomic_write import KEPT_ASIDE, write_json
from juzhen.core.errors import UserError
from juzhen.core.file_guard import LINK, not_overwritable
from juzhen.core.paths import ROOT
from juzhen.core.result import RESULT_FILE, Result
from juzhen.core.safe_open import read_json
from juzhen.identity import identify
from juzhen.report.figures import load_reference
from juzhen.report.leaks import Audit

if TYPE_CHECKING:
    from juzhen.report.build import Report

SHIPPED_AUDIT = ROOT / "results" / "leaks" / "pairs.json"
NEEDED_CONFIG = ("model", "backbone", "loss", "schedule", "dataset")
"""Configuration by which a result finds its row."""


def collect(*folders: str | Path, report: Callable[[str], None], with_debug: bool = False) -> list[Result]:
    """The results below the folders, as `read_all` finds them; those of debug runs only where there are no others.

    with_debug  those of debug runs, too
    """
    found = {
        path.resolve(): result
        for folder in folders
        for path, result in read_all(folder, report=report).items()
    }
    results = list(found.values())
    whole = [result for result in results if with_debug or not result.is_debug]
    if whole and len(whole) < len(results):
        report(f"left out: results of debug runs ({len(results) - len(whole)}); --debug shows them")
    return whole or results


def read_all(folder: str | Path, *, report: Callable[[str], None]) -> dict[Path, Result]:
    """File → result, in the order of their paths; superseded attempts are left out.

    report  is called with one line for each file that cannot be read; it is left out and stops nothing

    Raises UserError when the folder does not exist or holds no readable result.
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "this is a file, not a folder" if folder.exists() else "no such folder"
        raise UserError(f"{folder}: {problem}; give the one that holds the runs, for example runs")
    results = {}
    for path in sorted(folder.rglob(RESULT_FILE)):
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
        raise UserError(f"{path}: its configuration lacks {', '.join(missing)}")
    try:
        identify(result, before_training=False)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{path}: its configuration belongs to no row of a table ({error!r})") from error
    return result


def read_report(
    *folders: Path,
    metric: str | None,
    split: str | None,
    reference: Path | None,
    leaks: Path | None,
    with_debug: bool = False,
) -> "Report":
    """What the runs below the folders say, beside published numbers and an audit of leaks; None: the shipped ones."""
    audit_file = leaks or (SHIPPED_AUDIT if SHIPPED_AUDIT.exists() else None)
    audit = Audit.read(audit_file) if audit_file else None
    results = collect(*folders, report=tell, with_debug=with_debug)
    numbers = load_reference(reference)
    from juzhen.report.build import build_report  # loads pandas, which a mistake should not wait for

    return build_report(results, metric=metric, split=split, reference=numbers, audit=audit)


def tell(line: str) -> None:
    print(line, file=sys.stderr)


def export(folder: Path, target: Path, *, report: Callable[[str], None]) -> int:
    """Copies each result below `folder` to the same place below `target`; the number of them.

    Tables and reports can be made from the copy again.
    Weights, logs and texts stay behind, and folders of this machine lose their parents: /home/me/data → data.
    Raises UserError where there is no result, or `target` lies within `folder`.
    """
    if target.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{target} lies in {folder}, which is read: choose a folder beside it")
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
    """The same plain data, its absolute paths cut down to their last part; also in words `key=/path`.

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
