"""How far scores are to be believed as probabilities, as a picture."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from juzhen.core.calibration_files import SCALINGS
from juzhen.report.picture import save_picture


def draw_reliability(report: dict[str, Any], path: Path) -> None:
    """Share of positives over probability, one panel per scaling; bars below show where the rows are."""
    methods = ("raw", *SCALINGS)
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for axes, method in zip(figure.subplots(1, len(methods), sharey=True), methods, strict=True):
        bins = [row for row in report[method]["bins"] if row["count"]]
        probabilities = [row["probability"] for row in bins]
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes.bar(probabilities, [row["count"] / report["rows"] for row in bins], width=0.03, color="0.85")
        axes.plot(probabilities, [row["positives"] for row in bins], "o-", markersize=3)
        axes.set(
            title=f"{method}: ECE {report[method]['ece']:.3f}",
            xlabel="probability",
            xlim=(0, 1),
            ylim=(0, 1),
        )
    figure.axes[0].set_ylabel(f"share of positives, {report['set']}")
    save_picture(figure, path)
