"""A search task from two or three tables: queries, the corpus, and which document answers which query.

Answers are a separate table, or a column of the queries. They name queries and documents by ids or by texts.
The content of a column decides.
"""

import hashlib
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from juzhen.core.errors import UserError, in_python, require_choice, require_number
from juzhen.core.kinds import Kind
from juzhen.core.safe_open import csv_text, read_bytes
from juzhen.core.text import counted, is_position, name_fault, short, text_fault
from juzhen.data.dataset_from_table import ORIGIN, Origin, connected_groups, split_groups, write_described
from juzhen.data.headers import ID_NAMES, NUMBER, language_of, pair_classes, share_of_numbers
from juzhen.data.leaks.matching import normalize
from juzhen.data.rankings import RankingSet
from juzhen.data.row_checks import listed
from juzhen.data.row_kinds import RawTable, text_cells
from juzhen.data.rows import table_of_rows
from juzhen.data.spec import NAME
from juzhen.data.tables import (
    TableReading,
    column_place,
    column_values,
    names_of,
    read_own_table,
    with_each_value,
)

FIELDS = ("query_id", "query", "document_id", "document", "title", "gain")
"""Fields of the three tables for --columns. In a table of answers, `query` and `document` are ids or texts."""

TITLE_NAMES = re.compile(r"(?i)(.*[_ ])?(title|name)|.{0,2}(标题|题目|名称)")
QUERY_NAMES = re.compile(r"(?i).*(quer|question|qid|问题|问句|问法|查询|提问|检索词|相似问).*|问")
DOCUMENT_NAMES = re.compile(
    r"(?i).*(doc|corpus|passage|answer|content|body|pid|文档|答案|回答|正文|内容|段落|语料|标准问|standard).*"
)
TEXT_NAMES = re.compile(r"(?i).*(text|文本|句子).*")
GAIN_NAMES = re.compile(r"(?i)gain|.*(score|rel|label|grade|rating).*|.*(分数|得分|相关|标签|等级).*")

LEAST_KNOWN = 0.5
"""Share of a column's cells that must be ids or texts of a table for the column to refer to its rows."""

Places = dict[int, str]
"""Line → reason why it is left out."""


@dataclass(frozen=True)
class SearchTables:
    """Queries, corpus and answers.

    Args:
        name: Name of the set.
        queries: id → text.
        corpus: id → text, with its title before it, if any.
        answers: (id of a query, id of a document) → gain: above 0 for an answer, 0 for a document known not
            to be one. A document may be missing from the corpus: then nothing finds it.
        taken: Lines about the meaning of the columns.
        left_out: Name of a table → its lines that are in no set.
        notes: Lines of `taken` about queries and answers that are not there.
    """

    name: str
    queries: dict[str, str]
    corpus: dict[str, str]
    answers: dict[tuple[str, str], float]
    taken: list[str] = field(default_factory=list)
    left_out: dict[str, Places] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def ranking(self, split: str = "test") -> RankingSet:
        """Return all queries with an answer, over the whole corpus.

        Args:
            split: Name of the split that the queries become.

        Returns:
            Queries and corpus with numbers of relevant documents. Answers that the corpus lacks count as
            unreachable.
        """
        numbers = {name: number for number, name in enumerate(self.corpus)}
        asked = list(dict.fromkeys(query for (query, _), gain in self.answers.items() if gain > 0))
        relevant: dict[str, dict[int, float]] = {query: {} for query in asked}
        beyond: dict[str, list[float]] = {query: [] for query in asked}
        wrong: dict[str, list[int]] = {query: [] for query in asked}
        for (query, document), gain in self.answers.items():
            if query not in relevant:
                continue
            if gain > 0 and document in numbers:
                relevant[query][numbers[document]] = gain
            elif gain > 0:
                beyond[query].append(gain)
            elif document in numbers:
                wrong[query].append(numbers[document])
        own = [numbers.get(query, -1) for query in asked]
        return RankingSet(
            self.name,
            split,
            queries=[self.queries[query] for query in asked],
            corpus=[*self.corpus.values()],
            relevant=[relevant[query] for query in asked],
            own=np.array(own, dtype=np.int64),
            irrelevant=[np.array(wrong[query], dtype=np.int64) for query in asked],
            unreachable=[beyond[query] for query in asked] if any(beyond.values()) else None,
        )

    def splits(self, *, dev: float, test: float, seed: int) -> dict[str, list[tuple[str, str, float]]]:
        """Return judgements by split. Queries of equal texts are in one split.

        Args:
            dev: Share of the queries for dev.
            test: Share of the queries for test.
            seed: Seed of the split.

        Returns:
            `train`, `dev` and `test`, except those with a share of 0, → (query, document, gain).

        Raises:
            UserError: Shares that leave a split empty.
        """
        require_number("dev + test", dev + test, 0, 1)
        asked = list(dict.fromkeys(query for query, _ in self.answers))
        shares = {"train": 1 - dev - test, "dev": dev, "test": test}
        shares = {split: share for split, share in shares.items() if share > 1e-9}
        parts = np.full(len(asked), next(iter(shares)), dtype=object)
        if len(shares) > 1:
            groups = connected_groups([[normalize(self.queries[query]) for query in asked]])
            parts = split_groups(groups, np.zeros(len(asked), dtype=int), shares, seed)
        of_query = dict(zip(asked, parts.tolist(), strict=True))
        judged: dict[str, list[tuple[str, str, float]]] = {split: [] for split in shares}
        for (query, document), gain in self.answers.items():
            judged[of_query[query]].append((query, document, gain))
        if empty := [split for split, rows in judged.items() if not rows]:
            raise UserError(
                f"{empty[0]}: {len(asked)} queries are too few, none is left for it. Set dev=0 and test=1"
            )
        return judged


def read_search(
    queries: Any,
    corpus: Any,
    answers: Any = None,
    *,
    columns: Mapping[str, str | int] | None = None,
    sheet: str | None = None,
    split_cells: str | None = None,
    on_bad_row: str = "error",
    name: str = "search",
) -> RankingSet:
    """Read queries, documents and answers as a set for `juzhen.evaluate`.

    Args:
        queries: A table with an id and a text, or a text alone: the path of a file, a DataFrame, rows as dicts or
            tuples. Without `answers` it also has a column with ids or texts of the answering documents.
        corpus: A table of documents: an id and a text, and a title if there is one, or texts alone.
        answers: A table with a query and a document in each row, by ids or texts, and a gain if there are
            grades. The format of TREC (`query 0 document gain`) is also read.
        columns: Field → name of its column, for `query_id`, `query`, `document_id`, `document`, `title`, `gain`. None:
            detected.
        sheet: Sheet of Excel files, by name or number from 1.
        split_cells: Separator of several documents in one cell, such as "||".
        on_bad_row: "error" refuses the first row with an unknown name, "drop" leaves such rows out.
        name: Name of the set in results.

    Returns:
        The queries, the corpus, and which document answers which query.

    Raises:
        UserError: Columns that are not clear, rows with an unknown query, or no answer at all.

    Example:
        >>> corpus = [{"id": "a", "text": "七天内可以退货"}, {"id": "b", "text": "两天内发货"}]
        >>> found = read_search([{"question": "怎么退货", "answer": "a"}], corpus)
        >>> found.queries, found.relevant
        (['怎么退货'], [{0: 1.0}])
    """
    require_choice("on_bad_row", on_bad_row, ("error", "drop"))
    reading = TableReading(
        columns=columns or {}, sheet=sheet, split_cells=split_cells, on_bad_row=on_bad_row, spell=in_python
    )
    if not any(isinstance(table, str | Path) for table in (queries, corpus, answers)):
        replace(reading, columns={}, split_cells=None).require_unread("a list of rows")
    search = search_of_tables(name, queries, corpus, answers, reading)
    for note in search.notes:
        warnings.warn(f"{name}: {note}", stacklevel=2)
    for table, places in search.left_out.items() if on_bad_row == "error" else ():
        line, reason = min(places.items())
        raise UserError(f"{table}, row {line}: {reason}. Fix it, or leave such rows out: on_bad_row='drop'")
    return search.ranking()


def search_of_tables(
    name: str, queries: Any, corpus: Any, answers: Any, reading: TableReading
) -> SearchTables:
    """Read a search task from two or three tables. Rows that cannot be read are left out and reported.

    Args:
        name: Name of the set.
        queries: Table with an id and a text for each row.
        corpus: Table with an id and a text for each row, and optional titles.
        answers: Table with query, document and optional gain. None: a column of the queries has the answers.
        reading: Options of the tables.

    Returns:
        Answered queries, the corpus and the judgements, with the rows that were left out.

    Raises:
        UserError: Columns that are not clear, or no document answers any query.
    """
    if wrong := [key for key in reading.columns if key not in FIELDS]:
        raise UserError(
            f"{reading.spell('columns', {wrong[0]: reading.columns[wrong[0]]})}: a search has no such field. "
            f"Expected {listed(FIELDS)}"
        )
    raw = {part: _raw(given, part, reading) for part, given in (("queries", queries), ("corpus", corpus))}
    tables = [*raw.values()] if answers is None else [*raw.values(), _raw(answers, "answers", reading)]
    for key, column in reading.columns.items():
        if not is_position(column) and not any(column in names_of(one.table) for one in tables):
            raise UserError(
                f"{reading.spell('columns', {key: column})}: no table has this column. They have "
                f"{'; '.join(f'{one.place}: {listed(one.names)}' for one in tables)}"
            )
    found: dict[str, _Part] = {
        "corpus": _Part.of(raw["corpus"], ("document_id", "document", "title"), DOCUMENT_NAMES)
    }
    if answers is None:
        reference = _reference(raw["queries"], found["corpus"])
        found["queries"] = _Part.of(raw["queries"], ("query_id", "query"), QUERY_NAMES, but=[reference])
        asked = raw["queries"].cells
        beside = pd.DataFrame({"query": asked[found["queries"].column], "document": asked[reference]})
        taken_as = [f"  {'document':11} = {short(reference, 30)}"]
        judged = _gains(raw["queries"], beside, found["queries"], found["corpus"], taken_as)
    else:
        found["queries"] = _Part.of(raw["queries"], ("query_id", "query"), QUERY_NAMES)
        judged = _judged(tables[-1], found["queries"], found["corpus"])
    texts = {part: found[part].texts for part in found}
    renamed = _apart(texts["queries"], texts["corpus"])
    kept = {(renamed[query], document): gain for (query, document), gain in judged.gains.items()}
    answered = {query for (query, _), gain in kept.items() if gain > 0}
    if not answered:
        raise UserError(f"{judged.place}: no row names a document that answers a query. {judged.advice}")
    judgements = {key: gain for key, gain in kept.items() if key[0] in answered}
    taken = [line for part in ("queries", "corpus") for line in found[part].taken] + judged.taken
    notes = []
    if silent := len(texts["queries"]) - len(answered):
        notes.append(
            f"{counted(silent, 'queries have no answer, and are', 'query has no answer, and is')} left out"
        )
    if missing := sum(document not in texts["corpus"] for _, document in judgements):
        notes.append(
            f"{counted(missing, 'answers are', 'answer is')} not in the corpus: counted as not found"
        )
    left_out = {part.place: part.left_out for part in found.values() if part.left_out}
    if judged.left_out:
        left_out[judged.place] = left_out.get(judged.place, {}) | judged.left_out
    named = {renamed[query]: text for query, text in texts["queries"].items()}
    return SearchTables(
        name,
        {query: text for query, text in named.items() if query in answered},
        texts["corpus"],
        judgements,
        taken + notes,
        left_out,
        notes,
    )


def _raw(given: Any, part: str, reading: TableReading) -> RawTable:
    """The cells of a table. A list in a cell becomes a row for each of its values."""
    plain = replace(reading, columns={}, split_cells=None)
    if isinstance(given, str | Path):
        table = read_own_table(Path(given), plain)
        if len(table.columns) == 1 and _trec([*(table.names or ()), *column_values(table, 0)]):
            table = read_own_table(Path(given), replace(plain, header=False))
    else:
        table = table_of_rows(given, part)
    if any(
        isinstance(cell, list) for place in range(len(table.columns)) for cell in column_values(table, place)
    ):
        table = with_each_value(table, lambda _, cell: (cell or [None]) if isinstance(cell, list) else [cell])
    if len(table.columns) == 1 and (trec := _trec(column_values(table, 0))):
        table = replace(table, names=None, columns=trec)
    return replace(text_cells(table, plain), reading=reading)


def _trec(cells: Sequence[Any]) -> list[list[str]] | None:
    """Cells of `query 0 document gain`, separated by spaces, as columns. None if a cell has another form."""
    rows = [str(cell).split() for cell in cells]
    is_trec = all(len(row) == 4 and NUMBER.fullmatch(row[3]) for row in rows)
    return [[*column] for column in zip(*rows, strict=True)] if rows and is_trec else None


@dataclass(frozen=True)
class _Part:
    """Queries or documents: id → text.

    Args:
        numbers: Text → id, the first of equal texts.
        column: Column that identifies the rows: of ids, or else of texts.
    """

    place: str
    column: str
    texts: dict[str, str]
    numbers: dict[str, str]
    taken: list[str]
    left_out: Places
    advice: str

    @classmethod
    def of(
        cls, raw: RawTable, fields: Sequence[str], names: re.Pattern[str], *, but: Sequence[str] = ()
    ) -> "_Part":
        """Detect the columns of a part, except for those of another use."""
        id_field, text_field = fields[:2]
        free = [name for name in raw.names if name not in but]
        chosen = {name: column for name in fields if (column := _chosen(raw, name)) is not None}
        free = [name for name in free if name not in chosen.values()]
        key = chosen.get(id_field) or _named(free, ID_NAMES)
        rest = [name for name in free if name != key]
        title = chosen.get("title")
        if "title" in fields and title is None and len(rest) > 1:
            title = _named(rest, TITLE_NAMES)
        rest = [name for name in rest if name != title]
        text = chosen.get(text_field) or _longest(raw, rest, names)
        if text is None:
            raise UserError(
                f"{raw.place}: not clear which of {listed(raw.names)} is the text. Name it: "
                f"{raw.reading.spell('columns', {text_field: raw.names[0]})}"
            )
        if key is None:
            key = _ids_before(raw, [name for name in rest if name != text], text)
        return cls._read(raw, {id_field: key, text_field: text, "title": title})

    @classmethod
    def _read(cls, raw: RawTable, chosen: Mapping[str, str | None]) -> "_Part":
        id_field, text_field, _ = chosen
        key, text, title = chosen.values()
        texts, numbers, first = dict[str, str](), dict[str, str](), dict[str, int]()
        left_out = dict(raw.faults)
        assert text is not None  # `of` has checked it
        columns = [raw.cells[name].tolist() if name else [""] * len(raw.cells) for name in (key, text, title)]
        for number, (line, one, words, above) in enumerate(
            zip(raw.cells.index.tolist(), *columns, strict=True), start=1
        ):
            whole = f"{above} {words}" if above else words
            name = one if key else numbers.get(whole, str(number))
            if fault := text_fault(words):
                left_out.setdefault(line, f"{text} {fault}")
            elif key and not name:
                left_out.setdefault(line, f"{key} is empty")
            elif texts.setdefault(name, whole) != whole:
                left_out.setdefault(line, f"the {key} {short(name)} is that of line {first[name]}, too")
            else:
                first.setdefault(name, line)
                numbers.setdefault(whole, name)
                numbers.setdefault(words, name)
        taken = [
            f"{raw.place}: {len(texts):,} {'queries' if id_field == 'query_id' else 'documents'}; {raw.format}"
        ]
        for name, column in ((id_field, key), ("title", title), (text_field, text)):
            if column:
                cells = raw.cells[column]
                examples = " · ".join(short(cell, 20) for cell in cells[cells != ""].unique()[:3])
                taken.append(f"  {name:11} = {short(column, 30)}: {examples}")
        advice = f"Say which column is what: {raw.reading.spell('columns', {id_field: '1', text_field: '2'})}"
        return cls(raw.place, key or text, texts, numbers, taken, left_out, advice)

    def known(self, cells: Iterable[str]) -> tuple[float, bool]:
        """Return the share of cells that are ids or that are texts, whichever is larger, and True for ids."""
        values = [cell for cell in cells if cell]
        by_id, by_text = (
            sum(value in table for value in values) / max(len(values), 1)
            for table in (self.texts, self.numbers)
        )
        return max(by_id, by_text), by_id >= by_text


@dataclass(frozen=True)
class _Judged:
    place: str
    gains: dict[tuple[str, str], float]
    taken: list[str]
    left_out: Places
    advice: str


def _chosen(raw: RawTable, key: str) -> str | None:
    """The column that a person names for a field. None if this table does not have it: another has."""
    name = raw.reading.columns.get(key)
    if name is None or not (name in names_of(raw.table) or is_position(name)):
        return None
    return names_of(raw.table)[column_place(raw.table, name, key, raw.reading)]


def _named(names: Sequence[str], pattern: re.Pattern[str]) -> str | None:
    return next((name for name in names if pattern.fullmatch(name)), None)


def _longest(raw: RawTable, names: Sequence[str], pattern: re.Pattern[str]) -> str | None:
    """The text column: the one with the longest cells, of those with such a name, or else of all."""
    texts = [name for name in names if share_of_numbers(raw.cells[name].tolist()) < 0.9] or names
    called = [name for name in texts if pattern.fullmatch(name)] or [
        name for name in texts if TEXT_NAMES.fullmatch(name)
    ]
    lengths = {name: float(raw.cells[name].str.len().mean()) for name in called or texts}
    return max(lengths, key=lambda name: lengths[name], default=None)


def _ids_before(raw: RawTable, names: Sequence[str], text: str) -> str | None:
    """A column before the texts that looks like ids, whatever its name: short distinct words."""
    for name in names:
        cells = raw.cells[name]
        is_before = raw.names.index(name) < raw.names.index(text)
        if is_before and cells.is_unique and cells.str.fullmatch(r"[\w.:/#-]{1,64}", flags=re.ASCII).all():
            return name
    return None


def _reference(raw: RawTable, corpus: _Part) -> str:
    """The column of the queries that refers to documents: the one a person names, or else one of ids or texts."""
    for key in ("document", "document_id"):
        if (name := raw.reading.columns.get(key)) in raw.names:
            return str(name)
    sign = raw.reading.split_cells
    shares = {
        name: corpus.known(part for cell in raw.cells[name] for part in _parts(cell, sign))[0]
        for name in raw.names
    }
    called = [
        name for name in raw.names if DOCUMENT_NAMES.fullmatch(name) and not QUERY_NAMES.fullmatch(name)
    ]
    best = max(raw.names, key=lambda name: (shares[name] >= LEAST_KNOWN and name in called, shares[name]))
    if shares[best] < LEAST_KNOWN:
        raise UserError(
            f"{raw.place}: no column names documents of {corpus.place} by their ids or texts. Give the table of "
            f"answers, or name the column: {raw.reading.spell('columns', {'document': raw.names[-1]})}"
        )
    return best


def _parts(cell: str, sign: str | None) -> list[str]:
    return [part.strip() for part in cell.split(sign) if part.strip()] if sign else [cell]


def _judged(raw: RawTable, queries: _Part, corpus: _Part) -> _Judged:
    names, chosen = raw.names, raw.reading.columns
    is_trec = len(names) == 4 and {*raw.cells[names[1]]} <= {"0", "Q0"}
    picked = {key: chosen[key] for key in ("query", "document", "gain") if chosen.get(key) in names}
    if (column := _chosen(raw, "gain")) is not None:
        picked["gain"] = column
    if is_trec and not picked:
        picked = {"query": names[0], "document": names[2], "gain": names[3]}
    sign = raw.reading.split_cells
    shares = {
        key: {
            name: part.known(one for cell in raw.cells[name] for one in _parts(cell, sign))[0]
            for name in names
        }
        for key, part in (("query", queries), ("document", corpus))
    }
    patterns = {"query": QUERY_NAMES, "document": DOCUMENT_NAMES}
    pairs = [
        (first, second)
        for first in ([picked["query"]] if "query" in picked else names)
        for second in ([picked["document"]] if "document" in picked else names)
        if first != second
    ]

    def fit(pair: tuple[str, str]) -> float:
        """Fit of two columns as references to queries and documents, by their content and their names."""
        return sum(
            shares[key][name] + (shares[key][name] >= LEAST_KNOWN and bool(patterns[key].fullmatch(name)))
            for key, name in zip(shares, pair, strict=True)
        )

    query, document = max(pairs, key=fit, default=("", ""))  # the first of equals
    for key, name, part in (("query", query, queries), ("document", document, corpus)):
        if not name or shares[key][name] == 0:
            raise UserError(
                f"{raw.place}: no column has the ids or texts of {part.place}. There are "
                f"{listed(names)}. Name it: {raw.reading.spell('columns', {key: names[0]})}"
            )
    rest = [name for name in names if name not in (query, document)]
    numeric = [name for name in rest if share_of_numbers([cell for cell in raw.cells[name] if cell]) == 1]
    gain = picked.get("gain") or _named(rest, GAIN_NAMES) or next(iter(numeric), None)
    columns = {"query": query, "document": document} | ({"gain": gain} if gain else {})
    answers = raw.cells[[*columns.values()]].set_axis([*columns], axis=1)
    taken = [f"{raw.place}: {counted(len(answers), 'answers')}; {raw.format}"]
    taken += [f"  {key:11} = {short(name, 30)}" for key, name in columns.items()]
    return _gains(raw, answers, queries, corpus, taken)


def _gains(raw: RawTable, answers: pd.DataFrame, queries: _Part, corpus: _Part, taken: list[str]) -> _Judged:
    """Judgements by ids. The first one of a query and a document counts."""
    sign, left_out = raw.reading.split_cells, dict(raw.faults)
    by_id = {
        key: part.known(one for cell in answers[key] for one in _parts(cell, sign))[1]
        for key, part in (("query", queries), ("document", corpus))
    }
    words = {value for value in answers.get("gain", ()) if value}
    classes = {} if all(NUMBER.fullmatch(word) for word in words) else pair_classes(words) or {}
    gains: dict[tuple[str, str], float] = {}
    cells = [answers[key].tolist() for key in ("query", "document")]
    graded = answers["gain"].tolist() if "gain" in answers else ["1"] * len(answers)
    for line, asked, named, word in zip(answers.index.tolist(), *cells, graded, strict=True):
        query = asked if by_id["query"] else queries.numbers.get(asked, "")
        value = classes.get(word, word)
        if query not in queries.texts:
            left_out.setdefault(line, f"there is no query {short(asked)}" if asked else "the query is empty")
        elif not named:
            left_out.setdefault(line, "the document is empty")
        elif not NUMBER.fullmatch(value):
            left_out.setdefault(line, f"the gain is {short(word) or 'empty'}, which is no number")
        else:
            for one in _parts(named, sign):
                document = one if by_id["document"] else corpus.numbers.get(one, one)
                gains.setdefault((query, document), max(float(value), 0.0))
    advice = raw.reading.spell("columns", {"query": "1", "document": "2", "gain": "3"})
    return _Judged(raw.place, gains, taken, left_out, f"Say which column is what: {advice}")


def _apart(queries: Mapping[str, str], corpus: Mapping[str, str]) -> dict[str, str]:
    """Id of a query → the same, or another if a document with another text has it.

    A query with the id of a document is read as that document, which it never finds.
    """
    if all(corpus.get(name, text) == text for name, text in queries.items()):
        return {name: name for name in queries}
    taken: Collection[str] = corpus.keys()
    sign = "q"
    while any(f"{sign}{name}" in taken for name in queries):
        sign += "q"
    return {name: f"{sign}{name}" for name in queries}


def files_of(name: str, splits: Iterable[str], data_dir: Path) -> dict[str, Path]:
    """Return part or split → its output file.

    Args:
        name: Name of the set.
        splits: Splits with judgements.
        data_dir: Folder of the data sets.

    Returns:
        Absolute paths, `data_dir/NAME/PART.csv`.
    """
    return {part: (data_dir / name).resolve() / f"{part}.csv" for part in ("queries", "corpus", *splits)}


def write_search(
    search: SearchTables,
    judged: Mapping[str, Sequence[tuple[str, str, float]]],
    *,
    data_dir: Path,
    descriptions: Path,
    origin: Origin,
) -> Path:
    """Write the files and the description of a retrieval set.

    Args:
        search: Queries and corpus.
        judged: Split → query, document and gain.
        data_dir: Folder of the data sets.
        descriptions: Folder of the descriptions of sets.
        origin: Command and tables that the set is made from.

    Returns:
        Path of the description.

    Raises:
        UserError: An invalid name, or a file exists that juzhen did not write.
    """
    if not NAME.fullmatch(search.name) or name_fault(search.name):
        raise UserError(f"name={short(search.name)}: expected letters, digits, _ and -")
    path, files = descriptions / f"{search.name}.yaml", files_of(search.name, judged, data_dir)
    texts = {
        files["queries"]: csv_text([["id", "text"], *search.queries.items()]),
        files["corpus"]: csv_text([["id", "text"], *search.corpus.items()]),
    }
    for split, rows in judged.items():
        table = [[query, document, f"{gain:.10g}"] for query, document, gain in rows]
        texts[files[split]] = csv_text([["query", "document", "gain"], *table])
    keys = {
        "name": search.name,
        "kind": str(Kind.RETRIEVAL),
        "language": language_of([[*search.queries.values()][:1000], [*search.corpus.values()][:1000]]),
        "source": "local",
        "layout": "csv",
        "layouts": {
            "csv": {
                "files": {part: str(file) for part, file in files.items()},
                "columns": {key: key for key in ("query", "document", "gain", "id", "text")},
                "quoted": True,
            }
        },
    }
    head = f"# @package dataset.{search.name}\n{ORIGIN}{' '.join(origin)}\n"
    described = head + yaml.safe_dump(keys, allow_unicode=True, sort_keys=False, width=120)
    write_described(path, described, texts, folder=data_dir / search.name)
    return path


def content_of(paths: Iterable[Path]) -> str:
    """Compute the SHA-256 of several files, one after another.

    Args:
        paths: Their order counts.

    Returns:
        64 hex digits.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(hashlib.sha256(read_bytes(path)).digest())
    return digest.hexdigest()
