"""Draws the bar charts of the README and the tutorials: python -m tools.docs.bar_charts docs

speed.svg is the speed in fp32 relative to sentence-transformers, from the results in `results/bench`: median, lowest
and highest round. The numbers of tutorials/*.svg come from the output that a tutorial quotes, and there is one picture
for each language.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import COLOURS, read
from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError
from juzhen.core.paths import ROOT

STEP, TOP = 28, 44


class Bar(NamedTuple):
    """One line of a chart. The interval is drawn where there is one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


def bar_chart(
    bars: Sequence[Bar],
    *,
    title: str,
    heading: str,
    left: int,
    unit: float,
    ticks: Sequence[int],
    reference: float,
    digits: int,
) -> str:
    """Draw bars from 0.

    Args:
        bars: From top to bottom.
        title: Title of the file.
        heading: Bold text above the bars.
        left: Pixels for the labels.
        unit: Pixels of 1.
        ticks: Values of the grid lines.
        reference: Bars below it are orange. A tick of this value is dark.
        digits: Digits after the point.

    Returns:
        The text of the SVG.
    """
    width, height = round(left + ticks[-1] * unit) + 90, TOP + STEP * len(bars) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="20" font-weight="bold">{heading}</text>',
    ]
    for tick in ticks:
        x = round(left + tick * unit)
        colour, stroke = ("#555555", 1.5) if tick == reference else ("#dddddd", 1)
        parts += [
            f'<line x1="{x}" y1="{TOP - 10}" x2="{x}" y2="{height - 26}" stroke="{colour}" stroke-width="{stroke}"/>',
            f'<text x="{x}" y="{height - 8}" text-anchor="middle" fill="#555555">{tick}</text>',
        ]
    for number, (label, value, low, high) in enumerate(bars):
        y = TOP + STEP * number
        middle, end = y + 9, left + (value if high is None else high) * unit
        parts += [
            f'<text x="{left - 10}" y="{middle + 4}" text-anchor="end">{label}</text>',
            f'<rect x="{left}" y="{y}" width="{value * unit:.1f}" height="18" '
            f'fill="{COLOURS[0] if value >= reference else COLOURS[1]}"/>',
        ]
        if low is not None:
            first = left + low * unit
            parts.append(
                f'<line x1="{first:.1f}" y1="{middle}" x2="{end:.1f}" y2="{middle}" stroke="black"/>'
            )
        parts.append(f'<text x="{end + 8:.1f}" y="{middle + 4}" font-weight="bold">{value:.{digits}f}</text>')
    return "\n".join([*parts, "</svg>\n"])


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


def speed_chart() -> str:
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


INTERVAL = r"([\d.]+)\S* \[([\d.]+), ([\d.]+)\]"
BEFORE, TEST = r"│ +([\d.]+) │", r"│ +[\d.]+ │ +[\d.]+ │ [\d.]+–[\d.]+ │ +([\d.]+) │ ([\d.]+)–([\d.]+) │"
"""Columns of the table of a training: the score before, and the test score with its interval."""

Words = tuple[str, str]
"""English and Chinese."""


class Picture(NamedTuple):
    """A chart: its heading, and each bar with the pattern that finds its numbers in the tutorial."""

    heading: Words
    bars: tuple[tuple[Words, str], ...]


PICTURES = {
    "faq_search": Picture(
        ("nDCG@10 × 100 on demo_retrieval (test)", "demo_retrieval 测试集的 nDCG@10 × 100"),
        (
            (("not trained", "未训练"), rf"\| untrained \| 1 \| \**{INTERVAL}"),
            (("trained on demo_retrieval", "在 demo_retrieval 上训练"), rf"\| demo_retrieval \| 1 \| \**{INTERVAL}"),
        ),
    ),
    "finetune_lora": Picture(
        ("Spearman × 100 on demo_qmc (test)", "demo_qmc 测试集的 Spearman × 100"),
        (
            (("before", "训练前"), rf"│ demo_qmc +{BEFORE}"),
            (("60 steps with LoRA", "LoRA 训练 60 步"), rf"│ demo_qmc +{TEST}"),
        ),
    ),
    "mine_train_rerank": Picture(
        ("nDCG@10 × 100 on demo_retrieval (test)", "demo_retrieval 测试集的 nDCG@10 × 100"),
        (
            (("retriever alone", "只用检索模型"), rf"(?s)test/demo_retrieval:.*?\| – \| {INTERVAL}"),
            (("first 10 reranked", "重排前 10 条"), rf"(?s)test/demo_retrieval:.*?\| 10 \| {INTERVAL}"),
            (("first 20 reranked", "重排前 20 条"), rf"(?s)test/demo_retrieval:.*?\| 20 \| {INTERVAL}"),
        ),
    ),
    "distill_export_serve": Picture(
        ("Spearman × 100 on demo_sts (test)", "demo_sts 测试集的 Spearman × 100"),
        (
            (("teacher, 4 layers", "教师，4 层"), r"\| `builtin/mini_zh`, [^|]*\| 4 \| ([\d.]+)"),
            (("student, 2 layers, not trained", "学生，2 层，未训练"), rf"│ demo_sts +{BEFORE}"),
            (("student, 60 steps", "学生，训练 60 步"), rf"│ demo_sts +{TEST}"),
        ),
    ),
}  # fmt: skip


def bar_of(label: str, pattern: str, page: str) -> Bar:
    """The first numbers of a page that a pattern finds."""
    found = re.search(pattern, page)
    if found is None:
        raise UserError(f"{label}: its numbers are not in the tutorial. Change its pattern in PICTURES")
    return Bar(label, *map(float, found.groups()))


def draw(name: str, language: int) -> str:
    """The picture of a tutorial, with English (0) or Chinese (1) words."""
    picture = PICTURES[name]
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    heading = picture.heading[language]
    return bar_chart(
        [bar_of(words[language], pattern, page) for words, pattern in picture.bars],
        title=heading,
        heading=heading,
        left=210,
        unit=4,
        ticks=range(0, 101, 20),
        reference=0,
        digits=1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the manual")
    folder = parser.parse_args().folder
    write_text(folder / "speed.svg", speed_chart(), in_own_folder=True)
    for name in PICTURES:
        for language, ending in enumerate((".svg", ".zh.svg")):
            write_text(folder / "tutorials" / f"{name}{ending}", draw(name, language), in_own_folder=True)


if __name__ == "__main__":
    sys.exit(run_program(main))
