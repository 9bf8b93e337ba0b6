"""Draws the chart of the README: python -m tools.docs.speed_picture docs/speed.svg

Speed in fp32 relative to sentence-transformers, from the results in `results/bench`: median, lowest and highest round.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import COLOURS, read
from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.paths import ROOT

BARS = (
    ("Train a BERT of 4 × 256", "training", {"size": "S", "precision": "fp32"}),
    ("Train a BERT of 6 × 384", "training", {"size": "M", "precision": "fp32"}),
    ("Train a BERT of 12 × 768", "training_B", {"precision": "fp32"}),
    ("Train a BERT of 12 × 768, one H100", "training_h100", {"precision": "fp32"}),
    ("Train a cross-encoder of 4 × 256", "crossencoder", {"precision": "fp32"}),
    ("Encode with MiniLM", "encoding", {"model": "MiniLM", "side": "ours torch"}),
    ("Mine hard negatives, 50,000 documents", "mining", {"documents": 50000}),
)
"""Label, result, and the values that choose its row."""

LEFT, UNIT, STEP, TOP = 290, 130, 28, 44
WIDTH = LEFT + 3 * UNIT + 90


def chosen(name: str, values: dict[str, Any]) -> tuple[float, float, float]:
    """Median, lowest and highest ratio of our row in a result."""
    rows = read(ROOT / "results" / "bench" / f"{name}.json")["rows"]
    (row,) = (row for row in rows if row["side"].startswith("ours") and {**row, **values} == row)
    return row["ratio"], row["ratio_low"], row["ratio_high"]


def svg() -> str:
    height = TOP + STEP * len(BARS) + 30
    bottom = height - 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' font-family="system-ui, sans-serif" font-size="13">',
        "<title>Speed of juzhen relative to sentence-transformers</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-weight="bold">Speed relative to sentence-transformers (= 1)</text>',
    ]
    for tick in range(4):
        x = LEFT + tick * UNIT
        colour, width = ("#555555", 1.5) if tick == 1 else ("#dddddd", 1)
        parts += [
            f'<line x1="{x}" y1="{TOP - 10}" x2="{x}" y2="{bottom}" stroke="{colour}" stroke-width="{width}"/>',
            f'<text x="{x}" y="{height - 8}" text-anchor="middle" fill="#555555">{tick}</text>',
        ]
    for number, (label, name, values) in enumerate(BARS):
        ratio, low, high = chosen(name, values)
        y = TOP + STEP * number
        middle = y + 9
        first, last = LEFT + low * UNIT, LEFT + high * UNIT
        parts += [
            f'<text x="{LEFT - 10}" y="{middle + 4}" text-anchor="end">{label}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{ratio * UNIT:.1f}" height="18" '
            f'fill="{COLOURS[0] if ratio >= 1 else COLOURS[1]}"/>',
            f'<line x1="{first:.1f}" y1="{middle}" x2="{last:.1f}" y2="{middle}" stroke="black"/>',
            f'<text x="{last + 8:.1f}" y="{middle + 4}" font-weight="bold">{ratio:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path, help=".svg to write")
    write_text(parser.parse_args().picture, svg(), in_own_folder=True)


if __name__ == "__main__":
    sys.exit(run_program(main))
