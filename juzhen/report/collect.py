"""Every result below a folder."""

from collections.abc import Callable
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.result import FORMAT_VERSION, RESULT_FILE, Result
from juzhen.core.whole import KEPT_ASIDE
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
        raise UserError(f"{folder}: no result below it; python train.py -m sweep=transfer_matrix makes some")
    return results


def _read(path: Path) -> Result:
    result = Result.read(path)
    if result.format_version != FORMAT_VERSION:
        raise UserError(f"{path}: format {result.format_version}, this version reads {FORMAT_VERSION}")
    missing = [key for key in NEEDED_CONFIG if key not in result.config]
    if missing:
        raise UserError(f"{path}: its configuration lacks {', '.join(missing)}")
    try:
        identify(result, before_training=False)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{path}: its configuration belongs to no row of a table ({error!r})") from error
    return result
