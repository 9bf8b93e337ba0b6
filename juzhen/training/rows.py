"""Rows to learn from, out of Python lists and files: the columns say of what kind they are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind, negative_columns
from juzhen.core.numerals import number_or_nan
from juzhen.data.configured import configured_set
from juzhen.data.readers import FileTable, read_own_table
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, LayoutConfig, Source, SplitRequest
from juzhen.data.verify import verified

Rows = Examples | str | Path | Sequence[str | Sequence[object]]


def as_examples(
    rows: Rows,
    *,
    split: str = "train",
    score_range: tuple[float, float] = (0.0, 1.0),
    data_dir: str | Path = "data",
    on_bad_row: str = "error",
) -> Examples:
    """Rows of one kind, which their columns say: text · two texts that belong together · two texts and a label, 0 or 1,
    or a score · anchor, positive, negative, and more negatives.

    rows   Examples · tuples of such columns · a file of them (.tsv, .csv, .jsonl, .parquet …, with a header where
           the format has one) · the name of a set of `data_dir`, or of a built-in one
    score_range  lowest and highest score, which become 0 and 1
    on_bad_row  error: the first faulty row is refused · drop: faulty rows are left out

    Raises UserError for rows that are none of these, with the line of a file.
    """
    if isinstance(rows, Examples):
        return rows
    if isinstance(rows, str | Path) and not Path(rows).suffix:
        examples = load_examples(
            configured_set(str(rows)),
            split,
            source=Source.LOCAL,
            data_dir=data_dir,
            on_bad_row=on_bad_row,
            required=True,
        )
        assert examples is not None  # it is required
        return examples
    if isinstance(rows, str | Path):
        name = Path(rows).name.partition(".")[0]
        table = read_own_table(Path(rows))
    else:
        name, table = "rows", _table(rows)
    kind, columns = _kind(table)
    labels, scores = {"0": 0, "1": 1}, list(score_range)
    config = DatasetConfig(
        name=name,
        kind=kind,
        language="zh",
        layout="rows",
        layouts={"rows": LayoutConfig(files={}, columns={})},
        labels=labels if kind == Kind.LABELLED_PAIR else None,
        score_range=scores,
    )
    return verified(table, SplitRequest(config, split, Source.LOCAL, ".", on_bad_row), columns=columns)


def _table(rows: Sequence[str | Sequence[object]]) -> FileTable:
    """Tuples as columns."""
    listed = [(row,) if isinstance(row, str) else tuple(row) for row in rows]
    widths = {len(row) for row in listed}
    if len(widths) != 1:
        raise UserError(
            f"rows: {len(listed)} rows of {sorted(widths)} columns; expected some, all of as many"
        )
    numbers = np.arange(1, len(listed) + 1, dtype=np.int32)
    return FileTable("rows", None, list(zip(*listed, strict=True)), numbers, has_lines=False)


def _kind(table: FileTable) -> tuple[Kind, dict[str, int]]:
    """What the rows of a table are, and which column holds what."""
    columns = [values.to_pylist() if hasattr(values, "to_pylist") else values for values in table.columns]
    if len(columns) == 1:
        return Kind.SENTENCE, {"text": 0}
    if len(columns) == 2:
        return Kind.POSITIVE_PAIR, {"anchor": 0, "positive": 1}
    numbers = {number_or_nan(str(value)) for value in columns[2]}
    if len(columns) == 3 and numbers <= {0.0, 1.0}:
        return Kind.LABELLED_PAIR, {"text_a": 0, "text_b": 1, "label": 2}
    if len(columns) == 3 and any(number == number for number in numbers):
        return Kind.SCORED_PAIR, {"text_a": 0, "text_b": 1, "score": 2}
    names = ["anchor", "positive", *negative_columns(len(columns) - 2)]
    return Kind.TRIPLET, {name: column for column, name in enumerate(names)}
