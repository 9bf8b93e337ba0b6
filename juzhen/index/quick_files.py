"""Files for quick search beside the database of an index: made of it, bound to it, and made anew where they differ.

A file that was permuted, truncated, taken from another day or another index would find other texts without an error.
Opening compares size and stamp of each file with those that the database has of it. Where the stamp alone differs, as
in a copy of the folder, all bytes are read and compared by their digest.
"""

import hashlib
import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from os import stat_result
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from juzhen.core.array_cache import read_arrays, write_arrays
from juzhen.core.atomic_write import atomic_write, clear_leftovers, remove_file
from juzhen.core.errors import UserError
from juzhen.core.file_guard import claim_dir
from juzhen.core.progress import progress_bar
from juzhen.core.safe_open import open_regular_file, require_file
from juzhen.index.dense import LEAST, Dense, open_dense, write_dense
from juzhen.index.store import DATABASE, Store
from juzhen.metrics.bm25 import BM25

WRITTEN = "quick_files"
"""Fact that has the digest of the numbers of the texts, and size, stamp and digest of each file."""

GROWN = 4
"""Lists and codes of an index of FAISS are made anew when it has so many times the texts that it was trained on."""


class DifferentFilesError(Exception):
    """A quick file that differs from what was written. The message names it."""


@dataclass(frozen=True)
class QuickFiles:
    """The quick files of an index.

    numbers  of the texts that they hold, by position
    lexical  the arrays of BM25
    """

    numbers: Int[np.ndarray, "texts"]
    dense: Dense | None = None
    lexical: Mapping[str, np.ndarray] | None = None


def dense_file(folder: Path, generation: str) -> Path:
    return folder / f"dense-{generation}.bin"


def lexical_file(folder: Path, generation: str) -> Path:
    return folder / f"bm25-{generation}.safetensors"


def open_quick_files(store: Store, folder: Path) -> QuickFiles:
    """Open the files in force, which are mapped, or read by FAISS.

    Raises DifferentFilesError as `covered_numbers`, and UserError where FAISS is not installed.
    """
    numbers, generation = covered_numbers(store, folder), store.generation()
    if generation is None:
        return QuickFiles(numbers)
    try:
        dense = open_dense(dense_file(folder, generation[0]), store.facts()["kind"])
        return QuickFiles(numbers, dense, read_arrays(lexical_file(folder, generation[0]), False))
    except (OSError, ValueError, RuntimeError) as error:  # whole, and of another version of FAISS
        raise DifferentFilesError(f"{folder}: its quick files cannot be read ({error})") from error


def covered_numbers(store: Store, folder: Path) -> Int[np.ndarray, "texts"]:
    """Return the numbers of the texts in the files in force, by position; none where there are no files.

    Raises DifferentFilesError where the files are not those that were written. A store that writes must be within a
    transaction.
    """
    generation = store.generation()
    if generation is None:
        return np.empty(0, dtype=np.int64)
    name, numbers = generation
    if (written := store.facts().get(WRITTEN)) is None:
        raise DifferentFilesError(f"{folder}: the digests of its quick files are missing")
    stamps = {}
    try:
        if not name.isdecimal() or hashlib.sha256(numbers).hexdigest() != written["numbers"]:
            raise DifferentFilesError(
                f"{folder / DATABASE}: the numbers of the texts in the quick files are damaged"
            )
        for path in (dense_file(folder, name), lexical_file(folder, name)):
            stamps[path.name] = _checked(path, written["files"][path.name])
    except (LookupError, TypeError) as error:
        raise DifferentFilesError(
            f"{folder / DATABASE}: the facts about the quick files are damaged"
        ) from error
    if store.writes and stamps != written["files"]:  # of a copy: the next opening reads no bytes
        store.set_facts(**{WRITTEN: written | {"files": stamps}})
    return np.frombuffer(numbers, "<i8")


def derive(store: Store, folder: Path, *, progress: bool | None = None) -> None:
    """Write quick files of all texts and put them in force with the transaction around.

    progress  a bar; None: on a terminal
    """
    facts, generation, numbers = store.facts(), store.generation(), store.numbers()
    if len(numbers) < (LEAST if facts["kind"] == "ivf_pq" else 1):  # so few are compared one by one
        store.drop_generation()
        return
    before: Dense | None = None
    if generation is not None and facts["kind"] not in ("flat", "binary"):
        try:
            earlier = open_quick_files(store, folder)
            is_whole = np.array_equal(earlier.numbers, numbers[: len(earlier.numbers)])
            if is_whole and len(numbers) < GROWN * facts.get("trained", 0):
                before = earlier.dense
        except DifferentFilesError:
            pass
    latest = int(generation[0]) if generation is not None and generation[0].isdecimal() else 0
    name = f"{latest + 1:06d}"
    paths = dense_file(folder, name), lexical_file(folder, name)
    with (
        atomic_write(paths[0], "wb", in_own_folder=True) as file,
        progress_bar("building the index", len(numbers), shown=progress) as advance,
    ):
        shape = {"count": len(numbers), "dim": facts["dim"]}
        write_dense(file, facts["kind"], store.portions, **shape, before=before, advance=advance)
    texts = [text for _, text in store.texts()]
    with atomic_write(paths[1], "wb", in_own_folder=True) as file:
        write_arrays(file, BM25(texts, tokens=facts["tokens"]).arrays(), key=paths[1].stem)
    blob = numbers.astype("<i8").tobytes()
    store.set_generation(name, blob)
    written = {
        "numbers": hashlib.sha256(blob).hexdigest(),
        "files": {path.name: _entry(path.stat(), _digest(path)) for path in paths},
    }
    store.set_facts(**{WRITTEN: written})
    if before is None:
        store.set_facts(trained=len(numbers))


def mend(folder: Path, problem: DifferentFilesError) -> bool:
    """Make quick files anew that differ from what was written, and print one line; False where that cannot be done."""
    try:
        folder = folder.resolve()  # behind a link to the newest of several indexes
        claim_dir(folder)
        store = Store(folder / DATABASE, writes=True, patience=0)
        try:
            with store.transaction():
                try:
                    open_quick_files(store, folder)  # another process was quicker
                except DifferentFilesError:
                    print(f"{problem}; they are made anew of the database", file=sys.stderr)
                    derive(store, folder)
            tidy(store, folder)
        finally:
            store.close()
    except (OSError, UserError) as error:
        reason = getattr(error, "strerror", None) or error
        _tell_once(f"{problem}; they are not made anew ({reason}), and texts are compared one by one")
        return False
    return True


@cache
def _tell_once(line: str) -> None:
    print(line, file=sys.stderr)


def tidy(store: Store, folder: Path) -> None:
    """Remove quick files that are no longer in force, and what a kill has left unfinished."""
    with store.transaction():  # nobody else is about to put files in force
        generation = store.generation()
        name = "" if generation is None else generation[0]
        current = {dense_file(folder, name), lexical_file(folder, name)}
        for path in itertools.chain(folder.glob("dense-*.bin"), folder.glob("bm25-*.safetensors")):
            if path not in current and not path.is_dir():
                remove_file(path)
    clear_leftovers(folder)


def _checked(path: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with the stamp that the file has now. Raises DifferentFilesError for other bytes."""
    try:
        status = require_file(path).stat()
        fresh = _entry(status, entry["sha256"])
        if fresh["bytes"] != entry["bytes"] or (fresh != entry and _digest(path) != entry["sha256"]):
            raise DifferentFilesError(f"{path}: differs from the file that was written")
    except OSError as error:
        raise DifferentFilesError(f"{path}: {error.strerror}") from error
    return fresh


def _entry(status: stat_result, digest: str) -> dict[str, Any]:
    """Size, stamp and digest of a file. A change of content changes the stamp, unless somebody sets the clock back."""
    stamp = [status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    return {"bytes": status.st_size, "stamp": stamp, "sha256": digest}


def _digest(path: Path) -> str:
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
