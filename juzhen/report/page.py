"""The report as one HTML file that loads nothing from elsewhere."""

import re
from dataclasses import replace
from typing import Any

from juzhen.report.build import Report
from juzhen.report.html_shell import STEPS, part, render, rules, step_of
from juzhen.report.matrix import BELOW, LEAKY, Cell, Row
from juzhen.report.page_data import column_names, drawn_columns, page_data, panels
from juzhen.report.table import MISSING, Words, interval, mean_and_deviation, of_measures, percent, undefined

SCRIPTS = ("page.js", "figure.js", "grid.js", "figures.js", "panel.js", "tables.js")
"""Files that form one program, in order."""


def html(report: Report, *, title: str, worst: int = 0) -> str:
    """Make the page of a report.

    Args:
        report: The report.
        title: Title of the page.
        worst: Worst pairs of each set to quote, if runs and data files are available.

    Returns:
        The page.
    """
    rows = sorted(report.matrix.rows, key=lambda row: not row.is_trained)  # who opens the page asks for these
    matrix = replace(report.matrix, rows=rows)
    report, columns = replace(report, matrix=matrix), drawn_columns(matrix)
    data = page_data(report)
    scores = [cell["mean"] for row in data["rows"] for cell in row.get("cells", {}).values()]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    counted = ((len(matrix.rows), "row"), (len(columns), "set"), (report.num_results, "result"))
    counts = ", ".join(f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counted)
    drawn = panels(report, worst=worst)
    by_gain = any("gain" in cell for row in data["rows"] for cell in row.get("cells", {}).values())
    most = _most_gains(data) if by_gain else {}
    return render(
        "page.html",
        scripts=SCRIPTS,
        words=_words(report, data, drawn),
        rules=rules(),
        title=title,
        maker="juzhen report",
        first=("matrix", "To the matrix"),
        panel="One cell",
        data=data,
        panels=drawn,
        steps=range(STEPS),
        ends=(low, high),
        by_gain=by_gain,
        sentences=[english for english, _ in report.sentences],
        next_command=report.command,
        leaky=LEAKY,
        below=BELOW,
        missing=MISSING,
        counts=[f"{counts}.", f"{of_measures(matrix, ', or what a column names').replace('×100', '× 100')}."],
        columns=column_names(matrix, columns),
        rows=[
            (
                row,
                drawn_row.get("less"),
                [
                    _predicted_view(report, row, column)
                    or _view(
                        row, column, _heat(drawn_row.get("cells", {}).get(place), most.get(place), low, high)
                    )
                    for place, column in enumerate(columns)
                ],
            )
            for row, drawn_row in zip(matrix.rows, data["rows"], strict=True)
        ],
        marks=_marks(report, data),
        has_predicted=bool(report.predicted),
        undefined=undefined(matrix),
        tables=[table for table in report.tables if table.body],
        sort_value=_sort_value,
    )


def _sort_value(text: str) -> str:
    """Find the sort key of a cell in a plain table: its first number, or its text.

    >>> _sort_value("45.0 [44.0, 46.0]"), _sort_value("16,000"), _sort_value("differs by -3.2"), _sort_value("7 min")
    ('45.0', '16000', '-3.2', '420.0')
    """
    if text == MISSING:
        return ""
    if match := re.fullmatch(r"([\d.]+) (s|min|h)", text):
        return str(float(match[1]) * {"s": 1, "min": 60, "h": 3600}[match[2]])
    match = re.match(r"(?:differs by |[≈±] |<|\[)?([+\-−]?\d[\d,]*\.?\d*)", text)
    return match[1].replace(",", "").replace("−", "-") if match else text


Phrase = tuple[str, str, str]
"""Markup before a text in two languages, the text, and markup after it."""


def _most_gains(data: dict[str, Any]) -> dict[int, float]:
    """Column → largest gain or loss, the end of its colours."""
    most: dict[int, float] = {}
    for row in data["rows"]:
        for place, cell in row.get("cells", {}).items():
            most[place] = max(most.get(place, 0.0), abs(cell.get("gain", 0.0)))
    return most


def _heat(cell: dict[str, Any] | None, most: float | None, low: float, high: float) -> str:
    """Colour of a cell: of its gain, where `most` is the largest of its column, else of its place between the ends."""
    if cell is None or (most is not None and "gain" not in cell):
        return ""
    if most is not None:
        return f"g{step_of((cell['gain'] / most + 1) / 2 if most else 0.5)}"
    return f"s{step_of((cell['mean'] - low) / (high - low) if high > low else 0.5)}"


def _predicted_view(report: Report, row: Row, column: str) -> dict[str, Any] | None:
    """Describe a cell that was predicted, not measured. It has no colour."""
    if (value := report.predicted.get((row.label, column))) is None:
        return None
    words = [("", "predicted, not measured", f": {value:.1f} ± {report.prediction_error:.1f}")]
    return {"text": "", "predicted": f"≈{value:.0f}", "words": words, "classes": "absent predicted"}


def _view(row: Row, column: str, heat: str) -> dict[str, Any]:
    """Describe a cell: colour, text, shorter text for a narrow screen, classes, and a description."""
    cell = row.cells.get(column)
    if cell is None:
        reason = row.reasons.get(column)
        reasons = [(": ", reason, "")] if reason else []
        return {"text": "", "words": [("", "no score", ""), *reasons], "classes": "absent"}
    facts = {
        "trained": (cell.in_domain, "trained on it"),
        "leaky": (cell.is_leaky, "leaky"),
        "below": (cell.below_lexical, "below the lexical baseline"),
        "best": (cell.is_best, "best of the set"),
    }
    return {
        "heat": heat,
        "text": percent(cell.mean),
        "round": f"{100 * cell.mean:.0f}",
        "signs": cell.signs,
        "words": [_spread(cell), *(("; ", words, "") for is_set, words in facts.values() if is_set)],
        "classes": " ".join(name for name, (is_set, _) in facts.items() if is_set),
    }


def _spread(cell: Cell) -> Phrase:
    deviation = mean_and_deviation(cell).partition(" ")[2] if cell.std is not None else ""
    if cell.low is not None:
        before = f"{deviation}, " if deviation else ""
        return before, "95 % interval", f" {interval(cell.low, cell.high)}"
    return (deviation, "", "") if deviation else ("", "no interval", "")


def _words(report: Report, data: dict[str, Any], drawn: dict[int, Any]) -> Words:
    """Texts of the scripts, and texts that these show."""
    words = Words(*map(part, SCRIPTS))
    for sentence in report.sentences:
        words.add(sentence)
    cells = [cell for row in data["rows"] for cell in row.get("cells", {}).values()]
    rows = [text for row in data["rows"] for text in (*row.get("less", ()), *row.get("reasons", {}).values())]
    texts = [*rows, *(cell.get(name, "") for cell in cells for name in ("leak", "unseen"))]
    measures = [data["metric"], *(column["measure"] for column in data["columns"] if "measure" in column)]
    sets = [scored for panel in drawn.values() for scored in panel.get("sets", ())]
    labels = [
        label for scored in sets for label in (*scored["counts"], (scored["threshold"] or {}).get("on", ""))
    ]
    labels += [line[0] for scored in sets for line in scored.get("slices", ())]
    for text in dict.fromkeys([*texts, *data["sizes"]["names"], *labels]):
        words.say(text)
    for name in measures:
        words.say(name, name=True)
    return words


def _marks(report: Report, data: dict[str, Any]) -> set[str]:
    names = ("trained", "leaky", "below", "best")
    cells = [cell for row in data["rows"] for cell in row.get("cells", {}).values()]
    marks = {name for name in names if any(cell.get(name) for cell in cells)}
    return marks | ({"less"} if any(row.get("less") for row in data["rows"]) else set())
