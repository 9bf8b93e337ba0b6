"""Queries, documents, and which answers which, in three files: the layout of BEIR and MTEB."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import TARGET_COLUMN, TEXT_COLUMNS, Examples, Kind
from juzhen.core.texts import short
from juzhen.data.readers import Table
from juzhen.data.spec import SplitRequest
from juzhen.data.verify import raw_values, refuse_faults, verified

PARTS = {"query": "queries", "document": "corpus"}
"""What a judgement names → what the file is called in which its texts are, beside the splits."""

FIELDS = ("query", "document", "gain", "id", "text")
"""Columns that must be named; `title` may be."""

PAIRS = (Kind.LABELLED_PAIR, Kind.POSITIVE_PAIR, Kind.TRIPLET)
"""Kinds of rows that can be read as judgements; they are in one file."""


def kind_of_rows(columns: Mapping[str, Any]) -> Kind | None:
    """The kind of pairs that the `columns` of a layout fill; None for judgements with queries and a corpus."""
    needed = {
        kind: {*TEXT_COLUMNS[kind], *filter(None, [TARGET_COLUMN.get(kind)])} for kind in reversed(PAIRS)
    }
    return next((kind for kind, fields in needed.items() if fields <= set(columns)), None)


def judged(
    table: Table,
    part: Callable[[str], Table],
    asked: SplitRequest,
    *,
    columns: Mapping[str, Any],
    promised: int | None = None,
) -> Examples:
    """The judgements of `table` over the texts of two others; the other arguments are those of `verified`.

    part     "queries" or "corpus" → a table with the columns `id` and `text`, and `title` where `columns` has it
    columns  besides those `query` and `document`, ids in the two, and `gain`

    A document is its title and its text, with a space between. Two documents may have the same text. A query with the
    id and the text of a document is that document, and never finds it.

    Raises UserError with the file and the line of an id that is missing, there twice or in no file, of a pair that is
    judged twice, and of a query that nothing answers.
    """
    key = asked.key
    _require_fields(columns, asked.config.kind, key)
    read = {field: _texts(part(PARTS[field]), asked, columns) for field in PARTS}
    texts = {field: one for field, (one, _) in read.items()}
    ids = {field: _ids(table, field, columns, key) for field in PARTS}
    _note_unknown(table, ids, texts)
    gains = raw_values(table, "gain", columns["gain"], key)
    named = replace(table, names=[*PARTS, "gain"], columns=[*ids.values(), gains])
    fields = {field: field for field in named.names or ()}
    found = verified(named, asked, columns=fields, promised=promised)
    found = _without_unanswered(found, table, asked.on_bad_row)
    corpus = texts["document"]
    queries = [one for one in dict.fromkeys(found.texts("query")) if not _is_document(one, texts)]
    of_documents = dict(zip(corpus, count(len(queries)), strict=False))
    of_queries = of_documents | dict(zip(queries, count(), strict=False))
    numbers = {
        field: np.array([of[one] for one in found.texts(field)], dtype=np.int32)
        for field, of in zip(PARTS, (of_queries, of_documents), strict=True)
    }
    sentences = [*(texts["query"][one] for one in queries), *corpus.values()]
    documents = np.arange(len(queries), len(sentences), dtype=np.int32)
    return replace(
        found,
        sentences=sentences,
        columns=numbers,
        num_dropped=found.num_dropped + sum(dropped for _, dropped in read.values()),
        documents=documents if found.kind is Kind.RETRIEVAL else None,
        fingerprint=hashlib.blake2b(
            "\n".join([found.fingerprint, *sentences]).encode(), digest_size=16
        ).hexdigest(),
    )


def _require_fields(columns: Mapping[str, Any], kind: str, key: str) -> None:
    for field in FIELDS:
        if columns.get(field) is None:
            raise UserError(f"{key}: a {kind} needs a column for {field}, `columns` gives none")
    for field in columns:
        if field not in (*FIELDS, "title"):
            hint = nearest(field, (*FIELDS, "title"))
            raise UserError(f"{key}: `columns` names the field {field}, which a {kind} does not have; {hint}")


def _is_document(one: str, texts: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether the query of an id is the document of the same id: ids alone may be the same by chance."""
    return texts["document"].get(one) == texts["query"][one]


def _texts(table: Table, asked: SplitRequest, columns: Mapping[str, Any]) -> tuple[dict[str, str], int]:
    """id → text of one file, and how many rows were left out."""
    key = asked.key
    ids = _ids(table, "id", columns, key)
    texts = raw_values(table, "text", columns["text"], key)
    if columns.get("title") in (table.names or ()):
        titles = raw_values(table, "title", columns["title"], key)
        both = zip(titles, texts, strict=True)
        texts = [
            f"{title} {text or ''}" if title and isinstance(text, str | None) else text
            for title, text in both
        ]
    lines = table.lines.tolist()
    first: dict[str, int] = {}
    for line, one in zip(lines, ids, strict=True):
        if not one:
            table.faults[line] = "the id is missing"
        elif first.setdefault(one, line) != line:
            table.faults[line] = f"the id {short(one)} is that of line {first[one]} too"
    given = replace(table, names=["text"], columns=[texts])
    as_texts = replace(asked, config=replace(asked.config, kind=Kind.SENTENCE, labels=None))
    found = verified(given, as_texts, columns={"text": "text"})
    id_of = dict(zip(lines, ids, strict=True))
    assert found.lines is not None  # `verified` knows them
    kept = [id_of[line] for line in found.lines.tolist()]
    return dict(zip(kept, found.texts("text"), strict=True)), found.num_dropped


def _ids(table: Table, field: str, columns: Mapping[str, Any], key: str) -> list[str]:
    """The values of a column as texts: in typed files ids may be numbers."""
    return ["" if one is None else str(one).strip() for one in raw_values(table, field, columns[field], key)]


def _note_unknown(
    table: Table, ids: Mapping[str, Sequence[str]], texts: Mapping[str, Mapping[str, str]]
) -> None:
    """Adds to the faults of the judgements those that name what is not there, or say something again."""
    first: dict[tuple[str, ...], int] = {}
    for line, *pair in zip(table.lines.tolist(), *ids.values(), strict=True):
        unknown = [field for field, one in zip(ids, pair, strict=True) if one not in texts[field]]
        if unknown:
            table.faults.setdefault(
                line, f"there is no {unknown[0]} with the id {short(pair[list(ids).index(unknown[0])])}"
            )
        elif pair[0] == pair[1] and _is_document(pair[0], texts):
            table.faults.setdefault(
                line, f"the query {short(pair[0])} is the document itself, which it never finds"
            )
        elif first.setdefault(tuple(pair), line) != line:
            table.faults.setdefault(line, f"query and document are those of line {first[tuple(pair)]} too")


def _without_unanswered(found: Examples, table: Table, on_bad_row: str) -> Examples:
    """The judgements of queries that something answers; where others are no reason to stop, these are counted."""
    assert found.targets is not None  # `verified` knows both
    assert found.lines is not None
    queries = found.columns["query"]
    rows = np.flatnonzero(~np.isin(queries, queries[found.targets > 0]))
    unanswered = {
        int(
            found.lines[row]
        ): f"nothing answers the query {short(found.sentences[queries[row]])} with a gain above 0"
        for row in rows
    }
    refuse_faults(table, unanswered, on_bad_row)
    if len(rows) == len(found):
        raise UserError(
            f"{table.place}: no rows are left ({len(found)} were read, and none has a gain above 0)"
        )
    kept = found.select(np.setdiff1d(np.arange(len(found)), rows)) if len(rows) else found
    return replace(kept, num_dropped=found.num_dropped + len(rows))
