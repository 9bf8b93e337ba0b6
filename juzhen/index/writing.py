"""Build an index, add to it and remove from it. A kill leaves the index before or after the change.

Texts and vectors are committed to the database. Derived search files are rewritten when enough has changed
(`juzhen.index.derived_files`). Texts that they do not cover yet are compared one by one.
"""

import hashlib
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from juzhen.core.atomic_write import require_room
from juzhen.core.columns import as_column, as_list_of, as_plain, as_text_list
from juzhen.core.errors import UserError, in_python, require_choice
from juzhen.core.file_guard import check_claimable, claim_dir, require_writable
from juzhen.core.progress import progress_bar
from juzhen.core.result import RESULT_FILE
from juzhen.core.text import short, text_fault
from juzhen.core.text_warnings import reported
from juzhen.data.tables import (
    TableReading,
    as_text,
    column_place,
    column_values,
    read_texts,
    refuse_rows,
    require_fields,
    text_values,
)
from juzhen.encoders.chunks import Passages
from juzhen.encoders.passages import require_chunks
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.pooling import unit
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.workers import started
from juzhen.index.derived_files import DifferentFilesError, covered_numbers, derive, require_faiss, tidy
from juzhen.index.index import Index, check_encoder, index_digest, reader_of
from juzhen.index.store import DATABASE, KINDS, Store, require_complete, require_index
from juzhen.metrics.lexical import CHARACTERS, cut_of


@dataclass(frozen=True)
class Rows:
    """Texts with optional ids and metadata. Without ids their numbers are the ids.

    Args:
        texts: The texts.
        ids: One id for each text, or None.
        metadata: Values of each text by name, or None.
        fields: Names of metadata.
        dropped: Number of faulty rows left out.
        notes: Remarks on how the table was read.

    Raises:
        UserError: Numbers of texts, ids and metadata that differ.

    Example:
        >>> shops = [{"shop": "A"}, {"shop": "B"}]
        >>> Rows(["怎么退货", "几天发货"], ids=["a", "b"], metadata=shops, fields=["shop"]).dropped
        0
    """

    texts: Sequence[str]
    ids: Sequence[str] | None = None
    metadata: Sequence[dict[str, Any]] | None = None
    fields: list[str] = field(default_factory=list)
    dropped: int = 0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns: dict[str, Any] = {"texts": as_text_list(self.texts, "texts")}
        if self.ids is not None:
            columns["ids"] = as_text_list([*map(_as_id, as_column(self.ids, "ids"))], "ids")
            _require_distinct("ids", columns["ids"])
        if self.metadata is not None:
            columns["metadata"] = as_list_of(
                self.metadata, "metadata", Mapping, way="Give a dict for each text"
            )
        for name, values in columns.items():
            object.__setattr__(self, name, values)
            if len(values) != len(self.texts):
                raise UserError(
                    f"{name}: {len(values):,} for {len(self.texts):,} texts. Give one for each text"
                )
        if not self.fields:
            fields = dict.fromkeys(key for record in self.metadata or () for key in record)
            object.__setattr__(self, "fields", [*fields])

    def part(self, rows: slice) -> "Rows":
        """Return some of the rows, with their ids and metadata.

        Args:
            rows: A slice of the rows.

        Returns:
            The rows.
        """
        ids = None if self.ids is None else self.ids[rows]
        metadata = None if self.metadata is None else self.metadata[rows]
        return Rows(self.texts[rows], ids, metadata, self.fields)

    def after(self, count: int) -> "Rows":
        """Return the rows after the first ones.

        Args:
            count: Number of rows to leave out.

        Returns:
            The other rows.
        """
        return self.part(slice(count, None))

    def check_metadata(self) -> None:
        """Check that JSON can hold the metadata, so that filters and readers of answers do not fail.

        Raises:
            UserError: The metadata of a text cannot be written. The message names the text.
        """
        for number, record in enumerate(self.metadata or []):
            if fault := metadata_fault(record):
                name = number if self.ids is None else short(self.ids[number])
                raise UserError(f"metadata of text {name}: {fault}. Leave it out, or give null")

    @cached_property
    def digest(self) -> str:
        """Digest of all content. An interrupted build continues with equal rows only."""
        content = hashlib.blake2b(digest_size=16)
        for values in (self.texts, self.ids or [], self.metadata or []):
            for value in values:
                content.update(json.dumps(value, default=as_plain).encode() + b"\n")
        return content.hexdigest()


FROM_PYTHON = TableReading(spell=in_python)


@takes_peer_options
def read_rows(
    path: str | Path,
    reading: TableReading = FROM_PYTHON,
    *,
    text: str | None = None,
    id_column: str | None = None,
    metadata: Sequence[str] = (),
) -> Rows:
    """Read a file: lines of a .txt, or columns of a table by name or number from 1.

    Args:
        path: The file.
        reading: How a table is read.
        text: Column of the texts. None: `text` of the reading, else the column `text` or the only one.
        id_column: Column of the ids. None: `id` of the reading, else no ids.
        metadata: Columns kept as metadata.

    Returns:
        The rows.

    Raises:
        UserError: A faulty row, no rows at all, or a repeated id.

    Example:
        >>> _ = Path("faq.csv").write_text("id,text\\n7,怎么退货\\n8,几天发货\\n", encoding="utf-8")
        >>> read_rows(Path("faq.csv"), id_column="id").ids
        ['7', '8']
    """
    path = Path(path)
    require_fields(reading, "text", "id")
    named = {"text": text, "id": id_column, **{f"metadata {name}": name for name in metadata}}
    columns = {**reading.columns, **{field: name for field, name in named.items() if name}}
    id_column = columns.get("id")
    reading = replace(reading, columns=columns)
    table, place = read_texts(path, reading)
    texts, ids = column_values(table, place), None
    if id_column is not None:
        ids = [_as_id(value) for value in column_values(table, column_place(table, id_column, "id", reading))]
    places = [column_place(table, name, "metadata", reading) for name in metadata]
    names = [table.names[at] if table.names else name for at, name in zip(places, metadata, strict=True)]
    values = [column_values(table, at) for at in places]
    records: list[dict[str, Any]] | None = [
        dict(zip(names, map(_plain, row), strict=True)) for row in zip(*values, strict=True)
    ] or None
    faults = {int(line): reason for line, reason in table.faults.items()}
    chosen_rows = []
    for row, (line, value) in enumerate(zip(table.lines, texts, strict=True)):
        fault = text_fault(value)
        if fault is None and ids is not None and text_fault(ids[row]):
            fault = f"has no id: it {text_fault(ids[row])}"
        if fault is None and records is not None and (reason := metadata_fault(records[row])):
            fault = f"has metadata with {reason}"
        if fault is None:
            chosen_rows.append(row)
        else:
            faults[int(line)] = (
                f"the text {fault}" if fault.startswith(("is", "holds")) else f"the row {fault}"
            )
    refuse_rows(table, faults, len(chosen_rows), reading)
    chosen = [ids[row] for row in chosen_rows] if ids is not None else None
    _require_distinct(str(path), chosen or ())
    return Rows(
        [texts[row] for row in chosen_rows],
        chosen,
        None if records is None else [records[row] for row in chosen_rows],
        names,
        len(faults),
        table.notes,
    )


def read_ids(path: Path, reading: TableReading = FROM_PYTHON) -> list[str]:
    """Read ids of texts from a file: its lines, or the column `id` of a table.

    Args:
        path: A .txt, or a table.
        reading: Options of the table.

    Returns:
        One id for each row.

    Raises:
        UserError: The column is not clear.
    """
    return [*map(_as_id, text_values(path, reading, field="id"))]


def _require_distinct(place: str, ids: Sequence[str]) -> None:
    if len({*ids}) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise UserError(f"{place}: the id {short(twice)} is repeated. Give each text another id")


def _as_id(value: Any) -> str:
    """Whole numbers of JSON, parquet and Excel are ids, too."""
    return value if isinstance(value, str) else as_text(value)


def _plain(value: Any) -> Any:
    """A missing number of a table as JSON has it."""
    return None if isinstance(value, float) and math.isnan(value) else value


def metadata_fault(record: dict[str, Any]) -> str | None:
    """Find out why metadata are not valid JSON. Values of other types are stored as strings.

    Args:
        record: Metadata of one text.

    Returns:
        The reason, or None.
    """
    if not all(isinstance(name, str) for name in record):
        return "a name that is no text"
    try:
        json.dumps(record, ensure_ascii=False, default=as_plain, allow_nan=False).encode()
    except UnicodeEncodeError:
        return "half a surrogate pair, which is no character"
    except (ValueError, RecursionError):
        return "NaN, infinity or endless brackets, which JSON has not"
    return None


PORTION = 8_192
"""Texts that are encoded before they are written."""

LATER, SHARE = 2_048, 0.1
"""Quick files are made anew when more texts than this, and more than this share of all, are not in them."""

REMOVED = 0.25
"""Share of the texts in quick files that may be gone."""


FLOAT_BYTES = 4


@dataclass(frozen=True)
class Encoding:
    """How texts become vectors: options of `SentenceEncoder.encode`.

    Args:
        options: Options by name.
        workers: Processes that encode. None: one.
        progress: True shows a progress bar. None: on a terminal.

    Example:
        >>> Encoding({"batch_tokens": 4096}, workers=2).progress is None
        True
    """

    options: dict[str, Any]
    workers: int | None = None
    progress: bool | None = None


@dataclass(frozen=True)
class PassageSettings:
    """How texts are stored by their passages.

    Args:
        chunk_tokens: Largest number of tokens of a passage.
        overlap: Number of tokens that neighbouring passages share.
        late: Late chunking, as in `SentenceEncoder.encode_chunks`.

    Example:
        >>> PassageSettings(100, overlap=20).late
        False
    """

    chunk_tokens: int
    overlap: int = 0
    late: bool = False


@reported()
@takes_peer_options
def build(
    folder: str | Path,
    encoder: SentenceEncoder,
    rows: Rows,
    *,
    name: str,
    kind: str = "flat",
    dim: int | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
    tokens: str = CHARACTERS,
    passages: PassageSettings | None = None,
    encoding: Encoding | None = None,
) -> int:
    """Build an index in a new folder, or continue an interrupted build.

    Args:
        folder: The folder.
        encoder: Encodes the texts.
        rows: The texts.
        name: Name of the encoder, for messages.
        kind: flat (exact), int8 or binary (bytes or bits, compared again exactly), or an approximate index of FAISS:
            hnsw, ivf, ivf_pq.
        dim: Keep the first dimensions only. None keeps all.
        prompt_name: Name of the prompt of the texts. None: the encoder's for documents.
        prompt: The prompt itself, in place of a name.
        tokens: How BM25 divides Chinese into terms: characters or jieba.
        passages: Split texts into passages. Default: store whole texts, read as the encoder reads long ones.
        encoding: How texts become vectors. Default: as `encode`.

    Returns:
        Number of texts that were already stored.

    Raises:
        UserError: A folder with an index, or with an unfinished build of other texts or settings.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> encoder = SentenceEncoder.load("builtin/mini_zh")
        >>> _ = build("built", encoder, Rows(["怎么退货", "几天发货"]), name="builtin/mini_zh")
        >>> with Index.open("built", encoder) as index:
        ...     index.search(["东西想退掉"], top_k=1)[0][0].text
        '怎么退货'
    """
    folder = Path(folder)
    require_choice("kind", kind, KINDS)
    if kind not in ("flat", "binary"):
        require_faiss(kind)
    cut_of(tokens)
    if (folder / RESULT_FILE).is_file():  # it is marked as ours, and the index would be part of the run
        raise UserError(f"{folder}: the folder of a run. Choose a new folder, such as {folder}-index")
    check_claimable(folder)
    require_writable(folder)
    rows.check_metadata()
    reader = reader_of(encoder, prompt_name, prompt)
    if passages is not None:
        require_chunks(reader, passages.chunk_tokens, passages.overlap, late=passages.late)
    facts = _facts(reader, rows, kind=kind, dim=encoder.size_of(dim), tokens=tokens) | {
        "prompt_name": prompt_name,
        "prompt": prompt,
        "source": rows.digest,
        "chunk_overlap": reader.chunk_overlap,
        "passages": None if passages is None else asdict(passages),
    }
    is_new = not (folder / DATABASE).exists()
    portions = _encoded(reader, rows, facts, encoding)
    if is_new:
        require_room(folder, len(rows.texts) * facts["dim"] * FLOAT_BYTES)
        portions = chain([next(portions)], portions) if rows.texts else portions  # refuses before it writes
    claim_dir(folder)
    store = Store(folder / DATABASE, writes=True)
    try:
        present = store.facts()
        if present.get("state") == "complete":
            raise UserError(
                f"{folder}: holds an index already. Name another folder, or type juzhen index add"
            )
        if present and {key: present.get(key) for key in facts} != facts:
            raise UserError(
                f"{folder}: holds an unfinished index of other texts or settings. Give the command that began it, or "
                "another folder"
            )
        if not present:
            with store.transaction():
                store.set_facts(**facts, encoder=name, state="building", next=0)
        done = int(present.get("next" if passages is None else "documents", 0))
        if not is_new:
            require_room(folder, (len(rows.texts) - done) * facts["dim"] * FLOAT_BYTES)
            portions = _encoded(reader, rows.after(done), facts, encoding)
        for portion, vectors in portions:
            with store.transaction():
                _add(store, portion, vectors)
        with store.transaction():
            derive(store, folder, progress=None if encoding is None else encoding.progress)
            store.set_facts(state="complete")
        tidy(store, folder)
        return done
    finally:
        store.close()


def _facts(reader: SentenceEncoder, rows: Rows, *, kind: str, dim: int, tokens: str) -> dict[str, Any]:
    has_ids = rows.ids is not None
    facts = {"kind": kind, "dim": dim, "tokens": tokens, "has_ids": has_ids, "fields": rows.fields}
    return facts | {"digest": index_digest(reader)}


@reported()
@takes_peer_options
def index_in_memory(encoder: SentenceEncoder, rows: Rows) -> Index:
    """Make an index of rows that lives as long as the process.

    Args:
        encoder: Encodes the texts and the queries.
        rows: The texts.

    Returns:
        The index.

    Raises:
        UserError: Texts that cannot be encoded.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> index = index_in_memory(SentenceEncoder.load("builtin/mini_zh"), Rows(["怎么退货", "几天发货"]))
        >>> index.search(["东西想退掉"], top_k=1)[0][0].text
        '怎么退货'
    """
    rows.check_metadata()
    store, reader = Store(None), reader_of(encoder, None, None)
    facts = _facts(reader, rows, kind="flat", dim=encoder.size_of(), tokens=CHARACTERS)
    with store.transaction():
        store.set_facts(**facts, encoder="", prompt_name=None, prompt=None, state="complete", next=0)
        for portion, vectors in _encoded(reader, rows, facts, Encoding({})):
            _add(store, portion, vectors)
    return Index(store, None, encoder)


@takes_peer_options
@reported()
def add(folder: str | Path, encoder: SentenceEncoder, rows: Rows, *, encoding: Encoding | None = None) -> int:
    """Add rows to an index, all or none. A known id replaces its text.

    Args:
        folder: The index.
        encoder: The encoder of the index.
        rows: The texts.
        encoding: How texts become vectors. Default: as `encode`.

    Returns:
        Number of texts that were replaced.

    Raises:
        UserError: An encoder with other weights, or rows with ids for an index without, or the reverse.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> encoder = SentenceEncoder.load("builtin/mini_zh")
        >>> _ = build("added", encoder, Rows(["怎么退货"], ids=["a"]), name="builtin/mini_zh")
        >>> _ = add("added", encoder, Rows(["几天发货"], ids=["b"]))
        >>> with Index.open("added", encoder) as index:
        ...     len(index)
        2
    """
    rows.check_metadata()
    folder = Path(folder)
    with _changed(folder, num_texts=len(rows.texts)) as store:
        facts = store.facts()
        encoder = check_encoder(facts, encoder, str(folder))
        if facts["has_ids"] != (rows.ids is not None):
            has = "ids of its own. Give those of" if facts["has_ids"] else "no ids. Leave out those of"
            raise UserError(f"ids: the index {folder} has {has} the texts")
        store.check_ids()
        reader, replaced = reader_of(encoder, facts["prompt_name"], facts["prompt"]), 0
        with store.transaction():
            for portion, vectors in _encoded(reader, rows, facts, encoding):
                replaced += _add(store, portion, vectors)
            store.set_facts(fields=[*dict.fromkeys([*facts["fields"], *rows.fields])])
        _derive_if_due(store, folder, encoding)
        return replaced


@takes_peer_options
def remove(folder: str | Path, ids: Sequence[str]) -> None:
    """Remove texts, all or none.

    Args:
        folder: The index.
        ids: Ids of the texts.

    Raises:
        UserError: An id that no text has.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> encoder = SentenceEncoder.load("builtin/mini_zh")
        >>> _ = build("removed", encoder, Rows(["怎么退货", "几天发货"], ids=["a", "b"]), name="builtin/mini_zh")
        >>> remove("removed", ["a"])
        >>> with Index.open("removed", encoder) as index:
        ...     len(index)
        1
    """
    folder, ids = Path(folder), as_text_list(ids, "ids")
    with _changed(folder) as store:
        with store.transaction():
            store.check_ids()
            if absent := store.absent(ids):
                ending = f", nor have {len(absent) - 1:,} more" if absent[1:] else ""
                raise UserError(
                    f"{folder}: no text has the id {short(absent[0])}{ending}, so nothing was removed. Remove "
                    "known ids only"
                )
            store.remove(ids)
        _derive_if_due(store, folder, None)


@contextmanager
def _changed(folder: Path, *, num_texts: int = 0) -> Iterator[Store]:
    """num_texts: how many will be encoded, for which there must be room."""
    require_index(folder)
    claim_dir(folder)
    store = Store(folder / DATABASE, writes=True)
    try:
        facts = store.facts()
        require_complete(facts, folder)
        require_room(folder, max(num_texts * facts["dim"] * FLOAT_BYTES, 1))
        yield store
        tidy(store, folder)
    finally:
        store.close()


Vectors = Float[np.ndarray, "some dim"] | Passages


def _encoded(
    reader: SentenceEncoder,
    rows: Rows,
    facts: Mapping[str, Any],
    encoding: Encoding | None,
) -> Iterator[tuple[Rows, Vectors]]:
    """Rows with their vectors, of length 1, or their passages, a portion at a time."""
    encoding = encoding or Encoding({}, progress=False)
    total, passages = len(rows.texts), facts.get("passages")
    options = {"truncate_dim": facts["dim"], "show_progress": False} | encoding.options
    if options["truncate_dim"] != facts["dim"]:
        raise UserError(
            f"truncate_dim={options['truncate_dim']}: not an option of encoding here. Give dim to build"
        )
    if passages is not None and options.pop("cache", None) is not None:
        raise UserError("cache: the vectors of passages are not kept there. Leave it out")
    with (
        started(reader, encoding.workers) as workers,
        progress_bar("encoding texts", total, shown=encoding.progress) as advance,
    ):
        options |= {"workers": workers} if workers else {}
        for start in range(0, total, PORTION):
            portion = rows.part(slice(start, start + PORTION))
            if passages is None:
                vectors = reader.encode(portion.texts, **options)
                yield portion, unit(vectors)
            else:
                split = reader.encode_chunks(portion.texts, **passages, **options)
                yield portion, replace(split, vectors=unit(split.vectors))
            advance(len(portion.texts))


def _add(store: Store, rows: Rows, vectors: Vectors) -> int:
    if isinstance(vectors, Passages):
        return store.add_passages(rows.texts, rows.ids, rows.metadata, vectors)
    return store.add(rows.texts, rows.ids, rows.metadata, vectors)


def _derive_if_due(store: Store, folder: Path, encoding: Encoding | None) -> None:
    """Rewrite derived files after many changes, or if they differ from their record."""
    try:
        with store.transaction():
            if _is_due(store, folder):
                derive(store, folder, progress=None if encoding is None else encoding.progress)
    except OSError as error:  # the change itself is on the disk
        print(
            f"{error.strerror}: {error.filename}; new texts are compared one by one until the next change",
            file=sys.stderr,
        )


def _is_due(store: Store, folder: Path) -> bool:
    try:
        covered, live = covered_numbers(store, folder), store.numbers()
    except DifferentFilesError as problem:
        print(f"{problem}; they are made anew of the database", file=sys.stderr)
        return True
    num_kept = int(np.isin(covered, live, assume_unique=True).sum())
    later = len(live) - num_kept
    return later > max(LATER, SHARE * len(live)) or len(covered) - num_kept > REMOVED * len(covered)
