"""Tables of the report between the markers of pages, in English or Chinese."""

from collections.abc import Callable, Sequence
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.opened import read_text
from juzhen.core.whole import write_text
from juzhen.report.build import Report
from juzhen.report.matrix import BELOW, LEAKY, Matrix
from juzhen.report.table import MISSING, heading
from juzhen.report.text import matrix_markdown, table_markdown

KEYS = (
    "matrix",
    "rows",
    "averages",
    "helpers",
    "targets",
    "pairs",
    "greedy",
    "fidelity",
    "unlike",
    "claims",
    "significance",
    "leaks",
    "costs",
)
"""Words that may stand in <!-- result:… -->; also `published`, all sources."""

CHINESE = {
    "trained on": "训练集",
    "seeds": "种子数",
    "in-domain": "领域内",
    "sets": "集数",
    "zero-shot": "零样本",
    "gain in-domain": "领域内增益",
    "gain zero-shot": "零样本增益",
    "of sets": "目标集数",
    "higher": "更高",
    "lower": "更低",
    "undecided": "未定",
    "not tested": "未检验",
    "certain": "显著更高",
    "certainly lower": "显著更低",
    "mean gain": "平均增益",
    "helps most": "帮助最大",
    "set": "评测集",
    "median zero-shot": "零样本中位数",
    "best zero-shot": "零样本最佳",
    "by": "来自",
    "trained on it": "在其上训练",
    "lexical": "词面基线",
    "below lexical": "低于词面基线",
    "pair": "组合",
    "best of both": "取优增益",
    "observed": "实测增益",
    "step": "步",
    "add": "加入",
    "best-of mean": "取优均值",
    "gain": "增益",
    "improves": "改善",
    "source": "来源",
    "scope": "范围",
    "cells": "格数",
    "rows": "行数",
    "correlation": "相关系数",
    "95 % interval": "95 % 区间",
    "our setup": "我们的设置",
    "ours": "我们",
    "published": "已发表",
    "its setup": "其设置",
    "its table, model": "其表格、模型",
    "verdict": "结论",
    "learnt from less": "训练数据不全",
    "why there is no reference": "无参照的原因",
    "row": "行",
    "loss": "损失",
    "model": "模型",
    "claim": "说法",
    "our best row": "我们最好的一行",
    "note": "备注",
    "stages": "阶段数",
    "rows seen": "所见行数",
    "training": "训练时间",
    "device": "设备",
    "shares most": "重合最多的集",
    "% of the split": "占比 %",
    "all rows": "全部行",
    "without them": "去除泄漏后",
    "counted by": "统计者",
}
"""Headings of tables."""


def fill_pages(pages: Sequence[Path], report: Report, *, tell: Callable[[str], None]) -> None:
    """Replaces what stands between the markers of each page; a page without markers stays as it is, and is named."""
    for page in pages:
        try:
            before = read_text(page)
        except OSError as error:
            raise UserError(f"--into {page}: cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise UserError(f"--into {page}: not UTF-8; give a page of Markdown") from error
        is_chinese = page.suffixes[-2:-1] == [".zh"]
        text, filled = before, []
        for key in (*KEYS, "published"):
            start, end = f"<!-- result:{key} -->", f"<!-- /result:{key} -->"
            if start in text:
                head, _, rest = text.partition(start)
                _, found, tail = rest.partition(end)
                if not found:
                    raise UserError(f"--into {page}: {start} has no end; write {end} further down")
                text = f"{head}{start}\n{fragment(report, key, is_chinese=is_chinese)}\n{end}{tail}"
                filled.append(key)
        if not filled:
            tell(f"{page}: no marker such as <!-- result:matrix --> … <!-- /result:matrix -->; left as it is")
        elif text != before:
            write_text(page, text, in_own_folder=True)  # between markers that ask for it


def fragment(report: Report, key: str, *, is_chinese: bool) -> str:
    """Markdown of one table; `published`: of all sources one after another."""
    if key == "matrix":
        text = matrix_markdown(report.matrix)
        return _in_chinese(text, caption=chinese_caption(report.matrix)) if is_chinese else text
    tables = [one for one in report.tables if one.key == key or one.key.startswith(f"{key}-")]
    parts = []
    for table in tables:
        text = table_markdown(table)
        parts.append(_in_chinese(text) if is_chinese else f"{table.note}\n\n{text}")
    return "\n\n".join(parts)


def chinese_caption(matrix: Matrix) -> str:
    hidden = "、".join(map(heading, matrix.hidden))
    return (
        f"{matrix.metric.replace('_', ' ')} ×100；行：训练集，列：评测集。单个种子：95 % 自助法区间；"
        f"多个种子：均值 ± 标准差。"
        f"{MISSING} 无分数。**粗体**为该集最佳，*斜体*为在其上训练过，{LEAKY} 有泄漏，{BELOW} 低于词面基线。"
        + (f"未显示：{hidden}；加 --split both 即可显示。" if hidden else "")
    )


def _in_chinese(text: str, caption: str = "") -> str:
    """A Markdown table with Chinese headings; what stood above it is replaced by the caption."""
    _, bar, table = f"\n{text}".partition("\n|")
    if not bar:
        return caption or "（无）"
    head, _, rest = table.partition("\n")
    words = [CHINESE.get(one.strip(), one.strip()) for one in head.strip().strip("|").split("|")]
    translated = f"| {' | '.join(words)} |\n{rest}"
    return f"{caption}\n\n{translated}" if caption else translated
