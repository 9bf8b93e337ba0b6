"""Draws the pictures of the tutorials: python -m tools.docs.tutorial_pictures docs/tutorials

The numbers come from the output that a tutorial quotes. There is one picture for each language.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError
from juzhen.core.paths import ROOT
from tools.docs.bar_chart import Bar, bar_chart

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


def bar(label: str, pattern: str, page: str) -> Bar:
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
        [bar(words[language], pattern, page) for words, pattern in picture.bars],
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
    parser.add_argument("folder", type=Path, help="folder of the pictures")
    folder = parser.parse_args().folder
    for name in PICTURES:
        for language, ending in enumerate((".svg", ".zh.svg")):
            write_text(folder / f"{name}{ending}", draw(name, language), in_own_folder=True)


if __name__ == "__main__":
    sys.exit(run_program(main))
