"""The report as one HTML file that needs no other."""

import re
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment

from juzhen.report.build import Report
from juzhen.report.costs import Cost, duration
from juzhen.report.matrix import BELOW, LEAKY, Cell, Row
from juzhen.report.questions import without_leaks
from juzhen.report.table import MISSING, heading, interval, mean_and_deviation, percent
from juzhen.report.text import is_numeric

PARTS = files(__package__) / "page"


@dataclass(frozen=True)
class View:
    """A cell of the page.

    shown    its text; value: what it is sorted by; heat: 0 to 100
    classes  in_domain, leaky, below, best
    facts    (name, text) pairs that the panel lists; command: what it says to type
    """

    shown: str
    value: float | None = None
    heat: int = 0
    classes: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    command: str = ""

    @property
    def parts(self) -> list[str]:
        """`shown` where a line may break: before the deviation alone."""
        value, sign, deviation = self.shown.partition(" ± ")
        return [value, f"± {deviation}"] if sign else [value]


def html(report: Report, *, title: str) -> str:
    matrix = report.matrix
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    template = environment.from_string((PARTS / "page.html").read_text(encoding="utf-8"))
    return template.render(
        title=title,
        style=(PARTS / "page.css").read_text(encoding="utf-8"),
        script=(PARTS / "page.js").read_text(encoding="utf-8"),
        metric=matrix.metric.replace("_", " "),
        leaky=LEAKY,
        below=BELOW,
        num_results=report.num_results,
        num_rows=len(matrix.rows),
        columns=[heading(column) for column in matrix.columns],
        rows=[(row, [_view(report, row, column) for column in matrix.columns]) for row in matrix.rows],
        tables=report.tables,
        numeric=lambda table: [is_numeric(table.lines, place) for place in range(len(table.head))],
        sort_value=sort_value,
    )


def sort_value(text: str) -> str:
    """What a cell of a plain table is sorted by: its first number, else its text.

    >>> sort_value("45.0 [44.0, 46.0]"), sort_value("16,000"), sort_value("differs by -3.2"), sort_value("7 min")
    ('45.0', '16000', '-3.2', '420.0')
    """
    if text == MISSING:
        return ""
    if found := re.fullmatch(r"([\d.]+) (s|min|h)", text):
        return str(float(found[1]) * {"s": 1, "min": 60, "h": 3600}[found[2]])
    found = re.match(r"(?:differs by |<|\[)?([+-]?\d[\d,]*\.?\d*)", text)
    return found[1].replace(",", "") if found else text


def _view(report: Report, row: Row, column: str) -> View:
    entry = row.cells.get(column)
    if entry is None:
        why = row.why_missing(column, report.matrix.metric)
        told = f"{row.label} has no score on {heading(column)}" + (f": {why}" if why else "")
        return View(MISSING, facts=(("", told),))
    flags = {
        "in-domain": entry.in_domain,
        "leaky": entry.is_leaky,
        "below": entry.below_lexical,
        "best": entry.is_best,
    }
    return View(
        shown=mean_and_deviation(entry) + entry.signs,
        value=entry.mean,
        heat=round(100 * max(0.0, min(1.0, entry.mean))),
        classes=" ".join(name for name, is_set in flags.items() if is_set),
        facts=tuple(_facts(report, row, column, entry)),
        command=entry.command,
    )


def _facts(report: Report, row: Row, column: str, entry: Cell) -> list[tuple[str, str]]:
    facts = [
        ("", f"{row.label} on {heading(column)}"),
        (report.matrix.metric, mean_and_deviation(entry)),
        ("95 % interval", interval(entry.low, entry.high)),
        ("seeds", ", ".join(f"{seed}: {percent(value)}" for seed, value in entry.values)),
        ("rows (n)", MISSING if entry.count is None else f"{entry.count:,}"),
        ("setup", row.setup),
        ("training", _cost(report.costs.get(row.label))),
        ("leak", _leak(entry)),
    ]
    if entry.leak is not None and (rest := entry.leak.rest) is not None:
        whole = MISSING if rest.whole is None else percent(rest.whole)
        left = f"{without_leaks(entry.leak)} on {rest.count:,} rows; with them {whole}"
        facts.append(("without leaks", left))
    if entry.below_lexical:
        facts.append(("note", "below the lexical baseline"))
    if entry.commit:
        facts.append(("code", entry.commit))
    return facts


def _cost(cost: Cost | None) -> str:
    if cost is None:
        return "none"
    stages = f", {cost.stages} stages" if cost.stages > 1 else ""
    return f"{duration(cost.seconds)} on {cost.device}{stages}"


def _leak(entry: Cell) -> str:
    if entry.leak is None:
        return "not audited"
    if not entry.leak.rows:
        return "none"
    counted = ", counted by the run" if entry.leak.is_counted else ""
    return f"{entry.leak.rows:,} rows, {100 * entry.leak.share:.1f} %, from {entry.leak.source}{counted}"
