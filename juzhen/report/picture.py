"""Figures as files."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from juzhen.core.whole import whole_file


def save_picture(figure: Figure, *paths: Path) -> list[Path]:
    """Writes the figure as .svg or .png, whole or not at all; the same figure gives the same file. The paths."""
    for path in paths:
        options = {"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 150}
        with matplotlib.rc_context({"svg.hashsalt": "juzhen"}), whole_file(path, "wb") as file:
            figure.savefig(file, format=path.suffix[1:], **options)
    return list(paths)
