"""Results as JSON, as pictures, and as the manual's table of all of them.

python -m benchmarks.report results/bench docs/guides/speed.md docs/guides/speed.zh.md

Draws every JSON of the folder anew beside it, of results/bench only the pictures that are there. Replaces what stands
between the markers of each page. A result has `rows` of plain values, one for each side and size, all under the same
keys, None where nothing could be measured; `checks`: whether both sides did the same work; `curves`: one number per
step; `options`, `machine` and `notes`.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.table import BENCHMARKS, WORDS
from juzhen.core.atomic_write import atomic_write, write_json, write_text
from juzhen.core.paths import ROOT

Result = dict[str, Any]
Row = dict[str, Any]
START, END = "<!-- result:bench -->", "<!-- /result:bench -->"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito (2008): told apart under every common colour blindness."""

MARKERS, DASHES = "os^Dv*x", ("-", "--", ":", "-.", (0, (1, 1)), (0, (5, 1)), "-")
STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd",
    "axes.axisbelow": True, "legend.frameon": False, "figure.constrained_layout.use": True,
}  # fmt: skip


def is_committed(path: Path) -> bool:
    """Whether a file lies where the project keeps its own results."""
    return path.resolve().is_relative_to(ROOT / "results" / "bench")


def write(result: Result, folder: Path) -> Path:
    """Writes `<folder>/<benchmark>.json`, and its picture beside it."""
    path = folder / f"{result['benchmark']}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, result, in_own_folder=is_committed(path))
    draw(result, path.with_suffix(".svg"))
    return path


def read(path: Path) -> Result:
    return json.loads(path.read_text(encoding="utf-8"))


def tables(results: Iterable[Result], language: str) -> str:
    """Markdown: a table of what was measured on a processor, and one under its name of each other device."""
    by_device: dict[str, list[Result]] = {"cpu": []}
    for result in results:
        by_device.setdefault(result["machine"].get("device", "cpu"), []).append(result)
    parts = [table(by_device.pop("cpu"), language)]
    for device, of_device in by_device.items():
        packages = of_device[0]["machine"]["packages"]
        parts += [WORDS[language]["there"].format(device=device, **packages), table(of_device, language)]
    return "\n\n".join(parts)


def table(results: Iterable[Result], language: str) -> str:
    """Markdown: a line for each thing that was measured on our side."""
    phrases = WORDS[language]
    table_rows = [(phrases["work"], phrases["beside"], phrases["besides"]), ("---",) * 3]
    for result in sorted(results, key=lambda result: list(BENCHMARKS).index(result["benchmark"])):
        work, besides = BENCHMARKS[result["benchmark"]][language]
        for row in (pieces if result["benchmark"] == "memory" else compared)(result["rows"]):
            optional = {
                key: phrases[key].format(**row) if row.get(key) else "" for key in ("default", "moved")
            }
            parts = (work, phrases[row.get("rival", "ratio")], besides)
            table_rows.append(tuple(part.format(**row | optional) for part in parts))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in table_rows)


def compared(rows: list[Row]) -> Iterator[Row]:
    """Our rows as the manual shows them, each with that of the other side, and what stands behind "ours" as `kind`."""
    for row in rows:
        owner, _, kind = row["side"].partition(" ")
        if owner == "ours":
            same = {
                key: row[key] for key in ("size", "model", "precision", "documents", "pairs") if key in row
            }
            rivals = (
                other
                for other in rows
                if other["side"].startswith("theirs") and same.items() <= other.items()
            )
            view = row | {key: 100 * row[key] for key in ("peak_share", "same_share") if key in row}
            if "model" in row:
                view["spearman_change"] /= 100
            view |= {
                "default": "vs_default" in row and row.get("precision") == "bf16",
                "theirs": next(rivals),
            }
            yield view | {"kind": kind, "moved": row.get("spearman_change")}


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
    """Writes a picture that is readable without colour; the same result gives the same file.

    Bars of ratios with their lowest and highest round, else of peaks of memory; and the curves of losses.
    """
    import matplotlib
    from matplotlib.figure import Figure

    groups: dict[str, list[Row]] = {}
    for row in result["rows"]:
        groups.setdefault(row.get("model") or row.get("loss") or result["benchmark"], []).append(row)
    plain = [name for name in result["curves"] if "without dropout" in name]
    noisy = [name for name in result["curves"] if name not in plain]
    curves = {title: names for title, names in (("loss", noisy), ("loss without dropout", plain)) if names}
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "juzhen"}):
        figure = Figure(figsize=(4.8 * len(groups | curves), 3.6))
        panels = figure.subplots(1, len(groups | curves), squeeze=False)[0]
        for axes, (title, rows) in zip(panels, groups.items(), strict=False):
            draw_bars(axes, [row for row in rows if row.get("ratio", row.get("mib_peak"))])
            axes.set(title=title)
        for axes, (title, names) in zip(panels[len(groups) :], curves.items(), strict=True):
            for number, name in enumerate(names):
                looks = {"color": COLOURS[number % 7], "linestyle": DASHES[number % 7]}
                axes.plot(
                    range(1, len(result["curves"][name]) + 1), result["curves"][name], label=name, **looks
                )
            axes.set(title=title, xlabel="step")
            axes.legend(fontsize=7)
        with atomic_write(path, "wb", in_own_folder=is_committed(path)) as file:
            figure.savefig(file, format=path.suffix[1:], metadata={"Date": None})


def draw_bars(axes: Any, rows: list[Row]) -> None:
    keys, cached = (
        ("size", "documents", "batch_size", "precision", "side"),
        {"yes": " in pieces", "no": " at once"},
    )
    names = [
        " ".join(str(row[key]) for key in keys if key in row) + cached.get(row.get("cached"), "")
        for row in rows
    ]
    for position, row in enumerate(rows):
        value = row.get("ratio", row.get("mib_peak"))
        low, high = row.get("ratio_low", value), row.get("ratio_high", value)
        colour, hatch = (COLOURS[0], "") if row["side"].startswith("ours") else (COLOURS[1], "//")
        looks = {"color": colour, "hatch": hatch, "edgecolor": "white", "capsize": 2}
        axes.barh(position, value, xerr=[[value - low], [high - value]], **looks)
        label = f"{value:.2f}" if "ratio" in row else f"{value:,.0f}"
        axes.annotate(
            label, (high, position), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7
        )
    axes.set_yticks(range(len(rows)), names, fontsize=7)
    axes.set(xlabel="speed relative to theirs" if "ratio" in rows[0] else "peak memory, MiB")
    axes.invert_yaxis()
    axes.margins(x=0.15)


def write_into(page: Path, text: str) -> None:
    """Puts `text` between the markers of a page. Raises ValueError where they are missing."""
    before, start, remainder = page.read_text(encoding="utf-8").partition(START)
    _, end, after = remainder.partition(END)
    if not start or not end:
        raise ValueError(f"{page}: expected a line {START} and, further down, a line {END}")
    write_text(page, f"{before}{START}\n{text}\n{END}{after}", in_own_folder=True)


def main(folder: str, *pages: str) -> None:
    results = {path: read(path) for path in sorted(Path(folder).glob("*.json"))}
    for path, result in results.items():
        picture = path.with_suffix(".svg")
        if picture.is_file() or not is_committed(picture):
            draw(result, picture)
    for page in pages:
        write_into(Path(page), tables(results.values(), "zh" if page.endswith(".zh.md") else "en"))


if __name__ == "__main__":
    main(*sys.argv[1:])
