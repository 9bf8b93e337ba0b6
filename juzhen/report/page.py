"""The report as one HTML file that needs no other."""

import re
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from juzhen.core.measures import metric_title
from juzhen.report.build import Report
from juzhen.report.matrix import BELOW, LEAKY, Cell, Row
from juzhen.report.questions import duration, without_leaks
from juzhen.report.table import MISSING, heading, interval, mean_and_deviation, percent

PARTS = files(__package__) / "page"


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
        metric=metric_title(matrix.metric),
        leaky=LEAKY,
        below=BELOW,
        num_results=report.num_results,
        num_rows=len(matrix.rows),
        columns=[heading(column) for column in matrix.columns],
        rows=[(row, [_view(report, row, column) for column in matrix.columns]) for row in matrix.rows],
        tables=report.tables,
        sort_value=sort_value,
    )


def sort_value(text: str) -> str:
    """What a cell of a plain table is sorted by: its first number, else its text.

    >>> sort_value("45.0 [44.0, 46.0]"), sort_value("16,000"), sort_value("differs by -3.2"), sort_value("7 min")
    ('45.0', '16000', '-3.2', '420.0')
    """
    if text == MISSING:
        return ""
    if match := re.fullmatch(r"([\d.]+) (s|min|h)", text):
        return str(float(match[1]) * {"s": 1, "min": 60, "h": 3600}[match[2]])
    match = re.match(r"(?:differs by |<|\[)?([+-]?\d[\d,]*\.?\d*)", text)
    return match[1].replace(",", "") if match else text


def _view(report: Report, row: Row, column: str) -> dict[str, Any]:
    """A cell of the page.

    parts    of its text, between which a line may break; value: what it is sorted by; heat: 0 to 100
    classes  in-domain, leaky, below, best
    facts    (name, text) pairs that the panel lists; command: what it says to type
    """
    cell = row.cells.get(column)
    if cell is None:
        reason = row.reasons.get(column)
        text = f"{row.label} has no score on {heading(column)}" + (f": {reason}" if reason else "")
        return {"parts": [MISSING], "value": "", "heat": 0, "facts": [("", text)]}
    marks = {
        "in-domain": cell.in_domain,
        "leaky": cell.is_leaky,
        "below": cell.below_lexical,
        "best": cell.is_best,
    }
    return {
        "parts": (mean_and_deviation(cell) + cell.signs).replace(" ± ", "\n± ").split("\n"),
        "value": cell.mean,
        "heat": round(100 * max(0.0, min(1.0, cell.mean))),
        "classes": " ".join(name for name, is_set in marks.items() if is_set),
        "facts": _facts(report, row, column, cell),
        "command": cell.command,
    }


def _facts(report: Report, row: Row, column: str, cell: Cell) -> list[tuple[str, str]]:
    training, leak_text = "none", "not audited"
    if row.is_trained:
        cost = report.costs.loc[row.label]
        stages = f", {cost['stages']} stages" if cost["stages"] > 1 else ""
        training = f"{duration(cost['train_seconds'])} on {cost['device']}{stages}"
    if (leak := cell.leak) is not None:
        counted = ", counted by the run" if leak.is_counted else ""
        seen = f"{leak.rows:,} rows, {100 * leak.share:.1f} %, from {leak.source}{counted}"
        leak_text = seen if leak.rows else "none"
    facts = [
        ("", f"{row.label} on {heading(column)}"),
        (report.matrix.metric, mean_and_deviation(cell)),
        ("95 % interval", interval(cell.low, cell.high)),
        ("seeds", ", ".join(f"{seed}: {percent(value)}" for seed, value in cell.values.items())),
        ("rows (n)", MISSING if cell.count is None else f"{cell.count:,}"),
        ("setup", row.setup),
        ("training", training),
        ("leak", leak_text),
    ]
    if leak is not None and leak.unseen is not None:
        score = MISSING if leak.score is None else percent(leak.score)
        facts.append(
            ("without leaks", f"{without_leaks(leak)} on {leak.unseen.count:,} rows; with them {score}")
        )
    if cell.below_lexical:
        facts.append(("note", "below the lexical baseline"))
    if cell.commit:
        facts.append(("code", cell.commit))
    return facts
