"""A table as people have it: its encoding, delimiter and header are recognised.

A job reads only what a set's description says (`juzhen.data.readers`); this is for `juzhen new`, which writes one.
"""

import csv
import io
import itertools
import re
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from juzhen.core.commands import require_packages
from juzhen.core.errors import UserError, foreign_reason
from juzhen.core.opened import open_input
from juzhen.data.files import COMPRESSIONS
from juzhen.data.foreign_rows import TOOLS, as_fields, format_of
from juzhen.data.readers import decoded, decompressed, read_table, require_short_lines
from juzhen.data.verify import refuse_faults

DELIMITERS = {".csv": ",;\t|", ".tsv": "\t,;|", ".txt": "\t,;|"}
"""Suffix → the delimiters that are tried, the likeliest first."""
DELIMITER_NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}

EXCEL = ".xlsx"
SAMPLE = 1000
"""Rows by which delimiter, header and columns are recognised."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
CHINESE = re.compile("[\u3400-\u9fff]")
ID_NAMES = re.compile(r"(?i)(q|s|a|pair|row)?_?(id|idx|index|no\.?)\d?|unnamed.*|序号|编号|行号")
TOPIC_NAMES = re.compile(
    r"(?i).*(intent|class|category|topic|domain|sentiment|emotion|情感|类别|分类|意图|主题|领域).*"
)
TARGET_NAMES = re.compile(
    r"(?i).*(label|score|same|similarity|grade|gold|target|duplicate|标签|标注|分数|得分|相似度|是否).*|"
    + TOPIC_NAMES.pattern.removeprefix("(?i)")
)
POSITIVE_NAMES = re.compile(r"(?i).*(pos|正例|正样本|答案|回答|answer|passage|document).*")
NEGATIVE_NAMES = re.compile(r"(?i).*(neg|负例|负样本|反例).*")
TEXT_NAMES = re.compile(
    r"(?i).*(text|sent|quer|question|anchor|title|premise|hypothesis).*"
    r"|.{0,3}(问题|问法|问句|问|句子|句|文本|内容|标题|前提|假设)[\dA-D甲乙一二]?"
)


@dataclass(frozen=True)
class RawTable:
    """The cells of a file as texts, "" where there is nothing.

    cells    a column for each of the file; the index is the line of a row, or its number where there are no lines
             Several rows may be of one line
    format   how the file is written, for people
    faults   line → why it is no row
    notes    what a person may know better, one sentence each
    """

    path: Path
    cells: pd.DataFrame
    format: str
    faults: dict[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return list(self.cells.columns)


def read_raw(path: Path, *, header: bool | None = None) -> RawTable:
    """The cells of a csv, tsv, txt (UTF-8, UTF-16 or GBK), jsonl, parquet, arrow, feather or xlsx file.

    header  whether the first line names the columns; None: as it looks

    Raises UserError for a file that is none of these, or holds no row.
    """
    suffix = next((suffix for suffix in reversed(path.suffixes) if suffix.lower() not in COMPRESSIONS), "")
    suffix = suffix.lower()
    if suffix == EXCEL:
        table = _as_table(path, _sheet_rows(path), header, "Excel, first sheet")
    elif suffix in DELIMITERS:
        text, encoding = decoded(path, decompressed(path))
        require_short_lines(path, text.splitlines())
        delimiter = choose_delimiter(text, DELIMITERS[suffix])
        format = f"{encoding}, {DELIMITER_NAMES[delimiter]} between columns"
        table = _as_table(path, _delimited_rows(path, text, delimiter), header, format)
    else:
        table = _named_columns(path, suffix)
    if table.cells.empty:
        raise UserError(f"{path}: there is no row below the names of the columns")
    return table


def choose_delimiter(text: str, candidates: str) -> str:
    """The delimiter that gives most rows the same number of cells, two at least; the first where none does.

    >>> choose_delimiter("a;b,c\\nd;e\\n", ",;")
    ';'
    """
    shares = []
    for delimiter in candidates:
        try:
            widths = np.array([len(cells) for _, cells in _delimited_rows(Path(), text, delimiter, SAMPLE)])
        except UserError:  # quotes that are none
            widths = np.array([], int)
        width = int(np.bincount(widths).argmax()) if len(widths) else 0
        shares.append(round(float((widths == width).mean()), 9) if width > 1 else 0.0)
    return candidates[int(np.argmax(shares))]


def _delimited_rows(
    path: Path, text: str, delimiter: str, count: int | None = None, *, quoted: bool = True
) -> list[tuple[int, list[str]]]:
    """Line and cells of the first `count` rows that are not blank. Raises UserError for quotes that are not closed.

    Where tabs divide columns a quote is often a sign of the text: if cells would span lines, quotes mean nothing.
    """
    quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=quoted)
    rows, line = [], 1
    try:
        for cells in itertools.islice(reader, count):
            if quoted and delimiter == "\t" and reader.line_num > line:
                raise csv.Error("a cell spans lines")
            if any(cells):
                rows.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        if quoted and delimiter == "\t":
            return _delimited_rows(path, text, delimiter, count, quoted=False)
        raise UserError(
            f"{path}:{line}: no row that can be read ({error}); are all quotes closed?"
        ) from error
    return rows


def _sheet_rows(path: Path) -> list[tuple[int, list[str]]]:
    require_packages(str(path), "openpyxl", extra="excel", otherwise=", or save the table as CSV")
    import openpyxl

    with open_input(path) as file, warnings.catch_warnings(action="ignore"):
        try:
            sheet = openpyxl.load_workbook(file, read_only=True, data_only=True).worksheets[0]
            sheet.reset_dimensions()  # many programs write wrong ones
            rows = [[_as_text(cell) for cell in cells] for cells in sheet.iter_rows(values_only=True)]
        except (OSError, ValueError, LookupError, TypeError, AttributeError, zipfile.BadZipFile) as error:
            raise UserError(f"{path}: no Excel table that can be read ({foreign_reason(error)})") from error
    width = max(map(len, rows), default=0)
    return [(line, cells + [""] * (width - len(cells))) for line, cells in enumerate(rows, 1)]


def _named_columns(path: Path, suffix: str) -> RawTable:
    """Formats that name their columns themselves. Of negatives there may be a list."""
    table = read_table(path, header=True, quoted=True)
    if (written := format_of(table)) is not None:
        format, kind = written
        notes: list[str] = []
        table = as_fields(table, format, kind, tell=notes.append)
        texts = {
            name: [*map(_as_text, values)]
            for name, values in zip(table.names or (), table.columns, strict=True)
        }
        frame = pd.DataFrame(texts, table.lines, dtype=str)
        described = f"{suffix[1:]}, rows of {TOOLS[format]}"
        if frame.empty:
            refuse_faults(table, table.faults, "error")
        return RawTable(path, frame, described, dict(table.faults), tuple(notes))
    columns: dict[str, Sequence[Any]] = {}
    for name, values in zip(_distinct(table.names or []), table.columns, strict=True):
        cells = values.to_pylist() if hasattr(values, "to_pylist") else values
        classes = table.class_names(name)
        if classes:
            cells = [
                classes[cell] if isinstance(cell, int) and 0 <= cell < len(classes) else cell
                for cell in cells
            ]
        if any(isinstance(cell, list) for cell in cells):
            lists = [cell if isinstance(cell, list) else [cell] for cell in cells]
            count = min(map(len, lists)) if NEGATIVE_NAMES.fullmatch(name) else max(map(len, lists))
            if count > 1 and not NEGATIVE_NAMES.fullmatch(name):
                raise UserError(
                    f"{path}: column {name} holds lists of {count} and fewer; write a row for each text"
                )
            for number in range(max(count, 1)):
                key = f"{name} {number + 1}" if number else name
                columns[key] = [cell[number] if number < len(cell) else None for cell in lists]
        else:
            columns[name] = cells
    frame = pd.DataFrame(
        {name: [*map(_as_text, cells)] for name, cells in columns.items()}, table.lines, dtype=str
    )
    return RawTable(path, frame, suffix[1:], dict(table.faults))


def _as_text(cell: Any) -> str:
    if isinstance(cell, float):
        cell = "" if cell != cell else int(cell) if cell.is_integer() else cell
    if isinstance(cell, bool):
        cell = int(cell)
    return "" if cell is None else re.sub("\r\n?", "\n", str(cell)).strip()


def _as_table(
    path: Path, rows: Sequence[tuple[int, Sequence[str]]], header: bool | None, format: str
) -> RawTable:
    """Without blanks around cells, blank lines and columns; rows with another number of cells than most are faults."""
    stripped = [(line, [*map(_as_text, cells)]) for line, cells in rows]
    stripped = [(line, cells) for line, cells in stripped if any(cells)]
    if not stripped:
        raise UserError(f"{path}: the file is empty")
    width = int(np.bincount([len(cells) for _, cells in stripped]).argmax())
    good = [(line, cells) for line, cells in stripped if len(cells) == width]
    faults = {
        line: f"{len(cells)} cells, expected {width}" for line, cells in stripped if len(cells) != width
    }
    frame = pd.DataFrame([cells for _, cells in good], index=[line for line, _ in good], dtype=str)
    frame = frame.loc[:, (frame != "").any()]
    named = looks_like_header(frame.head(SAMPLE)) if header is None else header
    first = frame.iloc[0].tolist() if named else [""] * frame.shape[1]
    frame.columns = pd.Index(_distinct(first))
    described = f"{format}, {'first line names the columns' if named else 'no line of names'}"
    return RawTable(path, frame.iloc[int(named) :], described, faults)


def _distinct(names: Sequence[str]) -> list[str]:
    """Each name once; a column without one goes by its number, from 1."""
    numbered = [name or f"column {number}" for number, name in enumerate(names, 1)]
    return [
        f"{name} ({number})" if name in numbered[: number - 1] else name
        for number, name in enumerate(numbered, 1)
    ]


def looks_like_header(cells: pd.DataFrame) -> bool:
    """Whether the first row names the columns.

    It does where it is no number above numbers, no class above a few classes that come again and again, in Latin
    letters above Chinese, or where all of it are words that columns are called by.
    """
    first, body = cells.iloc[0].tolist(), cells.iloc[1:]
    if len(set(first)) < len(first):
        return False
    latin = []
    for name, column in zip(first, body.columns, strict=True):
        values = body.loc[body[column] != "", column]
        if values.empty:
            continue
        if share_of_numbers(values) > 0.9:
            return not NUMBER.fullmatch(name)
        counts = values.value_counts()
        if len(counts) <= 10 and counts.min() > 1:
            return name not in counts.index
        if values.str.contains(CHINESE).mean() > 0.5:
            latin.append(re.fullmatch(r"[A-Za-z_][\w .()/-]{0,40}", name, re.ASCII) is not None)
    if latin and all(latin):
        return True
    patterns = (TEXT_NAMES, TARGET_NAMES, ID_NAMES, POSITIVE_NAMES, NEGATIVE_NAMES)
    is_name = [len(name) <= 20 and any(pattern.fullmatch(name) for pattern in patterns) for name in first]
    return all(is_name) and not re.search("[？?。！!，,]", "".join(first))


def share_of_numbers(values: pd.Series) -> float:
    """Of cells that are not empty."""
    return float(values.str.fullmatch(NUMBER).mean()) if len(values) else 0.0
