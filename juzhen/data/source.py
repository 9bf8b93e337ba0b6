"""Source of a dataset: read one split from the chosen place and check every row."""

import hashlib
import operator
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.core.errors import UserError, foreign_reason, require_choice
from juzhen.core.examples import JUDGED, TARGET_COLUMN, TEXT_COLUMNS, Examples, Kind
from juzhen.core.machine import hub_problem
from juzhen.core.text import counted, short
from juzhen.data.convert import with_equal_columns
from juzhen.data.headers import as_fields
from juzhen.data.rankings import as_retrieval
from juzhen.data.readers import BUILTIN_DATA, FileTable, decompressed, on_disk, present_forms, read_table
from juzhen.data.row_checks import raw_values, refuse_faults, require_fields, verified
from juzhen.data.running_text import load_text
from juzhen.data.spec import DatasetConfig, HubConfig, Source, SplitRequest, configured_set

PARTS = {"query": "queries", "document": "corpus"}
"""Field of a judgement → name of the file with its texts, next to the splits."""

FIELDS = ("query", "document", "gain", "id", "text")
"""Columns that must be named. `title` is optional."""

PAIRS = (Kind.LABELLED_PAIR, Kind.POSITIVE_PAIR, Kind.TRIPLET)
"""Kinds of rows in one file that can be read as judgements."""


def kind_of_rows(columns: Mapping[str, Any]) -> Kind | None:
    """Return the kind of pairs that a layout's `columns` fill.

    Args:
        columns: Field of a row → column of the file.

    Returns:
        None for judgements with queries and a corpus.
    """
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
    """Read judgements over the texts of two other tables. Other arguments are those of `verified`.

    A document is its title and its text, with a space between. Two documents may have the same text. A query with the
    id of a document is that document and never finds it. If some query is answered by the document with the
    same id, ids are separate in each file, and the texts must be equal as well.

    Official sets have documents without text, judgements of missing documents, and repeated judgements. They are left
    out, and a warning counts them. Missing answers still count for the best possible score of a query.

    Args:
        table: The judgements.
        part: "queries" or "corpus" → a table with the columns `id` and `text`, and `title` if `columns` has it.
        request: The split.
        columns: Field → column, also for `query` and `document`, which are ids of the two, and `gain`.
        promised: As of `verified`.

    Returns:
        The judgements with all documents as texts.

    Raises:
        UserError: A missing or repeated id, a query in no file, or one without an answer. The message has file and
            line.
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
    counts["documents without text"] = read["document"][2]
    if left_out := [f"{reason}: {count:,}" for reason, count in counts.items() if count]:
        warnings.warn(f"{table.place}: left out are {'; '.join(left_out)}", stacklevel=2)
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
    """Sentences, columns, unreachable answers and copies of judgements whose queries and documents are ids.

    Args:
        examples: The judgements.
        beyond: id of a query → gains of missing answers.
        texts: "query" and "document" → id → text. Queries that are not documents are the first sentences.
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
    """True if the query and the document of an id have the same text: then both are one sentence."""
    return texts["document"].get(text_id) == texts["query"][text_id]


def _texts(
    table: FileTable, request: SplitRequest, columns: Mapping[str, Any], field: str
) -> tuple[dict[str, str], int, int]:
    """Read one file: id → text, the number of faulty rows, and the number of documents without text."""
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
    assert examples.lines is not None  # `verified` has checked them
    remaining = [id_of[line] for line in examples.lines.tolist()]
    return dict(zip(remaining, examples.texts("text"), strict=True)), examples.num_dropped, sum(blank)


def _ids(table: FileTable, field: str, columns: Mapping[str, Any], key: str) -> list[str]:
    """The values of a column as texts. Typed files may have integer ids. Other values are faults."""
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
    """Add the faults of judgements whose query is missing, or is the document itself."""
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
    """Return judgements of existing documents, each pair once, gains of missing ones by query, and counts."""
    assert examples.targets is not None  # `verified` has checked them
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


def _without_unanswered(
    examples: Examples, beyond: Mapping[str, object], table: FileTable, on_bad_row: str
) -> Examples:
    """The judgements of queries with an answer. Other queries are counted if `on_bad_row` allows it."""
    assert examples.targets is not None  # `verified` has checked both
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


def read_hub(name: str, hub: HubConfig, split: str) -> FileTable:
    """Read the hub split that `hub.splits` gives for ours.

    Args:
        name: Name of the set, for messages.
        hub: Id, subset, revision and splits of the data set on the hub.
        split: `train`, `dev` or `test`.

    Returns:
        The named columns. Others are empty.

    Raises:
        UserError: The hub cannot be reached, or has no such dataset or split.
    """
    require_hub(name, hub.id)
    # Imported here: it takes a second, and local files do not need it.
    import datasets
    from huggingface_hub import constants

    if hub_problem() is not None:  # there is a local copy, so the hub need not be asked
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        rows = datasets.load_dataset(hub.id, name=hub.subset, revision=hub.revision, split=hub.splits[split])
    except Exception as error:  # a dozen unrelated types, those of network layers included
        raise UserError(
            f"{name}/{split}: cannot be read from the hub as {hub.id}, split {hub.splits[split]} "
            f"({foreign_reason(error)}). With the files in a folder of yours choose source=local and data_dir=<folder>"
        ) from error
    names = set(hub.columns.values())
    columns = [
        rows[column][:] if names & {column, position} else ()
        for position, column in enumerate(rows.column_names)
    ]
    folder = f"{hub.id}/{hub.splits[split]}"
    numbers = np.arange(1, len(rows) + 1, dtype=np.int32)
    classes = {
        column: feature.names for column, feature in rows.features.items() if hasattr(feature, "names")
    }
    return FileTable(folder, rows.column_names, columns, numbers, has_lines=False, classes=classes)


def require_hub(name: str, hub_id: str) -> None:
    """Check within seconds that the hub or a local copy can give a data set.

    The library itself retries for half a minute. A folder may replace a hub id.

    Args:
        name: Name of the set, for the message.
        hub_id: Id of the data set on the hub, or a folder.

    Raises:
        UserError: Neither can give it.
    """
    problem = hub_problem()
    if problem is None or Path(hub_id).exists() or _is_kept(hub_id):
        return
    raise UserError(
        f"{name}: source=hub, but {problem}, and {hub_id} is not in the local cache. Try again with a network (and "
        "without HF_HUB_OFFLINE), or fetch the files elsewhere and choose source=local and data_dir=<folder>"
    )


def _is_kept(hub_id: str) -> bool:
    """True if the caches of the hub's libraries have something of that name, in either of its two spellings."""
    home = Path(
        os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    )
    folders = {
        os.environ.get("HF_HUB_CACHE") or home / "hub": f"datasets--{hub_id}",
        os.environ.get("HF_DATASETS_CACHE") or home / "datasets": hub_id,
    }
    return any(
        _letters(entry.name) == _letters(name)
        for cache, name in folders.items()
        if (folder := Path(os.path.expanduser(cache))).is_dir()
        for entry in folder.iterdir()
    )


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


ROW_POLICIES = ("error", "drop")


def load_examples(
    config: DatasetConfig,
    split: str,
    *,
    source: str,
    data_dir: str | Path,
    on_bad_row: str,
    required: bool = False,
    group: str = "dataset",
) -> Examples | None:
    """Read one split and check its rows. None if it has no file.

    A promised number of rows applies to files only: a hub dataset has the rows of its pinned revision.

    Args:
        config: The dataset.
        split: The split.
        source: builtin, local or hub. The dataset's own `source` goes before it. Nothing else is tried.
        data_dir: Folder of a layout's paths, for source=local.
        on_bad_row: "error" stops at the first faulty row, "drop" leaves faulty rows out and counts them.
        required: Raise UserError, with the searched place, if the split is missing.
        group: Place of the set in the configuration, dataset or evaluate, for messages.

    Returns:
        The rows, or None.

    Raises:
        UserError: A faulty row, a damaged file, or a missing required split.
    """
    return _loaded(
        SplitRequest(config, split, config.source or source, data_dir, on_bad_row, required, group)
    )


def load_named(
    name: str, split: str, *, data_dir: str | Path, on_bad_row: str, config_dir: str | Path | None = None
) -> Examples:
    """Read one split of a set by its name, from the package or from files below `data_dir`.

    Args:
        name: Name of a set of conf/dataset.
        split: `train`, `dev` or `test`.
        data_dir: Folder of the data sets.
        on_bad_row: `error` refuses the first faulty row, `drop` leaves faulty rows out and counts them.
        config_dir: Further folder whose dataset/ describes sets.

    Returns:
        The rows.

    Raises:
        UserError: As of `load_examples`, an unknown set, or a missing split.
    """
    config = configured_set(name, config_dir=None if config_dir is None else Path(config_dir))
    places: Any = {"source": Source.LOCAL, "data_dir": data_dir, "on_bad_row": on_bad_row}
    examples = load_examples(config, split, **places, required=True)
    assert examples is not None  # it is required
    return examples


def _loaded(request: SplitRequest) -> Examples | None:
    """The rows with their `symmetric`. None as of `load_examples`."""
    examples = _rows(request)
    if examples is None:
        return None
    by_kind = False if examples.kind in JUDGED and examples.symmetric is None else examples.symmetric
    return replace(
        examples, symmetric=by_kind if request.config.symmetric is None else request.config.symmetric
    )


def _rows(request: SplitRequest) -> Examples | None:
    config, split, key = request.config, request.split, request.key
    require_choice("source", request.source, [member.value for member in Source])
    require_choice("on_bad_row", request.on_bad_row, ROW_POLICIES)
    if config.kind in JUDGED and (kind := kind_of_rows(_columns(config, request.source))):
        pairs = _loaded(replace(request, config=replace(config, kind=kind)))
        retrieval = None if pairs is None else as_retrieval(pairs)
        if retrieval is None or config.kind == Kind.RETRIEVAL:
            return retrieval
        # For reranking each query has the documents of its pairs.
        return replace(retrieval, kind=Kind.RERANKING, documents=None)
    if request.source == Source.HUB:
        return _from_hub(request)
    folder = BUILTIN_DATA if request.source == Source.BUILTIN else Path(request.data_dir).expanduser()
    require_choice(f"{key}.layout", config.layout, config.layouts)
    layout = request.layout
    if layout.window is not None:
        return _text_from_file(request, folder)
    if not isinstance(layout.files.get(split), list):
        return _from_file(request, folder)
    if config.kind in JUDGED:
        raise UserError(f"{key}: {split} lists several files. The judgements of a {config.kind} are in one")
    parts = [_loaded(replace(request, config=part, required=False)) for part in parts_of(request)]
    rows = joined(parts, request)
    if rows is None and request.required:
        raise UserError(_absence(request, split, folder))
    return rows


def _columns(config: DatasetConfig, source: str) -> Mapping[str, Any]:
    """Fields of a set's rows. Empty if the layout is missing, which is reported elsewhere."""
    if source == Source.HUB:
        return config.on_hub.columns if config.on_hub else {}
    return config.layouts[config.layout].columns if config.layout in config.layouts else {}


def parts_of(request: SplitRequest) -> list[DatasetConfig]:
    """Return the dataset once for each file of a split with several files.

    The promised number of rows applies to none.

    Args:
        request: Its split has a list of files.

    Returns:
        One description for each file, in their order.
    """
    config, layout, split = request.config, request.layout, request.split
    return [
        replace(config, rows={}, layouts={config.layout: replace(layout, rows=None, files={split: path})})
        for path in layout.files[split]
    ]


def joined(parts: Sequence[Examples | None], request: SplitRequest) -> Examples | None:
    """Join the rows of all parts. Line numbers are those of the part.

    Args:
        parts: Rows of each file. None for a missing file.
        request: The split.

    Returns:
        None if a part has no file: a set without a part is another set.

    Raises:
        UserError: A `required` split lacks some of its files.
    """
    split, key, paths = request.split, request.key, request.layout.files[request.split]
    missing = [path for path, part in zip(paths, parts, strict=True) if part is None]
    if missing and request.required and len(missing) < len(parts):
        raise UserError(
            f"{key}: {split} is read from {counted(len(parts), 'files')}, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Fetch them, or choose another layout: "
            f"{key}.layout=…"
        )
    present = [part for part in parts if part is not None]
    if len(present) < len(parts):
        return None
    first = present[0]
    fingerprints = "".join(part.fingerprint for part in present)
    if first.kind is Kind.TRIPLET:
        present = with_equal_columns(present)
        first = present[0]
    arrays = {
        name: None
        if getattr(first, name) is None
        else np.concatenate([getattr(part, name) for part in present])
        for name in ("targets", "lines", "teacher_scores", "missing")
    }
    return Examples.from_texts(
        first.name,
        split,
        kind=first.kind,
        texts={column: [text for part in present for text in part.texts(column)] for column in first.columns},
        fingerprint=hashlib.blake2b(fingerprints.encode(), digest_size=16).hexdigest(),
        num_dropped=sum(part.num_dropped for part in present),
        num_classes=first.num_classes,
        **arrays,
    )


def _from_hub(request: SplitRequest) -> Examples | None:
    config, hub, split = request.config, request.config.on_hub, request.split
    if hub is None or split not in hub.splits:
        if request.required or hub is None:
            reason = f"{hub.id} has only {', '.join(hub.splits)}" if hub else "this set is on no hub"
            raise UserError(
                f"{config.name}/{split}: {reason}. Choose {request.key}.source=local, data_dir=<folder>"
            )
        return None
    table = read_hub(config.name, hub, split)
    if config.kind not in JUDGED:
        return verified(table, request, columns=hub.columns)

    def part(name: str) -> FileTable:
        subset = replace(hub, subset=name, splits={name: hub.splits.get(name, hub.splits[split])})
        return read_hub(config.name, subset, name)

    return judged(table, part, request, columns=hub.columns)


def _from_file(request: SplitRequest, folder: Path) -> Examples | None:
    config, layout = request.config, request.layout
    path = _file(request, request.split, folder, required=request.required)
    if path is None:
        return None
    promised = (config.rows if layout.rows is None else layout.rows).get(request.split)
    table, columns = read_table(path, header=layout.header, quoted=layout.quoted), layout.columns
    if layout.format is not None:
        options: Any = {"num_negatives": layout.negatives, "teacher_scores": layout.teacher_scores}
        table = as_fields(table, layout.format, Kind(config.kind), **options)
        columns = {name: name for name in table.names or ()}
    if config.kind not in JUDGED or layout.format is not None:
        return verified(table, request, columns=columns, promised=promised)

    def part(name: str) -> FileTable:
        path = _file(request, name, folder, required=True)
        assert path is not None  # otherwise read_table raises
        return read_table(path, header=layout.header, quoted=layout.quoted)

    return judged(table, part, request, columns=layout.columns, promised=promised)


def _text_from_file(request: SplitRequest, folder: Path) -> Examples | None:
    """The windows of a plain-text file. dev is held out from the train file unless it has its own file."""
    layout, split = request.layout, request.split
    dev = _file(request, "dev", folder, required=False)
    holds_out = dev is None and layout.held_out_percent > 0 and split in ("train", "dev")
    path = _file(request, "train" if holds_out else split, folder, required=request.required)
    return None if path is None else load_text(path, request, holds_out=holds_out)


def _file(request: SplitRequest, split: str, folder: Path, *, required: bool) -> Path | None:
    """The path of the split. None if it has no file and is not required."""
    named = request.layout.files.get(split)
    if not folder.is_dir() and not (named and Path(named).is_absolute()):
        fault = "a file" if folder.is_file() else "no such folder"
        raise UserError(f"data_dir={folder}: {fault}. Choose data_dir=<folder that holds the data sets>")
    path = on_disk(folder / Path(named).expanduser()) if named else None
    if path is None and required:
        raise UserError(_absence(request, split, folder))
    if path is None:
        return None
    for other in present_forms(path):
        if other != path and decompressed(other) != decompressed(path):
            raise UserError(
                f"{path}: {other.name} is next to it with another content, so it is not clear which is meant. "
                "Keep only one"
            )
    return path


def _absence(request: SplitRequest, split: str, folder: Path) -> str:
    """Describe where a missing split was searched, and the remedy."""
    config, layout, key = request.config, request.layout, request.key
    named = layout.files.get(split)
    named = named[0] if isinstance(named, list) else named
    looked_for = (
        f"file {folder / named} not found"
        if named
        else f"its layout {config.layout} has no such file (only {', '.join(layout.files)})"
    )
    layouts = [name for name in config.layouts if name != config.layout]
    ways = [f"data_dir=<folder that holds {named}>"] if named else []
    ways += [f"{key}.layout={name}" for name in layouts]
    ways += [f"{key}.source=hub"] if config.on_hub and split in config.on_hub.splits else []
    ways += [] if named else [f"{key}.layouts.{config.layout}.files.{split}=<path>"]
    return f"{config.name}/{split}: {looked_for}. Choose {', or '.join(ways)}"
