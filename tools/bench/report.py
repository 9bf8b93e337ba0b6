"""What a benchmark found: rows of plain values, written as JSON and shown as a table."""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from juzhen.core.whole import write_json

FORMAT_VERSION = 1
Value = str | int | float | bool | None


@dataclass
class Report:
    """One benchmark on one machine.

    options  what it was run with
    machine  see tools.bench.device.describe_machine
    rows     one per contestant and size; all have the same keys; a value that could not be measured is None
    checks   single numbers that say whether both sides did the same work
    curves   name → one number per step
    notes    what a reader must know to judge the rows
    """

    benchmark: str
    options: dict[str, Any]
    machine: dict[str, Any]
    rows: list[dict[str, Value]]
    checks: dict[str, Value] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        keys = [tuple(row) for row in self.rows]
        if len(set(keys)) > 1:
            raise ValueError(f"{self.benchmark}: rows have different keys: {sorted(set(keys))}")
        for row in self.rows:
            for key, value in row.items():
                if not isinstance(value, Value):
                    raise ValueError(f"{self.benchmark}: {key}={value!r} is no plain value")

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.benchmark}.json"
        write_json(path, asdict(self))
        return path

    @classmethod
    def read(cls, path: Path) -> "Report":
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def show(report: Report, console: Console) -> None:
    for number, part in enumerate(tables(report.rows)):
        table = Table(title=None if number else report.benchmark, title_justify="left", title_style="bold")
        for key in part[0]:
            heading = "range" if key == "ratio_low" else key.replace("_", " ")
            table.add_column(heading, justify="left" if key in LABELS else "right", overflow="fold")
        for row in part:
            table.add_row(*row.values())
        console.print(table)
    for name, value in report.checks.items():
        console.print(f"{name.replace('_', ' ')}: {shown(value)}", highlight=False)
    for note in report.notes:
        console.print(f"- {note}", highlight=False)


LABELS = ("model", "size", "loss", "side", "precision", "cached")
MOST_COLUMNS = 4


def tables(rows: list[dict[str, Value]]) -> list[list[dict[str, str]]]:
    """Rows as text in parts that fit a narrow terminal: labels, then at most four columns of numbers.

    The lowest and highest ratio share a column; columns without any value are left out.

    >>> tables([{"side": "ours", "ratio": 2.0, "ratio_low": 1.0, "ratio_high": 3.0, "mib": None}])
    [[{'side': 'ours', 'ratio': '2.00', 'ratio_low': '1.00–3.00'}]]
    """
    texts = []
    for row in rows:
        text = {key: shown(value) for key, value in row.items()}
        if row.get("ratio") is not None:
            text["ratio_low"] += f"–{text['ratio_high']}"
        texts.append(text)
    names = (key for key in (rows[0] if rows else ()) if key != "ratio_high")
    keys = [key for key in names if any(row[key] is not None for row in rows)]
    labels = [key for key in keys if key in LABELS]
    numbers = [key for key in keys if key not in LABELS]
    return [
        [{key: text[key] for key in (*labels, *numbers[start : start + MOST_COLUMNS])} for text in texts]
        for start in range(0, len(numbers), MOST_COLUMNS)
    ]


def shown(value: Value) -> str:
    """A value as people read it: three significant digits, a dash for what is missing.

    >>> [shown(value) for value in (None, "S", 12, 1234.5, 1.2345, 0.00012345)]
    ['–', 'S', '12', '1,234', '1.23', '0.000123']
    """
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"
