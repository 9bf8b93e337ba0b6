"""Results as JSON, as pictures, and as the manual's table of all of them.

python -m benchmarks.report results/bench docs/guides/speed.md docs/guides/speed.zh.md

Draws every JSON of the folder anew beside it, and replaces what stands between the markers of each page. A result has
`rows` of plain values, one for each side and size, all under the same keys, None where nothing could be measured;
`checks`: whether both sides did the same work; `curves`: one number per step; `options`, `machine` and `notes`.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.table import BENCHMARKS, WORDS

Result = dict[str, Any]
Row = dict[str, Any]
START, END = "<!-- result:bench -->", "<!-- /result:bench -->"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito (2008): told apart under every common colour blindness."""

MARKERS, DASHES = "os^Dv*x", ("-", "--", ":", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1)))
STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd",
    "axes.axisbelow": True, "legend.frameon": False, "figure.constrained_layout.use": True,
}  # fmt: skip
GROWING = {"memory": ("batch_size", "seconds_per_step"), "mining": ("documents", "cpu_seconds")}
"""Benchmark → what grows along the axis of its picture, and the time that is drawn beside the peak of memory."""


def write(result: Result, folder: Path) -> Path:
    """Writes `<folder>/<benchmark>.json`, and its picture beside it."""
    path = folder / f"{result['benchmark']}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
    draw(result, path.with_suffix(".svg"))
    return path


def read(path: Path) -> Result:
    return json.loads(path.read_text(encoding="utf-8"))


def table(results: Iterable[Result], language: str) -> str:
    """Markdown: a line for each thing that was measured on our side."""
    words = WORDS[language]
    lines = [(words["work"], words["beside"], words["besides"]), ("---",) * 3]
    for result in sorted(results, key=lambda result: list(BENCHMARKS).index(result["benchmark"])):
        work, besides = BENCHMARKS[result["benchmark"]][language]
        for row in (pieces if result["benchmark"] == "memory" else compared)(result["rows"]):
            more = {key: words[key].format(**row) if row.get(key) else "" for key in ("default", "moved")}
            parts = (work, words[row.get("rival", "ratio")], besides)
            lines.append(tuple(part.format(**row | more) for part in parts))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def compared(rows: list[Row]) -> Iterator[Row]:
    """Our rows as the manual shows them, each with that of the other side, and what stands behind "ours" as `kind`."""
    for row in rows:
        owner, _, kind = row["side"].partition(" ")
        if owner == "ours":
            same = {key: row[key] for key in ("size", "model", "precision", "documents") if key in row}
            others = (
                other
                for other in rows
                if other["side"].startswith("theirs") and same.items() <= other.items()
            )
            shown = row | {key: 100 * row[key] for key in ("peak_share", "same_share") if key in row}
            if "model" in row:
                shown["spearman_change"] /= 100
            shown |= {
                "default": "vs_default" in row and row.get("precision") == "bf16",
                "theirs": next(others),
            }
            yield shown | {"kind": kind, "moved": row.get("spearman_change")}


def pieces(rows: list[Row]) -> Iterator[Row]:
    """Our largest batch in pieces, beside the largest that theirs holds at once."""
    keys = ("size", "loss", "side", "cached", "batch_size")
    held = {tuple(row[key] for key in keys): row for row in rows if row["mib_peak"] is not None}
    for size, loss in dict.fromkeys(key[:2] for key in held):
        pairs = max(key[4] for key in held if key[:4] == (size, loss, "theirs", "no"))
        largest = max(key[4] for key in held if key[:4] == (size, loss, "ours", "yes"))
        row, other = (held.get((size, loss, side, "yes", largest)) for side in ("ours", "theirs"))
        ratio = (
            {"ratio": row["mib_peak"] / other["mib_peak"], "rival": "pieces"}
            if other
            else {"rival": "no_rival"}
        )
        ours, theirs = (held[size, loss, side, "no", pairs]["mib_peak"] for side in ("ours", "theirs"))
        yield row | ratio | {"pairs": pairs, "whole": ours, "whole_of_theirs": theirs}


def draw(result: Result, path: Path) -> None:
    """Writes a picture that is readable without colour; the same result gives the same file."""
    import matplotlib
    from matplotlib.figure import Figure

    panels: list[tuple[Any, Any, dict[str, str]]] = []
    for name, rows in grouped(result["rows"], "model", "loss").items():
        if result["benchmark"] not in GROWING:
            panels.append((draw_bars, rows, {"title": name, "xlabel": "speed relative to theirs"}))
            continue
        x, seconds = GROWING[result["benchmark"]]
        for y in ("mib_peak", seconds):
            sides = grouped(rows, "size", "side", "cached").items()
            lines = {side: [(row[x], row[y]) for row in points if row[y]] for side, points in sides}
            labels = {"title": name, "xlabel": x, "ylabel": y, "xscale": "log", "yscale": "log"}
            panels.append((draw_lines, lines, labels))
    curves = {name: [*enumerate(losses, 1)] for name, losses in result["curves"].items()}
    plain = {name: curve for name, curve in curves.items() if "without dropout" in name}
    noisy = {name: curve for name, curve in curves.items() if name not in plain}
    for title, lines in (("loss, mean of the rounds", noisy), ("loss without dropout", plain)):
        panels += [(draw_lines, lines, {"title": title, "xlabel": "step"})] if lines else []
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "juzhen"}):
        figure = Figure(figsize=(4.6 * len(panels), 3.6))
        places = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (fill, content, labels) in zip(places, panels, strict=True):
            fill(axes, content)
            axes.set(**labels)
        figure.savefig(path, metadata={"Date": None})


def draw_bars(axes: Any, rows: list[Row]) -> None:
    """The ratio of each row with its lowest and highest round; 1 is marked."""
    for place, row in enumerate(rows):
        median, low, high = row["ratio"], row["ratio_low"], row["ratio_high"]
        side = int(row["side"].startswith("theirs"))
        looks = {"color": COLOURS[side], "hatch": ("", "//")[side], "edgecolor": "white", "capsize": 2}
        axes.barh(place, median, xerr=[[median - low], [high - median]], **looks)
        axes.annotate(f"{median:.2f}", (high, place), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(rows)), [label(row, "size", "precision", "side") for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.axvline(1, color="black", linewidth=0.8)


def draw_lines(axes: Any, lines: dict[str, list[tuple[float, float]]]) -> None:
    for number, (name, points) in enumerate(lines.items()):
        looks = {"color": COLOURS[number % 7], "linestyle": DASHES[number % 7], "marker": MARKERS[number % 7]}
        axes.plot(*zip(*points, strict=True), label=name, markersize=3, linewidth=1.2, **looks)
    axes.legend(fontsize=7)


def label(row: Row, *keys: str) -> str:
    cached = {"yes": "in pieces", "no": "at once"}
    return " ".join(cached.get(row[key], str(row[key])) for key in keys if key in row)


def grouped(rows: list[Row], *keys: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(label(row, *keys), []).append(row)
    return groups


def write_into(page: Path, text: str) -> None:
    """Puts `text` between the markers of a page. Raises ValueError where they are missing."""
    before, start, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"{page}: expected a line {START} and, further down, a line {END}")
    page.write_text(f"{before}{START}\n{text}\n{END}{after}", encoding="utf-8")


def main(folder: str, *pages: str) -> None:
    results = {path: read(path) for path in sorted(Path(folder).glob("*.json"))}
    for path, result in results.items():
        draw(result, path.with_suffix(".svg"))
    for page in pages:
        write_into(Path(page), table(results.values(), "zh" if page.endswith(".zh.md") else "en"))


if __name__ == "__main__":
    main(*sys.argv[1:])
