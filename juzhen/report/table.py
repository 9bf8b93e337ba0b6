"""A matrix as Markdown, console table and CSV, and other tables of a report. Fractions are shown ×100.

Texts of a report in Chinese are one table of pairs, for the page, its script and Markdown.
"""

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from juzhen.core.kinds import metric_title
from juzhen.core.progress import console_table, for_people
from juzhen.core.result import Threshold
from juzhen.core.safe_open import csv_rows
from juzhen.core.text import in_markdown, markdown_table
from juzhen.report.matrix import BELOW, LEAKY, Cell, Matrix, Row

if TYPE_CHECKING:
    import rich.table


MISSING = "—"
NUMERIC = ("", *f"0123456789+-−±≈.<[*{MISSING}")
"""Beginnings of a numeric cell."""

LEGEND = (
    f"**bold** best of the set, *italic* trained on it, {LEAKY} leaky, {BELOW} below the lexical baseline."
)
CHINESE_LEGEND = f"**粗体**为该数据集最佳，*斜体*为用它训练过，{LEAKY} 有泄漏，{BELOW} 低于字面基线。"

CSV_COLUMNS = (
    "row", "setup", "split", "dataset", "metric", "mean", "std", "low", "high", "num_seeds", "count", "in_domain",
    "below_lexical", "leaky_rows", "leaky_share", "leaks_counted_by", "without_leaks", "without_leaks_low",
    "without_leaks_high", "without_leaks_count", "command",
)  # fmt: skip


WORDED = (
    "scope", "part", "to decide", "verdict", "learnt from less", "why there is no reference", "note", "counted by",
)  # fmt: skip
"""Headings of columns of words."""

NOTHING = "Nothing here to answer this from."


@dataclass(frozen=True)
class ReportTable:
    """One table of the report with plain text cells, for Markdown and the page.

    Attributes:
        key: Word for markers and anchors.
        title: Heading.
        note: Text above the table.
        head: Headings of columns.
        body: Cells as text, as many per line as `head` has.
        empty: Text instead of an empty table. With "" a report omits the section.
    """

    key: str
    title: str
    note: str
    head: tuple[str, ...]
    body: Sequence[tuple[str, ...]]
    empty: str = ""

    @property
    def numbers(self) -> list[int]:
        """Columns of numbers, which are right-aligned."""
        first = [{line[column][:1] for line in self.body} for column in range(len(self.head))]
        return [column for column, signs in enumerate(first) if signs <= {*NUMERIC}]

    @property
    def worded(self) -> list[int]:
        """Columns of words to translate. Others hold names and numbers."""
        return [column for column, name in enumerate(self.head) if name in WORDED]

    def markdown(self) -> str:
        """Format the table as Markdown.

        Returns:
            The table, or `empty` without rows.
        """
        return (
            markdown_table(self.head, self.body, numbers=self.numbers) if self.body else self.empty or NOTHING
        )

    def console(self) -> "rich.table.Table | str":
        """Format the table for a terminal.

        Returns:
            A table of rich, or `empty` without rows.
        """
        numbers = [self.head[column] for column in self.numbers]
        return console_table(self.head, self.body, numbers=numbers) if self.body else self.empty or NOTHING


def show_tables(tables: Iterable[ReportTable], notes: Iterable[str] = ()) -> None:
    """Print tables with titles, and then notes, drawn for a terminal or as Markdown.

    Args:
        tables: Tables in order.
        notes: Sentences, one a line.
    """
    console = for_people()
    for table in tables:
        words = ". ".join(filter(None, [table.title, table.note])).replace("?. ", "? ")
        about = [words] if words else []
        if console:
            for text in (*about, table.console()):
                console.print(text, highlight=False)
        else:
            print("\n\n".join([*about, table.markdown()]), end="\n\n")
    for note in notes:
        if console:
            console.print(note, highlight=False)
        else:
            print(note)


def of_measures(matrix: Matrix, otherwise: str) -> str:
    """Name the metric of the matrix.

    Args:
        matrix: The transfer matrix.
        otherwise: Added if a column has another metric.

    Returns:
        Title of the metric, with ×100.
    """
    is_mixed = any(matrix.measures[column] != matrix.metric for column in matrix.columns)
    return f"{metric_title(matrix.metric)} ×100{otherwise if is_mixed else ''}"


def caption(matrix: Matrix) -> str:
    """Explain the matrix in English.

    Args:
        matrix: The transfer matrix.

    Returns:
        Sentences. They name the columns that are not shown.
    """
    hidden = ", ".join(map(heading, matrix.hidden))
    return (
        f"{of_measures(matrix, ', or the metric in the column name')}. Row: trained on. Column: evaluated on. "
        f"One seed: 95 % bootstrap interval, if any. Several seeds: mean ± standard deviation "
        f"(n: seeds with a value, if some have none). {MISSING} no score."
        + (f" Not shown: {hidden}. --split both shows them." if hidden else "")
    )


def chinese_caption(matrix: Matrix) -> str:
    """Explain the matrix in Chinese.

    Args:
        matrix: The transfer matrix.

    Returns:
        Sentences. They name the columns that are not shown.
    """
    hidden = "、".join(map(heading, matrix.hidden))
    return (
        f"{of_measures(matrix, '，或列名所注的指标')}。行是训练集，列是评测集。单个种子：95 % bootstrap 区间。"
        f"多个种子：均值 ± 标准差。{MISSING} 无分数。{CHINESE_LEGEND}"
        + (f"未显示：{hidden}。加 --split both 即可显示。" if hidden else "")
    )


def undefined(matrix: Matrix) -> list[tuple[str, str, list[str]]]:
    """List missing scores of evaluated sets.

    Args:
        matrix: The transfer matrix.

    Returns:
        Heading of the column, reason, and labels of the rows with that reason.
    """
    labels: dict[tuple[str, str], list[str]] = {}
    for row in matrix.rows:
        for column in matrix.columns:
            if reason := row.reasons.get(column):
                labels.setdefault((column, reason), []).append(row.label)
    return [(heading(column), why, rows) for (column, why), rows in labels.items()]


def undefined_lines(matrix: Matrix) -> list[str]:
    """Write a line for each reason of missing scores.

    Args:
        matrix: The transfer matrix.

    Returns:
        Lines for below the table.
    """
    return [f"{MISSING} {column}: {why} ({', '.join(rows)})" for column, why, rows in undefined(matrix)]


Beaten = Mapping[tuple[str, str], str]
"""(label, column) → letters of beaten rows, see `juzhen.report.significance.beaten`."""


def matrix_table(matrix: Matrix, text_of: Callable[[Row, str], str]) -> ReportTable:
    """Make the table of a matrix.

    Args:
        matrix: The transfer matrix.
        text_of: Formats the cell of a row and a column, `split/dataset`.

    Returns:
        A table with labels, seeds and cells.
    """
    body = [
        (row.label, str(row.num_seeds), *(text_of(row, column) for column in matrix.columns))
        for row in matrix.rows
    ]
    head = ("trained on", "seeds", *(heading(column, matrix) for column in matrix.columns))
    return ReportTable("matrix", "Transfer matrix", "", head, body)


def _mean_text(row: Row, matrix: Matrix) -> str:
    """Format the mean over all columns. MISSING if they differ in metric, or if no seed has them all."""
    cells = [row.cells.get(column) for column in matrix.columns]
    scored = [cell for cell in cells if cell is not None]
    if len(scored) < len(cells) or len({cell.metric for cell in scored}) > 1:
        return MISSING
    seeds = set.intersection(*({*cell.values} for cell in scored))
    means = [statistics.fmean(cell.values[seed] for cell in scored) for seed in sorted(seeds)]
    if len(means) < 2:
        return percent(means[0]) if means else MISSING
    return f"{percent(statistics.fmean(means))} ± {percent(statistics.stdev(means))}"


def _lettered_table(matrix: Matrix, wins: Beaten, *, folders: bool, mean: bool) -> ReportTable:
    """Make the table with letters of beaten rows, and with means or run folders if asked for."""

    def text_of(row: Row, column: str) -> str:
        value, blank, rest = cell_text(row, column).partition(" ")
        return f"{value}{wins.get((row.label, column), '')}{blank}{rest}"

    table = matrix_table(matrix, text_of)
    body = [
        (
            *([chr(ord("a") + place)] if wins else []),
            *line,
            *([_mean_text(row, matrix)] if mean else []),
            *([", ".join(dict.fromkeys(result.folder for result in row.all_results))] if folders else []),
        )
        for place, (row, line) in enumerate(zip(matrix.rows, table.body, strict=True))
    ]
    head = (
        *(["#"] if wins else []),
        *table.head,
        *(["mean"] if mean else []),
        *(["folders"] if folders else []),
    )
    return replace(table, head=head, body=body)


def letters_line(wins: Beaten) -> str:
    """Explain the letters, or "" without any.

    Args:
        wins: (label, column) → letters of beaten rows.

    Returns:
        A sentence, or "".
    """
    if not wins:
        return ""
    return "Letters: rows that this row is significantly better than, at 5 % after Holm's correction over all scores."


def to_markdown(
    matrix: Matrix, wins: Beaten | None = None, *, folders: bool = False, mean: bool = False
) -> str:
    """Format as Markdown, with the best of each column in bold.

    Args:
        matrix: The transfer matrix.
        wins: (label, column) → letters of beaten rows. None or empty: no letters.
        folders: Add a column of run folders.
        mean: Add the mean over all columns.

    Returns:
        Caption, table, and reasons for missing scores.
    """
    wins = wins or {}
    table, start = _lettered_table(matrix, wins, folders=folders, mean=mean), 3 if wins else 2
    body = [
        tuple(
            f"**{text}**" if is_best else text
            for text, is_best in zip(line, _best(row, matrix, start), strict=False)
        )
        + line[start + len(matrix.columns) :]
        for row, line in zip(matrix.rows, table.body, strict=True)
    ]
    reasons = "".join(f"\n{in_markdown(line)}\n" for line in undefined_lines(matrix))
    about = " ".join(filter(None, [caption(matrix), letters_line(wins)]))
    return f"{about}\n\n{replace(table, body=body).markdown()}\n{reasons}"


def to_console(
    matrix: Matrix, wins: Beaten | None = None, *, folders: bool = False, mean: bool = False
) -> "rich.table.Table":
    """Make a table for a terminal, without caption. Intervals are below their values, so that many columns fit.

    Args:
        matrix: The transfer matrix.
        wins: As of `to_markdown`.
        folders: Add a column of run folders.
        mean: Add the mean over all columns.

    Returns:
        A table of rich, with the best of each column in bold.
    """
    from rich.text import Text

    wins = wins or {}
    table, start = _lettered_table(matrix, wins, folders=folders, mean=mean), 3 if wins else 2
    end = start + len(matrix.columns)
    body: list[list[str | Text]] = []
    for row, line in zip(matrix.rows, table.body, strict=True):
        cells = zip(line[start:end], _best(row, matrix, 0), strict=True)
        drawn = [Text(text.replace(" ", "\n", 1), "bold" if is_best else "") for text, is_best in cells]
        body.append([*line[:start], *drawn, *(text.replace(", ", "\n") for text in line[end:])])
    return console_table(table.head, body, numbers=table.head[start - 1 : end + mean])


def _best(row: Row, matrix: Matrix, before: int) -> list[bool]:
    """True for the best cell of its column, after cells that are not."""
    return [False] * before + [
        len(matrix.rows) > 1 and column in row.cells and row.cells[column].is_best
        for column in matrix.columns
    ]


def to_csv(matrix: Matrix) -> str:
    """Format one line per row and split as CSV, with fractions in full precision and hidden splits.

    Args:
        matrix: The transfer matrix.

    Returns:
        CSV with the columns CSV_COLUMNS.
    """
    body = []
    for row in matrix.rows:
        for column, cell in sorted(row.cells.items()):
            numbers = (cell.mean, cell.std, cell.low, cell.high, cell.num_seeds, cell.count)
            marks = (int(cell.in_domain), int(cell.below_lexical))
            leak, unseen = cell.leak, cell.leak and cell.leak.unseen
            seen = (leak.rows, leak.share, leak.counted_by) if leak else (None,) * 3
            unseen_numbers = (unseen.value, unseen.low, unseen.high, unseen.count) if unseen else (None,) * 4
            names = (row.label, row.setup, *column.split("/"), cell.metric)
            body.append((*names, *numbers, *marks, *seen, *unseen_numbers, cell.command))
    return pd.DataFrame(body, columns=CSV_COLUMNS, dtype=object).to_csv(index=False, lineterminator="\n")


def percent(value: float) -> str:
    """Format a fraction ×100.

    Args:
        value: Fraction, such as a correlation.

    Returns:
        A number with one digit, without a sign for percent.
    """
    return f"{100 * value:.1f}"


def signed(value: float | None) -> str:
    """Format a difference.

    Args:
        value: Points. None and NaN give MISSING.

    Returns:
        A number with its sign and one digit.
    """
    return MISSING if value is None or pd.isna(value) else f"{value:+.1f}"


def heading(column: str, matrix: Matrix | None = None) -> str:
    """Return the heading of a column: `test/lcqmc` → `lcqmc (test)`.

    Args:
        column: `split/dataset`.
        matrix: Adds the metric if that of the column differs from the matrix. None: no metric is added.

    Returns:
        Text of the heading.
    """
    split, dataset = column.split("/")
    own = matrix is not None and matrix.measures[column] != matrix.metric
    return f"{dataset} ({split})" + (f" {metric_title(matrix.measures[column])}" if matrix and own else "")


def cell_text(row: Row, column: str) -> str:
    """Format a cell, with the number of seeds if some lack a value.

    Args:
        row: Row of the matrix.
        column: `split/dataset`.

    Returns:
        Mean and deviation of several seeds, or score and interval. MISSING without a cell.
    """
    cell = row.cells.get(column)
    if cell is None:
        return MISSING
    text = mean_and_deviation(cell) if cell.std is not None else with_interval(cell.mean, cell.low, cell.high)
    return text if cell.num_seeds == row.num_seeds else f"{text} (n = {cell.num_seeds})"


def marked_text(row: Row, column: str) -> str:
    """Format a cell as Markdown, with the marks of LEGEND.

    Args:
        row: Row of the matrix.
        column: `split/dataset`.

    Returns:
        As `cell_text`, with marks around it and behind it.
    """
    cell = row.cells.get(column)
    if cell is None:
        return MISSING
    mark = "*" * (2 * cell.is_best + cell.in_domain)
    return f"{mark}{cell_text(row, column)}{mark}{cell.signs}"


def interval(low: float | None, high: float | None) -> str:
    """Format an interval ×100.

    Args:
        low: Lower end as a fraction. None: missing.
        high: Upper end.

    Returns:
        Such as "[80.1, 82.3]", or MISSING.
    """
    return MISSING if low is None or high is None else f"[{percent(low)}, {percent(high)}]"


def with_interval(value: float, low: float | None, high: float | None) -> str:
    """Format a score ×100 with its interval.

    Args:
        value: Score as a fraction.
        low: Lower end. None leaves the interval out.
        high: Upper end.

    Returns:
        Text such as `81.2 [80.1, 82.3]`.
    """
    return f"{percent(value)} {interval(low, high)}".removesuffix(f" {MISSING}")


def mean_and_deviation(cell: Cell) -> str:
    """Format the mean of a cell ×100 with its deviation between seeds.

    Args:
        cell: Cell of one seed, which has no deviation, or of several.

    Returns:
        Text such as `81.2 ± 0.3`, or `81.2` for one seed.
    """
    return percent(cell.mean) + (f" ± {percent(cell.std)}" if cell.std is not None else "")


# The table of thresholds: from which score on a pair counts as the same, and how good these decisions are.


HEAD = ("set", "same from", "accuracy", "precision", "recall", "F1", "judged on")


def decision_table(thresholds: Iterable[tuple[str, Threshold]]) -> ReportTable:
    """Make a line for each set with a threshold. Shares are ×100.

    Args:
        thresholds: Name of a set, and its threshold.

    Returns:
        A table. Its note has the reason of each missing value.
    """
    listed, body, reasons = list(thresholds), [], []
    for name, threshold in listed:
        shares = (threshold.accuracy, threshold.precision, threshold.recall, threshold.f1)
        texts = [MISSING if share is None else f"{100 * share:.1f}" for share in shares]
        value = MISSING if threshold.value is None else f"{threshold.value:.4f}"
        body.append((name, value, *texts, threshold.judged_on))
        reasons += [f"{name}: {threshold.why}." for _ in range(threshold.why is not None)]
    note = " ".join(
        ["A pair counts as the same from the score on that has the best accuracy on dev.", *reasons]
    )
    return ReportTable("decisions", "Same or not, ×100", note, HEAD, body)


PAIRS = Path(__file__).parent / "page" / "chinese.csv"
"""english, chinese: `{}` is a part that changes, `{#}` a number. In Chinese `{0}` is the first part unchanged, `{0!}`
its translation.
"""

HOLE, NUMBER = re.compile(r"\{#?\}"), r"([+\-−<]?[\d.,]+)"
BEGINS, LEAST_CHARACTERS = re.compile(r"\w|\{#\}"), 6
"""Beginning, or number of other characters, that a pair with parts needs. `{} of {}` would match any sentence, and is
for scripts only.
"""

BETWEEN = ((re.compile(r"(?<=[.?]) "), ""), (re.compile("; "), "；"), (re.compile(", (?!not )"), "，"))
"""Separators between parts with their own pairs (sentences, phrases, words), and their Chinese equivalents."""

COLUMN = re.compile(r"\S+ \(\w+\)")
"""A column of a matrix, which is a name: lcqmc (dev)."""

SAID, VALUE = re.compile(r"\bsay`([^`]*)`"), re.compile(r"\$\{[^}]*\}")
"""A text of a script, and a part of it that changes."""


@cache
def pairs() -> dict[str, str]:
    """Read the translations of the tables.

    Returns:
        English text → Chinese text, read once.
    """
    return {row["english"]: row["chinese"] for _, row in csv_rows(PAIRS)[1]}


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Pairs with parts, the longest first."""
    patterns = []
    for english in sorted(filter(HOLE.search, pairs()), key=len, reverse=True):
        if BEGINS.match(english) or len(HOLE.sub("", english)) >= LEAST_CHARACTERS:
            parts = [NUMBER if hole == "{#}" else "(.+?)" for hole in HOLE.findall(english)]
            pieces = zip(map(re.escape, HOLE.split(english)), [*parts, ""], strict=True)
            pattern = re.compile("".join(map("".join, pieces)), re.DOTALL)
            patterns.append((pattern, pairs()[english]))
    return patterns


@cache
def chinese(text: str) -> str | None:
    """Translate a text. None without a pair, for example for a name.

    Args:
        text: English text. Sentences, phrases and words may have pairs of their own.

    Returns:
        The Chinese text.

    >>> chinese("best zero-shot"), chinese("differs by -3.2"), chinese("lcqmc")
    ('零样本最佳', '相差 -3.2', None)
    """
    if (known := pairs().get(text)) is not None:
        return known
    for mark, joint in BETWEEN:
        translated = [chinese(part) for part in mark.split(text)] if mark.search(text) else [None]
        if None not in translated:
            return joint.join(filter(None, translated))
    for pattern, known in _patterns():
        if match := pattern.fullmatch(text):
            return _filled(known, match.groups())
    phrase = chinese(text[:-1]) if text.endswith(".") else None
    return None if phrase is None else f"{phrase}。"


def _filled(pattern: str, parts: Sequence[str]) -> str:
    def part(hole: re.Match[str]) -> str:
        text = parts[int(hole[1])]
        return in_chinese(text) if hole[2] else text

    return re.sub(r"\{(\d)(!?)\}", part, pattern)


Phrase = tuple[str, str]
"""A text in English and in Chinese."""


def phrase(template: str, *parts: str | Phrase) -> Phrase:
    """Fill a template that has a pair. A part that is a str is a name or a number.

    Args:
        template: English text with `{}` for each part.
        *parts: Names and numbers, or texts in both languages.

    Returns:
        The text in English and in Chinese.

    Raises:
        KeyError: The template has no pair.

    >>> phrase("{} rows", "300")
    ('300 rows', '300 行')
    """
    both = [(part, part) if isinstance(part, str) else part for part in parts]
    english = iter(both)
    filled = re.sub(r"\{(\d)!?\}", lambda hole: both[int(hole[1])][1], pairs()[template])
    return HOLE.sub(lambda _: next(english)[0], template), filled


def in_chinese(text: str) -> str:
    """Translate a text, and keep a name.

    Args:
        text: English text, or a name.

    Returns:
        The Chinese text, or `text` without a translation.
    """
    return chinese(text) or text


def table_in_chinese(table: ReportTable) -> ReportTable:
    """Translate title, note, headings and columns of words. Names and numbers are kept.

    Args:
        table: Table in English. It is not changed.

    Returns:
        A new table.
    """
    body = [
        tuple(in_chinese(text) if column in table.worded else text for column, text in enumerate(line))
        for line in table.body
    ]
    title, note, empty = map(in_chinese, (table.title, table.note, table.empty or NOTHING))
    return replace(
        table, title=title, note=note, head=tuple(map(in_chinese, table.head)), body=body, empty=empty
    )


class Words:
    """English texts of a page, with the Chinese that its script shows.

    Attributes:
        used: English → Chinese. A text of the script has `{0}` for parts.
        missing: Texts without a pair.
    """

    def __init__(self, *scripts: str) -> None:
        self.used: dict[str, str] = {}
        self.missing: list[str] = []
        for text in dict.fromkeys(text for script in scripts for text in SAID.findall(script)):
            self._use(english := VALUE.sub("{}", text), pairs().get(english))

    def say(self, text: str, *, name: bool = False) -> str:
        """Return the English text, and add its Chinese to the page.

        Args:
            text: English text.
            name: The text may be a name, which has no Chinese.

        Returns:
            `text`.
        """
        translated = chinese(text.strip())
        if re.search("[A-Za-z]", text) and not COLUMN.fullmatch(text) and not (name and translated is None):
            self._use(text.strip(), translated)
        return text

    def add(self, text: Phrase) -> None:
        """Add a text in both languages.

        Args:
            text: English and Chinese.
        """
        self.used[text[0]] = text[1]

    def _use(self, text: str, translated: str | None) -> None:
        if translated is None:
            self.missing.append(text)
        else:
            self.used[text] = translated
