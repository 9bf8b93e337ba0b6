"""Indexes are built and changed. A kill at any moment leaves the index as it was, or as it should be.

Texts and vectors are committed to the database; files for quick search are derived of it, named in it, and replaced
when much has changed since. What is not in them yet is compared one by one.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from juzhen.core.array_cache import write_arrays
from juzhen.core.errors import UserError
from juzhen.core.owned import own_folder
from juzhen.core.progress import progress_bar
from juzhen.core.texts import short
from juzhen.core.whole import clear_leftovers, remove_file, whole_file
from juzhen.encoders.passages import Passages, require_chunks
from juzhen.encoders.pooling import unit
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.workers import started
from juzhen.index.dense import LEAST, Dense, open_dense, require_faiss, write_dense
from juzhen.index.index import Index, check_encoder, dense_file, index_digest, lexical_file, reader_of
from juzhen.index.rows import Rows
from juzhen.index.store import DATABASE, Store, require_complete, require_index
from juzhen.metrics.bm25 import BM25, CHARACTERS, cut_of

PORTION = 8_192
"""Texts that are encoded before they are written."""

LATER, SHARE = 2_048, 0.1
"""Derived files are made anew when more texts than this, and more than this share of all, are not in them."""

REMOVED = 0.25
"""Share of the texts in derived files that may be gone."""

GROWN = 4
"""Lists and codes of an index of FAISS are made anew when it has so many times the texts that it was trained on."""


@dataclass(frozen=True)
class Encoding:
    """How texts become vectors: options of `SentenceEncoder.encode`.

    progress  a bar; None: on a terminal
    on_cut    is told of each portion how many texts were cut; None: they are not counted
    """

    options: dict[str, Any]
    workers: int | None = None
    progress: bool | None = None
    on_cut: Callable[[int], None] | None = None


@dataclass(frozen=True)
class PassageSettings:
    """How texts are stored by their passages, as of `SentenceEncoder.encode_chunks`."""

    chunk_tokens: int
    overlap: int = 0
    late: bool = False


def build(
    folder: Path,
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
    """Builds an index of the rows in a new folder; one whose build was cut off goes on. Gives how many were there.

    name    of the encoder, for messages
    kind    of KINDS
    dim     the first so many numbers of embeddings; None: all
    prompt_name, prompt  as of `reader_of`
    tokens  of Chinese, as of `BM25`
    passages  None: texts are stored whole, and read as the encoder reads long ones

    Raises UserError where there is an index already, or an unfinished one of other rows or settings.
    """
    if kind not in ("flat", "binary"):
        require_faiss(kind)
    cut_of(tokens)
    own_folder(folder)
    reader = reader_of(encoder, prompt_name, prompt)
    if passages is not None:
        require_chunks(reader, passages.chunk_tokens, passages.overlap, late=passages.late)
    facts: dict[str, Any] = {
        "kind": kind,
        "dim": encoder.size_of(dim),
        "digest": index_digest(reader),
        "prompt_name": prompt_name,
        "prompt": prompt,
        "tokens": tokens,
        "has_ids": rows.ids is not None,
        "fields": rows.fields,
        "source": rows.digest,
        "chunk_overlap": reader.chunk_overlap,
        "passages": None if passages is None else asdict(passages),
    }
    store = Store(folder / DATABASE, writes=True)
    try:
        present = store.facts()
        if present.get("state") == "complete":
            raise UserError(f"{folder}: holds an index already; juzhen index add adds to it")
        if present and {key: present.get(key) for key in facts} != facts:
            raise UserError(
                f"{folder}: holds an unfinished index of other texts or settings; give the command that began it, or "
                "another folder"
            )
        if not present:
            with store.transaction():
                store.set_facts(**facts, encoder=name, state="building", next=0)
        done = int(present.get("next" if passages is None else "documents", 0))
        for portion, vectors in _encoded(reader, rows.after(done), facts, encoding):
            with store.transaction():
                _add(store, portion, vectors)
        with store.transaction():
            _derive(store, folder, encoding)
            store.set_facts(state="complete")
        _tidy(store, folder)
        return done
    finally:
        store.close()


def index_in_memory(encoder: SentenceEncoder, rows: Rows) -> Index:
    """The rows of a file, searched like an index, as long as the process lives."""
    store, dim = Store(None), encoder.size_of()
    reader = reader_of(encoder, None, None)
    facts: dict[str, Any] = {
        "kind": "flat",
        "dim": dim,
        "tokens": CHARACTERS,
        "fields": rows.fields,
        "state": "complete",
    }
    whose = {"encoder": "", "digest": index_digest(reader), "prompt_name": None, "prompt": None}
    with store.transaction():
        store.set_facts(**facts, **whose, next=0)
        for portion, vectors in _encoded(reader, rows, facts, Encoding({})):
            _add(store, portion, vectors)
    return Index(store, None, encoder)


def add(folder: Path, encoder: SentenceEncoder, rows: Rows, *, encoding: Encoding | None = None) -> int:
    """Adds rows to an index, all or none; a row whose id is there takes the place of that one. Gives how many did.

    Raises UserError for an encoder of other weights, for rows with ids where the index has none or the reverse.
    """
    with _changed(folder) as store:
        facts = store.facts()
        encoder = check_encoder(facts, encoder, str(folder))
        if facts["has_ids"] != (rows.ids is not None):
            has = (
                "ids of its own: name their column, --id COLUMN"
                if facts["has_ids"]
                else "no ids: leave out --id"
            )
            raise UserError(f"{folder}: this index has {has}")
        reader, replaced = reader_of(encoder, facts["prompt_name"], facts["prompt"]), 0
        with store.transaction():
            for portion, vectors in _encoded(reader, rows, facts, encoding):
                replaced += _add(store, portion, vectors)
            store.set_facts(fields=[*dict.fromkeys([*facts["fields"], *rows.fields])])
        _derive_if_due(store, folder, encoding)
        return replaced


def remove(folder: Path, ids: Sequence[str]) -> None:
    """Removes the texts with these ids, all or none. Raises UserError for an id that no text has."""
    with _changed(folder) as store:
        with store.transaction():
            if absent := store.absent(ids):
                ending = f", nor have {len(absent) - 1:,} more" if absent[1:] else ""
                raise UserError(
                    f"{folder}: no text has the id {short(absent[0])}{ending}; nothing was removed"
                )
            store.remove(ids)
        _derive_if_due(store, folder, None)


@contextmanager
def _changed(folder: Path) -> Iterator[Store]:
    require_index(folder)
    own_folder(folder)
    store = Store(folder / DATABASE, writes=True)
    try:
        require_complete(store.facts(), folder)
        yield store
        _tidy(store, folder)
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
    if passages is not None and options.pop("cache", None) is not None:
        raise UserError("cache: the vectors of passages are not kept there; leave it out")
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
            if encoding.on_cut is not None and passages is None:
                encoding.on_cut(int((reader.lost_tokens(portion.texts) > 0).sum()))
            advance(len(portion.texts))


def _add(store: Store, rows: Rows, vectors: Vectors) -> int:
    """As of `Store.add`."""
    if isinstance(vectors, Passages):
        return store.add_passages(rows.texts, rows.ids, rows.metadata, vectors)
    return store.add(rows.texts, rows.ids, rows.metadata, vectors)


def _derive_if_due(store: Store, folder: Path, encoding: Encoding | None) -> None:
    """Makes derived files anew where too much has changed since."""
    generation = store.generation()
    covered = np.empty(0, dtype=np.int64) if generation is None else generation[1]
    live = store.numbers()
    num_kept = int(np.isin(covered, live, assume_unique=True).sum())
    later = len(live) - num_kept
    if later > max(LATER, SHARE * len(live)) or len(covered) - num_kept > REMOVED * len(covered):
        with store.transaction():
            _derive(store, folder, encoding)


def _derive(store: Store, folder: Path, encoding: Encoding | None) -> None:
    """Writes files of all texts and puts them in force with the transaction around."""
    facts, generation, numbers = store.facts(), store.generation(), store.numbers()
    if len(numbers) < (LEAST if facts["kind"] == "ivf_pq" else 1):  # so few are compared one by one
        store.drop_generation()
        return
    before: Dense | None = None
    if generation is not None and facts["kind"] not in ("flat", "binary"):
        name, covered = generation
        is_whole = np.array_equal(covered, numbers[: len(covered)])
        if is_whole and len(numbers) < GROWN * facts.get("trained", 0):
            before = open_dense(dense_file(folder, name), facts["kind"])
    name = f"{1 if generation is None else int(generation[0]) + 1:06d}"
    progress = None if encoding is None else encoding.progress
    with (
        whole_file(dense_file(folder, name), "wb", in_own_folder=True) as file,
        progress_bar("building the index", len(numbers), shown=progress) as advance,
    ):
        shape = {"count": len(numbers), "dim": facts["dim"]}
        write_dense(file, facts["kind"], store.portions, **shape, before=before, advance=advance)
    path = lexical_file(folder, name)
    texts = [text for _, text in store.texts()]
    with whole_file(path, "wb", in_own_folder=True) as file:
        write_arrays(file, BM25(texts, tokens=facts["tokens"]).arrays(), key=path.stem)
    store.set_generation(name, numbers)
    if before is None:
        store.set_facts(trained=len(numbers))


def _tidy(store: Store, folder: Path) -> None:
    """Removes derived files that are no longer in force, and what a kill has left unfinished."""
    with store.transaction():  # nobody else is about to put files in force
        generation = store.generation()
        name = "" if generation is None else generation[0]
        current = {dense_file(folder, name), lexical_file(folder, name)}
        for path in itertools.chain(folder.glob("dense-*.bin"), folder.glob("bm25-*.safetensors")):
            if path not in current:
                remove_file(path)
    clear_leftovers(folder)
