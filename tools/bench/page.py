"""The manual's table of speed: python -m tools.bench.page results/bench docs/guides/speed.md docs/guides/speed.zh.md

Reads every JSON below the folder and replaces what stands between the markers of each page. Needs no torch.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from juzhen.cli.arguments import Parser
from juzhen.cli.program import run_program
from juzhen.core.whole import write_text
from tools.bench.report import Report, Value, shown

START, END = "<!-- result:bench -->", "<!-- /result:bench -->"

HEADINGS = {
    "en": ("work", "ours beside sentence-transformers", "besides"),
    "zh": ("工作", "我们与 sentence-transformers 之比", "另外"),
}
WORDS = {
    "en": {
        "training": "training, {size}, {precision}",
        "crossencoder": "training a cross-encoder, {size}, {precision}",
        "distill": "distilling a teacher, {size}, {precision}",
        "sentences": "{} sentences/s",
        "default": "{} × its default",
        "peak": "{} % of the matrix peak, {} of {} MiB",
        "encoding": "encoding, {model}, {side}",
        "spearman": "{} sentences/s, Spearman {:+.4f}",
        "evaluation": "a row of {sets} sets, {size}, {backend}",
        "overhead": "Lightning over a bare loop, {size}",
        "times": "{} × as fast [{}, {}]",
        "percent": "{} % [{}, {}]",
        "pairs": "{} pairs/s",
        "moved": "; a correlation moves by {:.4f} at most",
        "memory": "memory of {batch_size:,} pairs in pieces, {size}, {loss}",
        "needs": "{:.2f} × theirs in pieces",
        "no rival": "no such thing there",
        "held": "{} MiB, {:.1f} s per step; {} pairs at once: {} MiB, theirs {}",
        "mining": "mining hard negatives, {documents:,} documents",
        "mined": "{:.1f} s of processor time; {} of {} MiB; the same negatives for {:.1f} % of the queries",
        "search": "searching {documents:,} documents, {kind}",
        "found": "{:.2f} ms a query; {:.1f} % of the 100 nearest",
    },
    "zh": {
        "training": "训练，{size}，{precision}",
        "crossencoder": "训练交叉编码器，{size}，{precision}",
        "distill": "蒸馏教师模型，{size}，{precision}",
        "sentences": "每秒 {} 句",
        "default": "为其默认的 {} 倍",
        "peak": "达到矩阵乘法峰值的 {} %，内存 {} 对 {} MiB",
        "encoding": "编码，{model}，{side}",
        "spearman": "每秒 {} 句，Spearman {:+.4f}",
        "evaluation": "{sets} 个集的一行，{size}，{backend}",
        "overhead": "Lightning 比裸循环多用的时间，{size}",
        "times": "{} 倍 [{}, {}]",
        "percent": "{} % [{}, {}]",
        "pairs": "每秒 {} 对",
        "moved": "；相关系数最多变动 {:.4f}",
        "memory": "{batch_size:,} 对分块的内存，{size}，{loss}",
        "needs": "对方分块的 {:.2f} 倍",
        "no rival": "对方没有",
        "held": "{} MiB，每步 {:.1f} 秒；一次放下 {} 对：{} MiB，对方 {}",
        "mining": "挖掘难负例，{documents:,} 篇文档",
        "search": "检索 {documents:,} 篇文档，{kind}",
        "found": "每个查询 {:.2f} 毫秒；找到最近 100 篇中的 {:.1f} %",
        "mined": "处理器时间 {:.1f} 秒，内存 {} 对 {} MiB，{:.1f} % 的查询得到同样的负例",
    },
}
Row = dict[str, Value]


def table(reports: list[Report], language: str) -> str:
    """Markdown: one line per thing that was measured on our side."""
    words = WORDS[language]
    lines = [f"| {' | '.join(HEADINGS[language])} |", "| --- | --- | --- |"]
    for report in sorted(reports, key=lambda one: list(LINES).index(one.benchmark)):
        lines += [f"| {' | '.join(cells)} |" for cells in LINES[report.benchmark](report.rows, words)]
    return "\n".join(lines)


def _times(row: Row, words: dict[str, str]) -> str:
    return words["times"].format(*(f"{row[key]:.2f}" for key in ("ratio", "ratio_low", "ratio_high")))


def _ours(rows: list[Row]) -> Iterator[tuple[Row, str]]:
    """The rows of our sides, and what stands behind "ours"."""
    for row in rows:
        whose, _, which = str(row["side"]).partition(" ")
        if whose == "ours":
            yield row, which


def _training(rows: list[Row], words: dict[str, str]) -> Iterator[tuple[str, ...]]:
    memory = {(row["size"], row["precision"]): row["mib_peak"] for row in rows if row["side"] == "theirs"}
    for row in (row for row, which in _ours(rows) if not which):
        peaks = (shown(mib) for mib in (row["mib_peak"], memory[row["size"], row["precision"]]))
        besides = words["peak"].format(f"{100 * row['peak_share']:.0f}", *peaks)
        if row["precision"] != "fp32":
            besides = words["default"].format(f"{row['vs_default']:.2f}") + "; " + besides
        yield words["training"].format(**row), _times(row, words), besides


def _steps(rows: list[Row], words: dict[str, str], *, work: str, unit: str) -> Iterator[tuple[str, ...]]:
    for row, _ in _ours(rows):
        speed = f"{row[f'{unit}_per_second']:,.0f}"
        yield words[work].format(**row), _times(row, words), words[unit].format(speed)


def _encoding(rows: list[Row], words: dict[str, str]) -> Iterator[tuple[str, ...]]:
    for row, backend in _ours(rows):
        speed = f"{row['sentences_per_second']:,.0f}"
        besides = words["spearman"].format(speed, row["spearman_change"] / 100)
        yield words["encoding"].format(model=row["model"], side=backend), _times(row, words), besides


def _evaluation(rows: list[Row], words: dict[str, str]) -> Iterator[tuple[str, ...]]:
    for row, backend in _ours(rows):
        besides = words["pairs"].format(f"{row['pairs_per_second']:,.0f}")
        if row.get("spearman_change"):
            besides += words["moved"].format(row["spearman_change"])
        yield words["evaluation"].format(**row, backend=backend), _times(row, words), besides


def _memory(rows: list[Row], words: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """The largest batch in pieces, beside the largest that theirs holds at once."""
    held = [row for row in rows if row["mib_peak"] is not None]
    for size, loss in dict.fromkeys((row["size"], row["loss"]) for row in held):
        peak = {
            (row["side"], row["cached"], row["batch_size"]): row
            for row in held
            if (row["size"], row["loss"]) == (size, loss)
        }
        largest = max(batch for side, cached, batch in peak if (side, cached) == ("ours", "yes"))
        whole = max(batch for side, cached, batch in peak if (side, cached) == ("theirs", "no"))
        ours, theirs = peak["ours", "yes", largest], peak.get(("theirs", "yes", largest))
        yield (
            words["memory"].format(**ours),
            words["needs"].format(ours["mib_peak"] / theirs["mib_peak"]) if theirs else words["no rival"],
            words["held"].format(
                shown(ours["mib_peak"]),
                ours["seconds_per_step"],
                whole,
                *(shown(peak[side, "no", whole]["mib_peak"]) for side in ("ours", "theirs")),
            ),
        )


def _overhead(rows: list[Row], words: dict[str, str]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        values = (f"{row[key]:.1f}" for key in ("overhead_percent", "overhead_low", "overhead_high"))
        yield words["overhead"].format(**row), words["percent"].format(*values), ""


def _mining(rows: list[Row], words: dict[str, str]) -> Iterator[tuple[str, ...]]:
    theirs = {row["documents"]: row for row in rows if row["side"] == "theirs"}
    for row, _ in _ours(rows):
        peaks = (shown(one["peak_mib"]) for one in (row, theirs[row["documents"]]))
        besides = words["mined"].format(row["cpu_seconds"], *peaks, 100 * row["same_share"])
        yield words["mining"].format(**row), _times(row, words), besides


def _search(rows: list[Row], words: dict[str, str]) -> Iterator[tuple[str, ...]]:
    for row, kind in _ours(rows):
        besides = words["found"].format(row["milliseconds_per_query"], 100 * row["recall_at_100"])
        yield words["search"].format(**row, kind=kind), _times(row, words), besides


LINES = {
    "training": _training,
    "crossencoder": partial(_steps, work="crossencoder", unit="pairs"),
    "distill": partial(_steps, work="distill", unit="sentences"),
    "encoding": _encoding,
    "evaluation": _evaluation,
    "memory": _memory,
    "mining": _mining,
    "search": _search,
    "overhead": _overhead,
}


def write_into(page: Path, text: str) -> None:
    """Puts `text` between the markers of a page. Raises ValueError where they are missing."""
    before, start, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"{page}: expected a line {START} and, further down, a line {END}")
    write_text(page, f"{before}{START}\n{text}\n{END}{after}", in_own_folder=True)


def main() -> None:
    parser = Parser("python -m tools.bench.page", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with the JSON files of python -m tools.bench")
    parser.add_argument("pages", type=Path, nargs="+", help="pages with markers; *.zh.md get Chinese words")
    given = parser.parse_args()
    reports = [Report.read(path) for path in sorted(given.folder.rglob("*.json"))]
    reports = [one for one in reports if one.benchmark in LINES]
    for page in given.pages:
        write_into(page, table(reports, "zh" if page.suffixes[-2:-1] == [".zh"] else "en"))


if __name__ == "__main__":
    sys.exit(run_program(main))
