"""Pictures of reports, as SVG and PNG: plain, readable without colour, ASCII names."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from juzhen.report.picture import save_picture
from tools.bench.report import Report, Value

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito (2008): told apart under every common colour blindness."""

MARKERS, DASHES, HATCHES = (
    "os^Dv*x",
    ("-", "--", ":", "-.", (0, (1, 1)), (0, (5, 1)), "-"),
    ("", "//", "..", "xx"),
)
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}  # fmt: skip

Row = dict[str, Value]


def draw(report: Report, folder: Path) -> list[Path]:
    """`<folder>/<benchmark>.svg` and `.png`; nothing for a report without rows."""
    if not report.rows:
        return []
    with matplotlib.rc_context(STYLE):
        figure = FIGURES[report.benchmark](report)
        return save_picture(figure, *(folder / f"{report.benchmark}.{suffix}" for suffix in ("svg", "png")))


def panels(count: int, *, width: float = 4.6) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(width * count, 3.6))
    return figure, figure.subplots(1, count, squeeze=False)[0]


def ratio_bars(axes: Axes, rows: Iterable[Row], name: Callable[[Row], str]) -> None:
    """One bar per row with its lowest and highest round; 1 is marked."""
    rows = list(rows)
    for place, row in enumerate(rows):
        median, low, high = (float(row[key]) for key in ("ratio", "ratio_low", "ratio_high"))
        is_ours = not str(row["side"]).startswith("theirs")
        axes.barh(
            place, median, xerr=[[median - low], [high - median]], color=COLOURS[0 if is_ours else 1],
            hatch=HATCHES[0 if is_ours else 1], edgecolor="white", capsize=2, height=0.7,
        )  # fmt: skip
        axes.annotate(f"{median:.2f}", (high, place), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(rows)), [name(row) for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("speed relative to theirs (higher is faster)")


def lines(axes: Axes, groups: dict[str, list[Row]], x: str, y: str, *, labels: tuple[str, str]) -> None:
    """One line per group, without the points that could not be measured."""
    for number, (name, rows) in enumerate(groups.items()):
        known = [row for row in rows if row[y] is not None and row[y] > 0]
        axes.plot(
            [row[x] for row in known], [row[y] for row in known], label=name, color=COLOURS[number],
            marker=MARKERS[number], linestyle=DASHES[number], markersize=4,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.legend()


def grouped(rows: Iterable[Row], *keys: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(" ".join(str(row[key]) for key in keys), []).append(row)
    return groups


def steps(report: Report, *, loss: str) -> Figure:
    figure, (left, middle, right) = panels(3)
    ratio_bars(left, report.rows, lambda row: f"{row['size']} {row['precision']} {row['side']}")
    left.set_title("speed of a training step")
    first = report.rows[0]
    plain = {name: values for name, values in report.curves.items() if "without dropout" in name}
    noisy = {
        name: values for name, values in report.curves.items()
        if name.startswith(f"{first['size']} ") and name not in plain
    }  # fmt: skip
    for axes, curves, title in (
        (middle, noisy, "loss, mean of the rounds"),
        (right, plain, "loss without dropout, fp32"),
    ):
        for number, (name, values) in enumerate(curves.items()):
            axes.plot(range(1, len(values) + 1), values, label=name, color=COLOURS[number],
                      linestyle=DASHES[number], linewidth=1.2)  # fmt: skip
        axes.set_title(title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("step")
        axes.set_ylabel(loss)
        axes.legend(fontsize=7)
    return figure


def encoding(report: Report) -> Figure:
    models = grouped(report.rows, "model")
    figure, axes = panels(len(models))
    for one, (name, rows) in zip(axes, models.items(), strict=True):
        ratio_bars(one, rows, lambda row: f"{row['side']}\n{float(row['sentences_per_second']):,.0f}/s")
        one.tick_params(axis="y", labelsize=7)
        one.set_title(f"encoding speed, {name}")
    return figure


def evaluation(report: Report) -> Figure:
    figure, (axes,) = panels(1, width=6)
    ratio_bars(axes, report.rows, lambda row: f"{row['size']} {row['side']}")
    axes.set_title(f"{report.rows[0]['sets']} sets, {report.rows[0]['pairs']:,} pairs")
    return figure


def cosent(report: Report) -> Figure:
    figure, (left, right) = panels(2)
    sides = grouped(report.rows, "side")
    lines(left, sides, "rows", "milliseconds", labels=("rows of the batch", "value and gradient, ms"))
    lines(right, sides, "rows", "mib", labels=("rows of the batch", "growth of memory, MiB"))
    return figure


def memory(report: Report) -> Figure:
    losses = grouped(report.rows, "size", "loss")
    figure, axes = panels(2 * len(losses))
    for number, (name, rows) in enumerate(losses.items()):
        named = [row | {"kind": "cached" if row["cached"] == "yes" else "plain"} for row in rows]
        sides = grouped(named, "side", "kind")
        for place, (key, unit) in enumerate(
            (("mib_peak", "peak memory, MiB"), ("seconds_per_step", "seconds per step"))
        ):
            lines(axes[2 * number + place], sides, "batch_size", key, labels=("pairs per step", unit))
            axes[2 * number + place].set_title(name)
    return figure


def mining(report: Report) -> Figure:
    figure, (left, right) = panels(2)
    sides = grouped(report.rows, "side")
    lines(left, sides, "documents", "cpu_seconds", labels=("documents", "processor time, s"))
    lines(right, sides, "documents", "peak_mib", labels=("documents", "peak memory, MiB"))
    return figure


def search(report: Report) -> Figure:
    figure, (left, right) = panels(2)
    sides = grouped(report.rows, "side")
    lines(left, sides, "documents", "milliseconds_per_query", labels=("documents", "ms per query"))
    lines(right, sides, "documents", "recall_at_100", labels=("documents", "recall of the 100 nearest"))
    right.set_yscale("linear")
    return figure


def overhead(report: Report) -> Figure:
    figure, (axes,) = panels(1)
    for place, row in enumerate(report.rows):
        median, low, high = (float(row[f"overhead_{one}"]) for one in ("percent", "low", "high"))
        axes.bar(
            place, median, yerr=[[median - low], [high - median]], color=COLOURS[0], capsize=3, width=0.5
        )
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(report.rows)), [str(row["size"]) for row in report.rows])
    axes.set_xlabel("size of the model")
    axes.set_ylabel("Lightning's share on top of a bare loop, %")
    return figure


def spin(report: Report) -> Figure:
    figure, axes = panels(2)
    names = [f"{row['size']} {row['spins']}" for row in report.rows]
    for place, (key, about) in enumerate((("alone", "alone"), ("busy", "beside a busy core"))):
        axes[place].barh(names, [float(row[key]) for row in report.rows], color=COLOURS[place])
        axes[place].set_xlabel(f"steps per second, {about}")
        axes[place].invert_yaxis()
    return figure


FIGURES: dict[str, Callable[[Report], Figure]] = {
    "training": partial(steps, loss="CoSENT loss"),
    "crossencoder": partial(steps, loss="cross-entropy"),
    "distill": partial(steps, loss="squared error"),
    **{one.__name__: one for one in (encoding, evaluation, cosent, memory, mining, search, overhead, spin)},
}
