"""Draws the chart of the README: python -m tools.docs.speed_picture docs/speed.svg

Speed in fp32 relative to sentence-transformers, from the results in `results/bench`: median, lowest and highest round.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import read
from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.paths import ROOT
from tools.docs.bar_chart import Bar, bar_chart

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


def bar(label: str, name: str, values: dict[str, Any]) -> Bar:
    """Median, lowest and highest ratio of our row in a result."""
    rows = read(ROOT / "results" / "bench" / f"{name}.json")["rows"]
    (row,) = (row for row in rows if row["side"].startswith("ours") and {**row, **values} == row)
    return Bar(label, row["ratio"], row["ratio_low"], row["ratio_high"])


def svg() -> str:
    return bar_chart(
        [bar(*line) for line in BARS],
        title="Speed of juzhen relative to sentence-transformers",
        heading="Speed relative to sentence-transformers (= 1)",
        left=290,
        unit=130,
        ticks=range(4),
        reference=1,
        digits=2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path, help=".svg to write")
    write_text(parser.parse_args().picture, svg(), in_own_folder=True)


if __name__ == "__main__":
    sys.exit(run_program(main))
