"""Results of finished runs as a small folder, to publish or archive: tables and reports can be made from it again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.whole import write_json, writing_to
from juzhen.report.collect import read_all


def export(folder: Path, target: Path, *, report: Callable[[str], None]) -> int:
    """Copies each result below `folder` to the same place below `target`; the number of them.

    Weights, logs and texts stay behind, and folders of this machine lose their parents: /home/me/data → data.
    Raises UserError where there is no result, `target` lies within `folder`, or cannot be written to.
    """
    if target.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{target} lies in {folder}, which is read: choose a folder beside it")
    found = read_all(folder, report=report)
    for path in found:
        place = target / path.relative_to(folder)
        result = without_parents(json.loads(path.read_text(encoding="utf-8")))
        with writing_to(target, "; choose another folder"):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_json(place, result, indent=None)
    return len(found)


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
