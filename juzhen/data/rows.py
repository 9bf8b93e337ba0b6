"""Rows of users as Examples, from Python objects and files, and the configured sets that subcommands read.

`fit`, `evaluate` and subcommands read rows by `as_examples` and `own_set`: a file, a DataFrame and a list of dicts with
the same content give the same rows. Columns are known by their names.
"""

import io
import math
import re
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from juzhen.core.columns import table_columns
from juzhen.core.errors import UserError, in_python, require_choice
from juzhen.core.examples import Examples, Kind, negative_columns
from juzhen.core.paths import is_table
from juzhen.core.text import counted, number_or_nan, short
from juzhen.data.headers import NO_LABEL, direction, language_of, nli_classes, pair_classes, settled_classes
from juzhen.data.rankings import anchors_are_standard
from juzhen.data.readers import FileTable
from juzhen.data.row_checks import listed, verified
from juzhen.data.row_kinds import (
    Guess,
    RawTable,
    finite_numbers,
    guess,
    least_labels,
    odd_labels,
    refuse_missing,
    text_cells,
)
from juzhen.data.source import load_examples, load_named
from juzhen.data.spec import (
    DatasetConfig,
    LayoutConfig,
    Source,
    SplitRequest,
    described_sets,
    read_description,
    require_set,
)
from juzhen.data.tables import (
    TableReading,
    as_text,
    names_of,
    read_own_table,
    text_values,
    warn_dropped,
    with_split_cells,
)

NO_WORD = re.compile(r"[\d.,:/%％ ]+")
"""A text without a letter, such as 80 %."""

ONE_VALUE = (str, bytes, bytearray, Mapping, set, frozenset)
"""Types whose values are no column, though they can be walked."""

Rows = Examples | str | Path | Iterable[Any]
"""Input of `as_examples`."""


def as_examples(
    rows: Rows,
    *,
    columns: Mapping[str, str | int] | None = None,
    sheet: str | int | None = None,
    header: bool | None = None,
    split_cells: str | None = None,
    on_bad_row: str = "error",
    split: str = "train",
    score_range: tuple[float, float] = (0.0, 1.0),
    data_dir: str | Path = "data",
) -> Examples:
    """Read rows of one kind, which their columns decide.

    Columns are known by their names, as in `juzhen dataset`: two texts and a label (0 and 1, 是 and 否, entailment …)
    or a score, or an anchor with its positive and its negatives. Tuples have no names. Their columns are a text · two
    texts that belong together · two texts and a label or a score · anchor, positive, negative, and more negatives, of
    which some rows may have fewer.

    Args:
        rows: Examples, a list or a generator of dicts or tuples, or a table of pandas, polars, Arrow or
            datasets. Also the path of a file (.csv, .tsv, .txt, .jsonl, .parquet, .arrow, .xlsx), or the name
            of a set of `data_dir` or of a built-in one.
        columns: Field of a row → name of its column, or its number from 1, as in `{"anchor": "标准问", "positive":
            "相似问"}`. None: detected.
        sheet: Sheet of an Excel file, by name or number from 1. None: the first with content.
        header: True if the first line of a file names the columns. None: detected.
        split_cells: Separator of several texts in one cell, such as "||". Each becomes a row.
        on_bad_row: "error" refuses the first faulty row, "drop" leaves faulty rows out and counts them.
        split: Split to read from a set, and split of the returned rows.
        score_range: Lowest and highest score, which become 0 and 1.
        data_dir: Folder of the sets that are not built in.

    Returns:
        The rows as Examples.

    Raises:
        UserError: Other rows, or columns that are not clear. The message has the line of a file.

    Example:
        >>> rows = [{"问题": "怎么退货", "相似问题": "东西想退掉", "是否同义": "是"}]
        >>> rows += [{"问题": "怎么退货", "相似问题": "何时发货", "是否同义": "否"}]
        >>> str(as_examples(rows).kind), as_examples(rows).targets.tolist()
        ('labelled_pair', [1.0, 0.0])
    """
    require_choice("on_bad_row", on_bad_row, ("error", "drop"))
    ends: list[float] = []
    with suppress(TypeError, ValueError):
        ends = [*map(float, score_range)]
    if len(ends) != 2 or not -math.inf < ends[0] < ends[1] < math.inf:
        raise UserError(
            f"score_range={score_range!r}: expected the lowest and then the highest score. Give such as (0, 5)."
        )
    reading = TableReading(
        columns=columns or {},
        header=header,
        sheet=None if sheet is None else str(sheet),
        split_cells=split_cells,
        on_bad_row=on_bad_row,
        spell=in_python,
    )
    if isinstance(rows, Examples):
        require_unread("an object of Examples", reading, ends)
        return rows
    if isinstance(rows, str | Path) and not Path(rows).suffix:
        require_unread(f"the set {rows}", reading, ends)
        return load_named(str(rows), split, data_dir=data_dir, on_bad_row=on_bad_row)
    if isinstance(rows, str | Path):
        return own_set(Path(rows), reading, split, score_range=score_range)[1]
    replace(reading, columns={}, split_cells=None).require_unread(
        "a list of rows", "Leave it out, or give the file"
    )
    table = table_of_rows(rows)
    raw = text_cells(table, reading)
    if table.names is None and len(table.columns) == 3 and len(raw.names) == 2 and not columns:
        refuse_missing(raw, "column 3")
    found = _by_position(raw) if table.names is None and not columns else guess(raw)
    for (
        field
    ) in found.texts:  # a number as a text is a mistake in Python, and the way to write numbers in a file
        if found.columns[field] not in names_of(table):
            continue
        values = table.columns[names_of(table).index(found.columns[field])]
        if {*map(type, values)} <= {str}:
            continue
        for line, value in zip(table.lines.tolist(), values, strict=True):
            for cell in value if isinstance(value, list) else [value]:
                if not isinstance(cell, str) and as_text(cell):
                    raw.faults.setdefault(line, f"{field} is {short(repr(cell))}, not a text")
    return _examples(raw, found, split, "rows", score_range)[1]


def require_unread(place: str, reading: TableReading, score_range: Any) -> None:
    """Refuse options of rows for a described set or for loaded rows.

    Args:
        place: Name of the set, for the message.
        reading: Options of a table.
        score_range: Lowest and highest score.

    Raises:
        UserError: An option other than `on_bad_row` is set.
    """
    reading.require_unread(place)
    if score_range not in ((0, 1), [0, 1]):
        raise UserError(
            f"score_range={score_range!r}: {place} has its own range. Leave it out, or give rows or a file"
        )


def own_set(
    path: Path, reading: TableReading, split: str = "train", *, score_range: Sequence[float] | None = None
) -> tuple[DatasetConfig, Examples]:
    """Read a file as a set, and return its description and its rows.

    Args:
        path: The file.
        reading: Options of its table.
        split: Split of the returned rows.
        score_range: Lowest and highest score. None: those of the file.

    Returns:
        The description and the rows.

    Raises:
        UserError: As of `read_own_table` and `guess`, and for a faulty row.
    """
    raw = text_cells(read_own_table(path, reading), reading)
    return _examples(raw, guess(raw), split, set_name(path), score_range)


def set_name(file: Path) -> str:
    """Return the name of a file's set.

    Args:
        file: Path of the file.

    Returns:
        The name, from letters, digits and _.

    >>> set_name(Path("我的 faq.v2.csv")), set_name(Path("2024.xlsx"))
    ('我的_faq_v2', 'set_2024')
    """
    stem = re.sub(
        r"(\.(csv|tsv|txt|jsonl?|parquet|arrow|feather|xlsx))?(\.(gz|zst))?$", "", file.name, flags=re.I
    )
    stem = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", stem)).strip("_")[:60] or "pairs"
    return f"set_{stem}" if stem[0].isdigit() else stem


def set_and_split(file: Path) -> tuple[str, str]:
    """Return set and split of a file by its name: dev, unless it is called test, as `juzhen dataset` writes it.

    Args:
        file: Path of the file.

    Returns:
        Name of the set, and "dev" or "test".

    >>> set_and_split(Path("faq.csv")), set_and_split(Path("data/faq/test.csv"))
    (('faq', 'dev'), ('faq', 'test'))
    """
    stem = file.name.partition(".")[0]
    if stem in ("dev", "test"):
        return set_name(Path(file.resolve().parent.name)), stem
    return set_name(file), "dev"


def split_raw(raw: RawTable, found: Guess) -> RawTable:
    """Return the table with a row for each text of cells that hold several.

    Args:
        raw: The table.
        found: Its columns.

    Returns:
        The longer table.
    """
    if raw.reading.split_cells is None:
        return raw
    names = names_of(raw.table)
    places = [names.index(found.columns[field]) for field in found.texts if found.columns[field] in names]
    split = text_cells(with_split_cells(raw.table, places, raw.reading.split_cells), raw.reading)
    return replace(split, faults=raw.faults)


def _examples(
    raw: RawTable, found: Guess, split: str, name: str, score_range: Sequence[float] | None
) -> tuple[DatasetConfig, Examples]:
    for note in (*raw.notes, *found.notes):
        warnings.warn(f"{raw.place}: {note}", stacklevel=4)
    raw = split_raw(raw, found)
    scores = None
    if found.kind is Kind.SCORED_PAIR and (scores := score_range or found.score_range) is not None:
        _require_range(raw, found.columns["score"], scores)
    labels = found.labels or {}
    if len(labels) > 1 == len({*labels.values()}):
        raise UserError(f"{raw.place}: {listed([*labels])} are one class. Give pairs without a label")
    config = DatasetConfig(
        name=name,
        kind=found.kind,
        language=language_of(raw.cells[found.columns[field]].head(1000).tolist() for field in found.texts),
        layout="rows",
        layouts={"rows": LayoutConfig(files={}, columns={})},
        labels=None
        if found.labels is None
        else {word: found.classes.index(meant) for word, meant in found.labels.items()},
        ignore_labels=[*NO_LABEL[:2]] if found.kind is Kind.NLI_PAIR else None,
        score_range=None if scores is None else [*scores],
    )
    table = replace(
        raw.table,
        names=[*found.columns],
        columns=[raw.cells[column].tolist() for column in found.columns.values()],
        lines=raw.cells.index.to_numpy(np.int32),
        faults=raw.faults,
        classes={},
    )
    request = SplitRequest(config, split, Source.LOCAL, ".", raw.reading.on_bad_row)
    examples = verified(table, request, columns={field: field for field in found.columns})
    warn_dropped(raw.place, examples.num_dropped)
    if found.kind is Kind.POSITIVE_PAIR and split != "train" and raw.table.names and len(examples):
        columns, is_anchor = [*found.columns.values()], anchors_are_standard(examples)
        first, second = map(direction, columns)
        is_named = first != second and (second < 2) == is_anchor
        if not is_named and columns != [*found.columns]:
            searched, asking = columns[:: 1 if is_anchor else -1]
            warnings.warn(f"{raw.place}: {asking} are the queries, and {searched} is searched", stacklevel=4)
    return config, examples


def _require_range(raw: RawTable, column: str, scores: Sequence[float]) -> None:
    """Raises UserError if many scores are outside of the range: as faulty rows, half a set would be left out."""
    numbers = finite_numbers(raw.cells[column])
    outside = numbers[(numbers < scores[0]) | (numbers > scores[1])]
    if raw.reading.on_bad_row == "drop" and len(outside) > len(numbers) / 10:
        raise UserError(
            f"{raw.place}: {len(outside):,} of {len(numbers):,} scores are outside of score_range [{scores[0]:g}, "
            f"{scores[1]:g}]. They go from {numbers.min():g} to {numbers.max():g}. Say so: score_range="
            f"({numbers.min():g}, {numbers.max():g})"
        )


def table_of_rows(rows: Iterable[Any], name: str = "rows") -> FileTable:
    """Return Python rows as columns, with their names.

    Args:
        rows: Dicts with the same keys, tuples, or a table of another library.
        name: Name of the table in messages.

    Returns:
        The columns.

    Raises:
        UserError: Other objects, no rows, or columns of different lengths.
    """
    names, columns, classes = _columns_of(rows, name)
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise UserError(f"{name}: columns of {sorted(lengths)} values. Give as many in each")
    if not lengths or lengths == {0}:
        raise UserError(f"{name}: no rows. Give a list of tuples or of dicts, a table, or a file")
    numbers = np.arange(1, lengths.pop() + 1, dtype=np.int32)
    return FileTable(name, names, columns, numbers, has_lines=False, classes=classes)


def _columns_of(rows: Any, name: str) -> tuple[list[str] | None, list[list[Any]], dict[str, list[str]]]:
    if hasattr(rows, "read_all"):  # a stream of Arrow
        rows = rows.read_all()
    if hasattr(rows, "collect_schema") and hasattr(rows, "collect"):  # a plan of polars
        rows = rows.collect()
    if hasattr(rows, "iloc") and any(isinstance(level, str) for level in getattr(rows.index, "names", ())):
        rows = rows.reset_index()  # a label may be the index
    if isinstance(rows, Mapping):
        if any(table_columns(value) is not None for value in rows.values()):
            first = next(iter(rows))
            raise UserError(
                f"{name}: got the splits {', '.join(map(str, rows))}. Choose one: rows[{first!r}]"
            )
        if not all(
            isinstance(value, Iterable) and not isinstance(value, ONE_VALUE) for value in rows.values()
        ):
            raise UserError(f"{name}: got one dict. Give a list of dicts, a row each, or a dict of lists")
        columns = [_as_list(value) for value in rows.values()]
        if rows and all(column and isinstance(column[0], tuple | Mapping) for column in columns):
            raise UserError(
                f"{name}: got a dict of rows. Choose those of one name: rows[{next(iter(rows))!r}]"
            )
        return [*map(str, rows)], columns, {}
    if hasattr(rows, "features") and hasattr(
        rows, "with_format"
    ):  # of datasets: all columns, as Python has them
        rows = rows.with_format(None)
    names = table_columns(rows) if hasattr(type(rows), "__getitem__") else None
    if names is not None:
        if repeated := [key for key, count in Counter(names).items() if count > 1]:
            raise UserError(f"{name}: there are several columns {', '.join(repeated)}. Rename them.")
        keys = list(rows.columns) if hasattr(rows, "iloc") else names
        has_names = not all(isinstance(key, int | np.integer) for key in keys)
        columns = [_as_list(rows[key]) for key in keys]
        features = getattr(rows, "features", None) or {}
        classes = {key: list(each.names) for key, each in features.items() if hasattr(each, "names")}
        return (names if has_names else None), columns, classes
    listed = _as_list(rows, name)
    if all(isinstance(row, Mapping) for row in listed) or all(hasattr(row, "_fields") for row in listed):
        records = [row if isinstance(row, Mapping) else row._asdict() for row in listed]
        keys = list(dict.fromkeys(key for record in records for key in record))
        return [*map(str, keys)], [[_plain(record.get(key)) for record in records] for key in keys], {}
    tuples = [_as_tuple(row, number, name) for number, row in enumerate(listed, 1)]
    widths = {len(row) for row in tuples}
    if len(widths) > 1 and min(widths) > 2 and all(isinstance(cell, str) for row in tuples for cell in row):
        # Anchor, positive and negatives. Some rows have fewer negatives.
        tuples = [row + (None,) * (max(widths) - len(row)) for row in tuples]
    elif len(widths) > 1:
        usual = Counter(map(len, tuples)).most_common(1)[0][0]
        number, row = next((number, row) for number, row in enumerate(tuples, 1) if len(row) != usual)
        raise UserError(
            f"{name}, row {number}: {counted(len(row), 'values')}, expected {usual} as in most rows. Complete it."
        )
    return None, [[*column] for column in zip(*tuples, strict=True)], {}


def _as_list(rows: Any, name: str = "rows") -> list[Any]:
    """The values of a list, a generator or a table column one by one."""
    if hasattr(rows, "to_pylist"):
        return list(rows.to_pylist())
    if (
        isinstance(rows, set | frozenset | bytes | bytearray | io.IOBase)
        or getattr(rows, "ndim", 1) == 0
        or (
            "float" in str(getattr(rows, "dtype", "")) and rows.ndim > 1
        )  # embeddings, in the place of their texts
        or not (hasattr(rows, "__iter__") or hasattr(rows, "__getitem__"))
    ):
        raise UserError(
            f"{name}: got a {type(rows).__name__}. Give a list of tuples or of dicts, a table, or the path of a file"
        )
    return [_plain(value) for value in rows]


def _plain(value: Any) -> Any:
    """A value of Arrow, and a number of torch, as one of Python. None if it is missing."""
    if type(value) is str:
        return value
    if hasattr(value, "as_py"):
        value = value.as_py()
    elif getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    return None if value is pd.NA or value is pd.NaT else value


def _as_tuple(row: Any, number: int, name: str) -> tuple[Any, ...]:
    if isinstance(row, str):
        return (row,)
    if isinstance(texts := getattr(row, "texts", None), list) and hasattr(
        row, "label"
    ):  # InputExample of sentence-transformers
        return (*texts, row.label) if len(texts) == 2 else tuple(texts)
    if not isinstance(row, tuple | list | np.ndarray):
        raise UserError(
            f"{name}, row {number}: got a {type(row).__name__}, {short(repr(row))}. Give all rows as tuples, or all as "
            "dicts"
        )
    return tuple(map(_plain, row))


def _by_position(raw: RawTable) -> Guess:
    """Columns and kind of rows without names, as `as_examples` documents."""
    names = raw.names
    if len(names) == 1:
        return Guess(Kind.SENTENCE, {"text": names[0]})
    if len(names) == 2:
        return Guess(Kind.POSITIVE_PAIR, {"anchor": names[0], "positive": names[1]})
    if len(names) == 3:
        column = raw.cells[names[2]]
        pair = {"text_a": names[0], "text_b": names[1]}

        def noted(kind: Kind) -> tuple[str, ...]:
            return tuple(odd_labels(raw, kind, names[:2], names[2]))

        share = least_labels(column)
        classes = settled_classes(pair_classes, column, share) or {}
        numbers = [number_or_nan(value) for value in classes]
        if classes and (any(map(math.isnan, numbers)) or {*numbers} <= {0.0, 1.0}):
            return Guess(
                Kind.LABELLED_PAIR, pair | {"label": names[2]}, classes, notes=noted(Kind.LABELLED_PAIR)
            )
        if classes := settled_classes(nli_classes, column, share) or {}:
            premise = {"premise": names[0], "hypothesis": names[1], "label": names[2]}
            return Guess(Kind.NLI_PAIR, premise, classes, notes=noted(Kind.NLI_PAIR))
        if any(not math.isnan(number_or_nan(value)) for value in column.unique()):
            return Guess(Kind.SCORED_PAIR, pair | {"score": names[2]}, notes=noted(Kind.SCORED_PAIR))
    for name in names[:2]:
        if (values := [value for value in raw.cells[name].unique() if value]) and pair_classes(values):
            raise UserError(
                f"{raw.place}: {name} holds {listed(values[:4])}, which are labels. Give two texts and then their label"
            )
    fields = ["anchor", "positive", *negative_columns(len(names) - 2)]
    return Guess(Kind.TRIPLET, dict(zip(fields, names, strict=True)), notes=_odd_negatives(raw, names[2]))


def _odd_negatives(raw: RawTable, name: str) -> tuple[str, ...]:
    """A remark on negatives that look like labels: few words that repeat, or letters. Raises UserError for numbers."""
    column = raw.cells[name]
    values = [value for value in column.unique() if value]
    remedy = "For labels give 1 and 0, for scores give numbers"
    if all(map(NO_WORD.fullmatch, values)):
        raise UserError(f"{raw.place}: {name} holds {listed(values[:4])}, which are no texts. {remedy}")
    is_few = len(column) > 3 and len(values) <= max(3, len(column) // 10) and max(map(len, values)) <= 20
    if not is_few and max(map(len, values)) > 1:
        return ()
    found = f"{name} holds {listed(values[:4])}"
    return (f"{found}, and is read as texts with another meaning than the first ones. {remedy}",)


EVALUATION_SPLITS = ("dev", "test")


class ConfiguredSets:
    """Sets of conf/dataset below `data_dir`. Demo sets are part of the package. A table file is a set, too.

    `absent` has `set/split` of the missing files, in the order of requests.

    Args:
        folder: Folder of the descriptions.
        data_dir: Folder of the sets that are not built in.
        config_dir: Another folder with descriptions in dataset/.
        on_bad_row: "error" raises UserError for the first faulty row, "drop" leaves such rows out and counts
            them.
    """

    def __init__(
        self, folder: Path, data_dir: Path, *, config_dir: Path | None = None, on_bad_row: str = "drop"
    ) -> None:
        self.files = described_sets(folder, config_dir)
        self.data_dir = data_dir
        self.on_bad_row = on_bad_row
        self.absent: list[str] = []
        self._read: dict[str, Examples | None] = {}

    def training(self, names: Sequence[str] | None) -> list[Examples]:
        """Return the train split of the named sets, or another named split. None: all sets with a file.

        Sets of running text, of kind `sentence`, are left out of all sets, because they have their own audit.

        Args:
            names: Names of sets or tables. None: all sets.

        Returns:
            The rows of each set.

        Raises:
            UserError: No set has a file, or a name is unknown.
        """
        return self._all(names, ("train",), option="train")

    def evaluation(self, names: Sequence[str] | None, *, option: str = "evaluate") -> list[Examples]:
        """Return the dev and test splits of the named sets, or of all.

        Args:
            names: Names of sets or tables. None: all sets.
            option: Of the names, for messages.

        Returns:
            The rows of each split.

        Raises:
            UserError: As of `training`.
        """
        return self._all(names, EVALUATION_SPLITS, option=option)

    def _all(self, names: Sequence[str] | None, splits: Sequence[str], *, option: str) -> list[Examples]:
        sets: dict[str, Examples] = {}
        of_rows = (key for key, path in self.files.items() if read_description(path).kind != Kind.SENTENCE)
        for name in of_rows if names is None else names:
            if is_table(name):
                _, rows = own_set(Path(name), TableReading(on_bad_row=self.on_bad_row))  # nothing is searched
                sets[name] = replace(rows, split=splits[-1])
                continue
            key, _, split = name.partition("/")
            require_set(option, key, self.files)
            require_choice(f"{option}={name}: split", split or "dev", ("train", "dev", "test"))
            for split_name in [split] if split else splits:
                examples = self.load(key, split_name)
                if examples is not None:
                    sets[f"{key}/{split_name}"] = examples
        if not sets:
            named = "any set" if names is None else short(", ".join(names), 200)
            raise UserError(
                f"{option}: no file of {' or '.join(splits)} of {named} below {self.data_dir}. Type data_dir=<folder "
                "that holds the data sets>, or name demo_sts"
            )
        return list(sets.values())

    def load(self, key: str, split: str) -> Examples | None:
        """Read one split. None, added to `absent`, if it has no file.

        Args:
            key: Name of the set.
            split: "train", "dev" or "test".

        Returns:
            The rows, or None.
        """
        name = f"{key}/{split}"
        if name not in self._read:
            config = read_description(self.files[key])
            # Without a folder: the sets of the package, and those with paths of their own.
            root = self.data_dir if self.data_dir.is_dir() else Path()
            has_files = config.source in (Source.BUILTIN, Source.LOCAL) or self.data_dir.is_dir()
            places: Any = {"source": Source.LOCAL, "data_dir": root, "on_bad_row": self.on_bad_row}
            self._read[name] = load_examples(config, split, **places) if has_files else None
            if self._read[name] is None:
                self.absent.append(name)
        return self._read[name]

    def tell_dropped(self) -> None:
        """Print the number of faulty rows that were left out."""
        for name, rows in self._read.items():
            if rows is not None and rows.num_dropped:
                print(
                    f"{name}: {counted(rows.num_dropped, 'faulty rows are left out', 'faulty row is left out')}",
                    file=sys.stderr,
                )

    def splits(
        self, name: str, splits: Sequence[str] = ("train", "dev", "test"), *, option: str = ""
    ) -> Iterator[tuple[str, Examples | None]]:
        """Yield each split of a set and its rows, None for a missing file.

        Args:
            name: Name of the set.
            splits: Its splits.
            option: Beginning of the message.

        Yields:
            Pairs of split and rows.

        Raises:
            UserError: No split has a file.
        """
        require_set(option or "set", name, self.files)
        has_rows = False
        for split in splits:
            rows = self.load(name, split)
            has_rows = has_rows or rows is not None
            yield split, rows
        if not has_rows:
            raise UserError(
                f"{option or 'set'}={name}: no file of {' or '.join(splits)} below {self.data_dir}. Type "
                "data_dir=<folder that holds the data sets>"
            )


def read_lines(name: str, sets: ConfiguredSets) -> list[str]:
    """Return the texts of a file (lines, or a column `text`), or those of a configured training set.

    Args:
        name: Path of a file, or name of a set.
        sets: The configured sets.

    Returns:
        The texts.

    Raises:
        UserError: The file or the set is missing, or its rows are not single texts.
    """
    if is_table(name):
        return [*map(as_text, text_values(Path(name)))]
    examples = sets.training([name])[0]
    if "text" not in examples.columns:
        raise UserError(f"text={name}: its rows are {examples.kind}s, no single texts. Type train={name}")
    return examples.texts("text")
