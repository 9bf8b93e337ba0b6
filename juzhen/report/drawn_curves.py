"""Learning curves of runs as files: a table, and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from juzhen.core.csv_rows import csv_text
from juzhen.core.whole import write_text
from juzhen.report.curves import Curves, smoothed

PER_ROW = 3
FEW_POINTS = 20
LOSS_WINDOW = 10
"""Logged losses are of single batches; drawn is their mean over so many."""


def write_curves(runs: Sequence[Curves], quantities: Sequence[str], path: Path) -> None:
    """One row for each value: run, quantity, step, value. Batches of a set are those of the whole training."""
    rows: list[Sequence[object]] = [("run", "quantity", "step", "value")]
    for run in runs:
        for key in quantities:
            rows += [(run.name, key, step, f"{value:.6g}") for step, value in run.values.get(key, ())]
        rows += [(run.name, f"train/{name}/batches", "", count) for name, count in run.batches.items()]
    write_text(path, csv_text(rows))


def draw_curves(
    runs: Sequence[Curves], quantities: Sequence[str], path: Path, *, levels: Mapping[str, float]
) -> None:
    """A panel for each quantity, a line for each run; levels are dashed, in panels of scores.

    One more panel shows how often each set was drawn, where runs have mixed several.
    """
    from matplotlib.figure import Figure

    from juzhen.report.picture import save_picture

    mixes = any(len(run.batches) > 1 for run in runs)
    columns = min(PER_ROW, len(quantities) + mixes)
    rows = -(-(len(quantities) + mixes) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.0 * rows + 0.3), layout="constrained")
    panels = iter(figure.subplots(rows, columns, squeeze=False).flat)
    for key, axes in zip(quantities, panels, strict=False):
        is_score = key.startswith(("dev/", "test/"))
        for number, run in enumerate(runs):
            points = run.values.get(key, [])
            values = [value for _, value in points]
            curve = values if is_score or key.endswith("/weight") else smoothed(values, LOSS_WINDOW)
            is_short = len(points) < FEW_POINTS  # a line through one point is not seen
            style = {"marker": "o", "markersize": 3} if is_score or is_short else {"linewidth": 1}
            axes.plot([step for step, _ in points], curve, color=f"C{number}", label=run.name, **style)
        for name, value in levels.items() if is_score else ():
            axes.axhline(value, color="0.4", linestyle="--", linewidth=1, label=name)
        axes.set(title=key, xlabel="step")
        axes.grid(color="0.92")
    if mixes:
        _draw_batches(next(panels), runs)
    for axes in panels:
        axes.set_visible(False)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8
    )
    save_picture(figure, path)


def _draw_batches(axes: Any, runs: Sequence[Curves]) -> None:
    """Bars of the batches drawn from each set, those of a run in its color, with their share of the run's."""
    names = sorted({name for run in runs for name in run.batches})
    height = 0.8 / len(runs)
    for index, run in enumerate(runs):
        counts = [run.batches.get(name, 0) for name in names]
        rows = [number + (index - (len(runs) - 1) / 2) * height for number in range(len(names))]
        bars = axes.barh(rows, counts, height, color=f"C{index}")
        total = sum(counts) or 1
        axes.bar_label(
            bars, [f"{100 * count / total:.0f} %" if count else "" for count in counts], fontsize=7
        )
    axes.set(title="batches of each set", xlabel="batches", yticks=range(len(names)), yticklabels=names)
    axes.invert_yaxis()
    axes.margins(x=0.15)
