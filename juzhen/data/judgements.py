"""Queries, documents, and which answers which, in three files: the layout of BEIR and MTEB."""

import hashlib
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import TARGET_COLUMN, TEXT_COLUMNS, Examples, Kind
from juzhen.core.texts import short
from juzhen.data.readers import FileTable
from juzhen.data.spec import SplitRequest
from juzhen.data.verify import raw_values, refuse_faults, require_fields, verified

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
    table: FileTable,
    part: Callable[[str], FileTable],
    request: SplitRequest,
    *,
    columns: Mapping[str, Any],
    promised: int | None = None,
) -> Examples:
    """The judgements of `table` over the texts of two others; the other arguments are those of `verified`.

    part     "queries" or "corpus" → a table with the columns `id` and `text`, and `title` where `columns` has it
    columns  besides those `query` and `document`, ids in the two, and `gain`

    A document is its title and its text, with a space between. Two documents may have the same text. A query with the
    id of a document is that document, and never finds it; unless a query is answered by the document of its own id,
    which shows that each file counts for itself: then their texts must be the same as well.

    Official sets have documents without text, judgements of documents that are not there, and some that stand twice.
    They are left out, and a warning counts them; answers that are not there stay in what a query could reach at best.

    Raises UserError with the file and the line of an id that is missing or there twice, of a query that is in no file,
    and of one that nothing answers.
    """
    key = request.key
    require_fields(columns, FIELDS, ("title",), request.config.kind, key)
    read = {field: _texts(part(PARTS[field]), request, columns, field) for field in PARTS}
    texts = {field: text_id for field, (text_id, *_) in read.items()}
    ids = {field: _ids(table, field, columns, key) for field in PARTS}
    _note_unknown(table, ids, texts)
    gains = raw_values(table, "gain", columns["gain"], key)
    named = replace(table, names=[*PARTS, "gain"], columns=[*ids.values(), gains])
    fields = {field: field for field in named.names or ()}
    examples = verified(named, request, columns=fields, promised=promised)
    corpus = texts["document"]
    examples, beyond, counts = _reachable(examples, corpus)
    examples = _without_unanswered(examples, beyond, table, request.on_bad_row)
    _tell(table.place, counts | {"documents without text": read["document"][2]})
    fields_of_texts = _over_texts(examples, beyond, texts)
    sentences, num_documents = fields_of_texts["sentences"], len(corpus)
    documents = np.arange(len(sentences) - num_documents, len(sentences), dtype=np.int32)
    extra = [repr(numbers) for numbers in (fields_of_texts["unreachable"], fields_of_texts["own"]) if numbers]
    return replace(
        examples,
        **fields_of_texts,
        num_dropped=examples.num_dropped + sum(dropped for _, dropped, _ in read.values()),
        documents=documents if examples.kind is Kind.RETRIEVAL else None,
        fingerprint=hashlib.blake2b(
            "\n".join([examples.fingerprint, *sentences, *extra]).encode(), digest_size=16
        ).hexdigest(),
    )


def _over_texts(
    examples: Examples, beyond: Mapping[str, Sequence[float]], texts: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Sentences, columns, unreachable answers and copies of judgements, whose queries and documents are ids.

    beyond  id of a query → gains of answers that are not there
    texts   "query" and "document" → id → text; queries that are no documents come first in the sentences
    """
    corpus = texts["document"]
    named_queries = dict.fromkeys([*examples.texts("query"), *beyond])
    queries = [name for name in named_queries if not _is_document(name, texts)]
    of_one_count = not any(map(operator.eq, examples.texts("query"), examples.texts("document")))
    of_documents = dict(zip(corpus, count(len(queries)), strict=False))
    of_queries = of_documents | dict(zip(queries, count(), strict=False))
    numbers = {
        field: np.array([of[name] for name in examples.texts(field)], dtype=np.int32)
        for field, of in zip(PARTS, (of_queries, of_documents), strict=True)
    }
    sentences = [*(texts["query"][name] for name in queries), *corpus.values()]
    return {
        "sentences": sentences,
        "columns": numbers,
        "unreachable": {of_queries[name]: tuple(gains) for name, gains in beyond.items()},
        "own": {of_queries[name]: of_documents[name] for name in queries if of_one_count and name in corpus},
    }


def _is_document(text_id: str, texts: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether the query of an id has the text of the document of that id: then both are one sentence."""
    return texts["document"].get(text_id) == texts["query"][text_id]


def _texts(
    table: FileTable, request: SplitRequest, columns: Mapping[str, Any], field: str
) -> tuple[dict[str, str], int, int]:
    """id → text of one file, how many faulty rows were left out, and how many documents without text."""
    key = request.key
    ids = _ids(table, "id", columns, key)
    texts = raw_values(table, "text", columns["text"], key)
    if columns.get("title") in (table.names or ()):
        titles = raw_values(table, "title", columns["title"], key)
        for line, title in zip(table.lines.tolist(), titles, strict=True):
            if not isinstance(title, str | None):
                table.faults.setdefault(line, f"the title is {short(repr(title))}, not a text")
        both = zip(titles, texts, strict=True)
        texts = [
            f"{title} {text or ''}" if title and isinstance(text, str | None) else text
            for title, text in both
        ]
    line_numbers = table.lines.tolist()
    first: dict[str, int] = {}
    for line, text_id in zip(line_numbers, ids, strict=True):
        if not text_id:
            table.faults.setdefault(line, "the id is missing")
        elif first.setdefault(text_id, line) != line:
            table.faults.setdefault(line, f"the id {short(text_id)} is that of line {first[text_id]} too")
    blank = [field == "document" and isinstance(text, str) and not text.strip() for text in texts]
    rows = [row for row, is_blank in enumerate(blank) if not is_blank]
    filled = replace(
        table,
        names=["text"],
        columns=[[texts[row] for row in rows]],
        lines=table.lines[np.array(rows, dtype=int)],
    )
    as_texts = replace(request, config=replace(request.config, kind=Kind.SENTENCE, labels=None))
    examples = verified(filled, as_texts, columns={"text": "text"})
    id_of = dict(zip(line_numbers, ids, strict=True))
    assert examples.lines is not None  # `verified` knows them
    remaining = [id_of[line] for line in examples.lines.tolist()]
    return dict(zip(remaining, examples.texts("text"), strict=True)), examples.num_dropped, sum(blank)


def _ids(table: FileTable, field: str, columns: Mapping[str, Any], key: str) -> list[str]:
    """The values of a column as texts: in typed files ids may be whole numbers. What is neither is a fault."""
    ids = []
    for line, text_id in zip(
        table.lines.tolist(), raw_values(table, field, columns[field], key), strict=True
    ):
        text_id = int(text_id) if isinstance(text_id, float) and text_id.is_integer() else text_id
        if text_id is not None and (isinstance(text_id, bool) or not isinstance(text_id, str | int)):
            subject = "the id" if field == "id" else f"the id of the {field}"
            table.faults.setdefault(
                line, f"{subject} is {short(repr(text_id))}, expected a text or a whole number"
            )
        ids.append("" if text_id is None else str(text_id).strip())
    return ids


def _note_unknown(
    table: FileTable, ids: Mapping[str, Sequence[str]], texts: Mapping[str, Mapping[str, str]]
) -> None:
    """Adds to the faults of the judgements those of queries that are not there, or are the document itself."""
    for line, query, document in zip(table.lines.tolist(), *ids.values(), strict=True):
        if query not in texts["query"]:
            table.faults.setdefault(line, f"there is no query with the id {short(query)}")
        elif query == document and _is_document(query, texts):
            table.faults.setdefault(
                line, f"the query {short(query)} is the document itself, which it never finds"
            )


def _reachable(
    examples: Examples, corpus: Mapping[str, str]
) -> tuple[Examples, dict[str, list[float]], dict[str, int]]:
    """Judgements of documents that are there, each pair once; the gains of others by query; and what was left out."""
    assert examples.targets is not None  # `verified` knows them
    first: dict[tuple[str, str], float] = {}
    beyond: dict[str, list[float]] = {}
    remaining, missing, again, other = [], 0, 0, 0
    for row, (*pair, gain) in enumerate(
        zip(examples.texts("query"), examples.texts("document"), examples.targets.tolist(), strict=True)
    ):
        query, document = pair
        if (query, document) in first:
            again, other = again + 1, other + (gain != first[query, document])
            continue
        first[query, document] = gain
        if document in corpus:
            remaining.append(row)
            continue
        missing += 1
        if gain > 0:
            beyond.setdefault(query, []).append(gain)
    counts = {
        "judgements of documents that are not there (answers among them count as not found)": missing,
        "judgements that stand twice (the first counts)": again,
        "of these with another gain": other,
    }
    return examples.select(np.array(remaining, dtype=int)), beyond, counts


def _tell(origin: str, counts: Mapping[str, int]) -> None:
    """One warning of what was left out, if anything was."""
    if counted := [f"{reason}: {count:,}" for reason, count in counts.items() if count]:
        warnings.warn(f"{origin}: left out are {'; '.join(counted)}", stacklevel=3)


def _without_unanswered(
    examples: Examples, beyond: Mapping[str, object], table: FileTable, on_bad_row: str
) -> Examples:
    """The judgements of queries that something answers; where others are no reason to stop, these are counted."""
    assert examples.targets is not None  # `verified` knows both
    assert examples.lines is not None
    queries = examples.columns["query"]
    is_missed = np.array([text in beyond for text in examples.sentences], dtype=bool)[queries]
    rows = np.flatnonzero(~np.isin(queries, queries[examples.targets > 0]) & ~is_missed)
    unanswered = {
        int(
            examples.lines[row]
        ): f"nothing answers the query {short(examples.sentences[queries[row]])} with a gain above 0"
        for row in rows
    }
    refuse_faults(table, unanswered, on_bad_row)
    if len(rows) == len(examples):
        reason = "none has a gain above 0" if len(rows) else "none names a document that is there"
        raise UserError(f"{table.place}: no rows are left ({len(examples)} were read, and {reason})")
    remaining = examples.select(np.setdiff1d(np.arange(len(examples)), rows)) if len(rows) else examples
    return replace(remaining, num_dropped=examples.num_dropped + len(rows))
