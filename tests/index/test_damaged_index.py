"""An index whose files were damaged or replaced is mended in one line, or refused with a way out."""

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from refusals import rows as rows_of

from juzhen.core import atomic_write
from juzhen.core.errors import UserError
from juzhen.index import Index, Rows, add, build, derived_files, remove, writing
from juzhen.index import store as store_module
from juzhen.index.derived_files import WRITTEN
from juzhen.index.store import DATABASE, Store

faiss = pytest.importorskip("faiss")

QUERIES = ["怎么退货", "火车的第8个问题"]
TOPICS = ("天气", "退货", "发货", "火车", "苹果")
DENSE, LEXICAL = "dense-000001.bin", "bm25-000001.safetensors"


class Runs:
    """Makes a folder when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def rewritten(change: Callable[[bytes], bytes], name: str = DENSE) -> Callable[[Path], None]:
    def damage(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return damage


def saved(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """An array of numpy in the place of the vectors."""

    def damage(folder):
        with open(folder / DENSE, "r+b") as file:
            array = change(np.load(file))
            file.seek(0)
            file.truncate()
            np.save(file, array)

    return damage


def faiss_of(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def damage(folder):
        vectors = np.random.default_rng(0).normal(size=(COUNT, 32)).astype(np.float32)
        index = faiss.index_factory(change(vectors).shape[1], "HNSW32", faiss.METRIC_INNER_PRODUCT)
        index.add(change(vectors))
        faiss.write_index(index, str(folder / DENSE))

    return damage


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Something else in the place of a file."""

    def damage(folder):
        path = folder / name
        path.unlink()
        make(path)

    return damage


def unpickles(path):
    with open(path, "wb") as file:
        np.save(file, np.array([Runs()], dtype=object), allow_pickle=True)


def sql(*statements: str, **values: bytes | str) -> Callable[[Path], None]:
    def damage(folder):
        with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement, values if ":" in statement else {})

    return damage


def as_copy(path):
    other = path.with_name(f"other {path.name}")
    shutil.copy(path, other)
    path.unlink()
    path.symlink_to(other)


def journal_as_folder(folder):
    path = folder / f"{DATABASE}-wal"
    path.unlink(missing_ok=True)
    path.mkdir()


def swapped_in_place(folder):
    """Size and time of change as before."""
    path = folder / DENSE
    status = path.stat()
    rows = np.lib.format.open_memmap(path, mode="r+")
    rows[[0, 1]] = rows[[1, 0]]
    rows.flush()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


FILES = {
    "missing": lambda name: replaced(name, lambda path: None),
    "empty": lambda name: rewritten(lambda content: b"", name),
    "cut": lambda name: rewritten(lambda content: content[: len(content) // 2], name),
    "longer": lambda name: rewritten(lambda content: content + bytes(4), name),
    "garbage": lambda name: rewritten(lambda content: os.urandom(len(content)), name),
    "one bit": lambda name: rewritten(
        lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], name
    ),
    "a folder": lambda name: replaced(name, Path.mkdir),
    "a pipe": lambda name: replaced(name, os.mkfifo),
    "a link to nothing": lambda name: replaced(name, lambda path: path.symlink_to("nothing")),
    "of another index": lambda name: rewritten(lambda content: OTHER[name], name),
}
OTHER: dict[str, bytes] = {}
COUNT = 60
TEXTS = [f"{TOPICS[number % 5]}的第{number}个问题，编号{number * 37 % 101}" for number in range(COUNT)]

MENDED = {
    **{
        f"{name} {case}": ("flat", make(file))
        for name, file in (("dense", DENSE), ("bm25", LEXICAL))
        for case, make in FILES.items()
    },
    "rows permuted": ("flat", saved(lambda rows: rows[::-1])),
    "two rows swapped, time set back": ("flat", swapped_in_place),
    "NaN": ("flat", saved(lambda rows: np.where(np.arange(len(rows))[:, None] == 7, np.nan, rows))),
    "float64": ("flat", saved(lambda rows: rows.astype("f8"))),
    "one dimension": ("flat", saved(np.ravel)),
    "transposed": ("flat", saved(lambda rows: np.asfortranarray(rows.T))),
    "rows left out": ("flat", saved(lambda rows: rows[:20])),
    "a pickle": ("flat", replaced(DENSE, unpickles)),
    "bits permuted": ("binary", saved(lambda rows: rows[::-1])),
    "hnsw cut": ("hnsw", FILES["cut"](DENSE)),
    "hnsw garbage": ("hnsw", FILES["garbage"](DENSE)),
    "hnsw of other vectors": ("hnsw", faiss_of(lambda vectors: vectors)),
    "hnsw of another dim": ("hnsw", faiss_of(lambda vectors: vectors[:, :16].copy())),
    "numbers of texts permuted": (
        "flat",
        sql("UPDATE generations SET numbers = :blob", blob=np.arange(COUNT)[::-1].astype("<i8").tobytes()),
    ),
    "numbers of texts cut": ("flat", sql("UPDATE generations SET numbers = :blob", blob=b"123")),
    "a name that leads outside": ("flat", sql("UPDATE generations SET name = '/../../x'")),
    "facts of files damaged": ("flat", sql(f"UPDATE facts SET value = '[3]' WHERE name = '{WRITTEN}'")),
    "no digests": ("int8", sql(f"DELETE FROM facts WHERE name = '{WRITTEN}'")),
}

UNHARMED = {
    "links to equal files": lambda folder: [as_copy(folder / name) for name in (DENSE, LEXICAL, DATABASE)],
    "a copy of another time": lambda folder: [os.utime(path) for path in folder.iterdir()],
    "garbage in the journal": lambda folder: (folder / f"{DATABASE}-wal").write_bytes(os.urandom(5000)),
}

REFUSED = {
    **{
        f"database {case}": make(DATABASE)
        for case, make in FILES.items()
        if case not in ("longer", "one bit", "of another index")
    },
    "database of others": replaced(DATABASE, lambda path: sql("CREATE TABLE texts (number)")(path.parent)),
    "database of another version": sql("PRAGMA user_version = 9"),
    "no table of vectors": sql("DROP TABLE vectors"),
    "no table of facts": sql("DROP TABLE facts"),
    "facts that are no JSON": sql("UPDATE facts SET value = '{' WHERE name = 'dim'"),
    "a fact of another type": sql("UPDATE facts SET value = '\"x\"' WHERE name = 'dim'"),
    "a fact missing": sql("DELETE FROM facts WHERE name = 'prompt'"),
    "a dim below 0": sql("UPDATE facts SET value = '-1' WHERE name = 'dim'"),
    "a dim of 0": sql("UPDATE facts SET value = '0' WHERE name = 'dim'"),
    "a dim that is true": sql("UPDATE facts SET value = 'true' WHERE name = 'dim'"),
    "half of the dim": sql("UPDATE facts SET value = '16' WHERE name = 'dim'"),
    "unknown tokens": sql("UPDATE facts SET value = '\"pinyin\"' WHERE name = 'tokens'"),
    "fields of numbers": sql("UPDATE facts SET value = '[1]' WHERE name = 'fields'"),
    "passages that are a text": sql("INSERT OR REPLACE INTO facts VALUES ('passages', '\"x\"')"),
    "an overlap that is a list": sql("INSERT OR REPLACE INTO facts VALUES ('chunk_overlap', '[1]')"),
    "a next number below 0": sql("UPDATE facts SET value = '-5' WHERE name = 'next'"),
    "texts of bytes": sql("UPDATE texts SET text = x'fffe'"),
    "metadata that are a list": sql("UPDATE texts SET metadata = '[1]'"),
    "metadata nested deeply": sql("UPDATE texts SET metadata = :deep", deep="[" * 5000 + "]" * 5000),
    "a view without an end": sql(
        "ALTER TABLE texts RENAME TO others",
        "CREATE VIEW texts AS WITH RECURSIVE c(number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM c) "
        "SELECT number, 'x' || number AS id, 'y' AS text, '{}' AS metadata FROM c",
    ),
    "a trigger": sql("CREATE TRIGGER t AFTER INSERT ON texts BEGIN DELETE FROM texts; END"),
    "an unknown kind": sql("UPDATE facts SET value = '\"trees\"' WHERE name = 'kind'"),
    "a vector of NaN": sql(
        "UPDATE vectors SET vector = :nan WHERE number = 3", nan=np.full(32, np.nan, "<f4").tobytes()
    ),
    "a vector cut": sql("UPDATE vectors SET vector = :short WHERE number = 3", short=bytes(4)),
    "a vector that is a text": sql("UPDATE vectors SET vector = 'x' WHERE number = 3"),
    "a vector missing": sql("DELETE FROM vectors WHERE number = 3"),
    "a text missing": sql("DELETE FROM texts WHERE number = 3"),
    "NaN in metadata of an earlier version": sql(
        "DROP TABLE checksums", "UPDATE texts SET metadata = '{\"page\": [NaN]}' WHERE number = 3"
    ),
    "1e400 in metadata of an earlier version": sql(
        "DROP TABLE checksums", "UPDATE texts SET metadata = '{\"page\": 1e400}' WHERE number = 3"
    ),
    "metadata that are no JSON": sql("UPDATE texts SET metadata = '{' WHERE number = 3"),
    "ids that are blobs": sql("UPDATE texts SET id = CAST(id AS BLOB)"),
    "an id that is a blob": sql("UPDATE texts SET id = CAST(id AS BLOB) WHERE number = 3"),
    "a journal that is a folder": journal_as_folder,
    "a build that was cut off": sql("UPDATE facts SET value = '\"building\"' WHERE name = 'state'"),
}


@pytest.fixture(scope="module")
def built_once(encoder, tmp_path_factory):
    """An index of that kind; of flat also the files of the same texts in another order."""
    some = Rows(TEXTS, [f"t{number}" for number in range(COUNT)], [{"page": 1}] * COUNT, ["page"])
    folder = tmp_path_factory.mktemp("indexes")
    build(folder / "other", encoder, Rows(TEXTS[::-1], some.ids), name="small")
    OTHER.update({name: (folder / "other" / name).read_bytes() for name in (DENSE, LEXICAL)})

    @cache
    def make(kind):
        build(folder / kind, encoder, some, name="small", kind=kind)
        return folder / kind

    return make


@pytest.fixture(scope="module")
def found(encoder):
    """All that a search gives, of every text."""
    vectors = encoder.encode_query(QUERIES)

    def search(folder):
        with Index.open(folder, encoder) as index:
            return [
                index.search(QUERIES, COUNT, vectors=vectors),
                index.search(QUERIES, COUNT, mode="bm25"),
            ]

    return search


@pytest.fixture(scope="module")
def expected(built_once, found):
    return cache(lambda kind: found(built_once(kind)))


def numbers_of(results):
    return [[[hit.index for hit in row] for row in lists] for lists in results]


def mended(f, kind, damage):
    """Quick files that differ are made anew, and used from then on."""
    f.monkeypatch.chdir(f.tmp_path)
    folder = f.built(kind)
    damage(folder)
    assert numbers_of(f.found(folder)) == numbers_of(f.expected(kind))
    yield folder
    assert f.found(folder) == f.expected(kind)
    assert not Path("unpickled").exists()


def unharmed(f, change):
    """What is the same is used."""
    folder = f.built()
    change(folder)
    assert f.found(folder) == f.expected("flat")
    yield folder


def extended(f, kind):
    """A change mends what it would extend."""
    for name in ("LATER", "SHARE"):
        f.monkeypatch.setattr(writing, name, 0)
    folder = f.built(kind)
    damaged = shutil.copytree(folder, folder.with_name("damaged"))
    content = bytearray((damaged / DENSE).read_bytes())
    content[2000:4000] = content[4000:6000]
    (damaged / DENSE).write_bytes(content)
    for each in (folder, damaged):
        add(each, f.encoder, Rows(["怎么退货"], ["new"]))
    yield damaged
    assert numbers_of(f.found(damaged)) == numbers_of(f.found(folder))


def compared_one_by_one(f, *, locked):
    """Where nothing can be written."""
    folder = f.built("hnsw")
    (folder / DENSE).unlink()
    exact = f.encoder.search(QUERIES, f.encoder.encode_document(TEXTS), COUNT)
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as other:
        if locked:
            other.execute("BEGIN IMMEDIATE")
        else:
            f.monkeypatch.setattr(derived_files, "claim_dir", lambda path: refuse(errno.EROFS))
        with Index.open(folder, f.encoder) as index:
            dense = index.search(QUERIES, COUNT)
            assert [[hit.index for hit in row] for row in dense] == [
                [hit.document for hit in row] for row in exact
            ]
            assert index.search(["怎么退货"], 1, mode="bm25")[0]
    yield folder
    assert not [*folder.glob("dense-*")]


MENDED_OR_NOT = {
    "mended": [
        (lambda f, kind=kind, damage=damage: mended(f, kind, damage), "FOLDER.*made anew")
        for kind, damage in MENDED.values()
    ],
    "unharmed": [(lambda f, change=change: unharmed(f, change), None) for change in UNHARMED.values()],
    "extended": [(lambda f, kind=kind: extended(f, kind), "FOLDER") for kind in ("flat", "hnsw")],
    "compared": [
        (lambda f, locked=locked: compared_one_by_one(f, locked=locked), "one by one")
        for locked in (False, True)
    ],
}


@pytest.mark.parametrize(("act", "told"), rows_of(MENDED_OR_NOT, sampled={"mended": 3}))
@pytest.mark.sampled(2)
def test_what_differs_is_made_anew_or_left_out_in_one_line(f, act, told, capsys):
    steps = act(f)
    folder = next(steps)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == (told is not None)
    assert not told or re.search(told.replace("FOLDER", re.escape(str(folder))), lines[0])
    assert next(steps, None) is None
    assert not capsys.readouterr().err


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.sampled(2)
def test_a_damaged_database_is_refused_with_a_way_out(case, built, found, encoder):
    folder = built()
    REFUSED[case](folder)
    for act in (
        lambda: found(folder),
        lambda: (add(folder, encoder, Rows(["新的"], ["n"])), found(folder)),
        lambda: (remove(folder, ["t8"]), found(folder)),
    ):
        with pytest.raises(UserError, match=r"juzhen index build|give the same") as refused:
            act()
        assert str(folder) in str(refused.value)


def test_a_folder_that_is_only_read_is_read_again_after_changes_alone(built, encoder, monkeypatch):
    folder = built()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: access(path, mode) and Path(path) != folder)
    with Index.open(folder, encoder) as index:
        before = index.view()
        index.search(QUERIES)
        assert index.view() is before
        add(folder, encoder, Rows(["怎么退货"], ["new"]))
        assert len(index) == COUNT + 1


def refuse(code):
    raise OSError(code, os.strerror(code), "there")


def a_full_disk(f):
    """It changes nothing."""
    folder = f.built()
    with closing(Store(folder / DATABASE, writes=True)) as store:
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        try:
            with store.transaction():
                ids = [f"n{number}" for number in range(10 * COUNT)]
                store.add(TEXTS * 10, ids, None, np.ones((10 * COUNT, 32), np.float32))
        finally:
            store.remove(["t1"])
            (dense, _), (before, _) = f.found(folder), f.expected("flat")
            assert [[hit.index for hit in row] for row in dense] == [
                [hit.index for hit in row if hit.id != "t1"] for row in before
            ]


def of_the_database(f, name, *, is_refused):
    """An error of SQLite, where a file can be written or not."""
    f.monkeypatch.setattr(
        store_module, "require_room", lambda folder: refuse(errno.EROFS) if is_refused else None
    )
    store, error = Store(f.tmp_path / DATABASE, writes=True), sqlite3.OperationalError("some words")
    error.sqlite_errorname = f"SQLITE_{name}"
    try:
        with closing(store), store.transaction():
            store.set_facts(kind="flat")
            raise error
    finally:
        with closing(Store(f.tmp_path / DATABASE)) as again:
            assert again.facts() == {}


def before_texts_are_encoded(f, code, act):
    """A place that takes nothing."""
    folder = f.built()
    f.monkeypatch.setattr(
        type(f.encoder), "encode", lambda self, texts, **options: pytest.fail("encoded") if texts else None
    )
    if code == errno.ENOSPC:
        usage = shutil.disk_usage(folder)._replace(free=1000)
        f.monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    else:
        f.monkeypatch.setattr(atomic_write.tempfile, "TemporaryFile", lambda **options: refuse(code))
    act(f, folder)


ERRORS = {
    "a full disk": [(a_full_disk, DATABASE, errno.ENOSPC)],
    "the database": [
        (lambda f, name=name, is_refused=is_refused: of_the_database(f, name, is_refused=is_refused), *told)
        for name, is_refused, *told in (
            ("BUSY_SNAPSHOT", False, "Try again", None),
            ("LOCKED", True, "Try again", None),
            ("FULL", False, None, errno.ENOSPC),
            ("FULL", True, None, errno.EROFS),
            ("IOERR_WRITE", True, None, errno.EROFS),
            ("IOERR_WRITE", False, "juzhen index build", None),
            ("READONLY", True, None, errno.EROFS),
            ("CORRUPT", True, "juzhen index build", None),
        )
    ],
    "a place": [
        (lambda f, code=code, act=act: before_texts_are_encoded(f, code, act), "FOLDER", told)
        for code in (errno.ENOSPC, errno.EROFS)
        for act, told in (
            (lambda f, folder: add(folder, f.encoder, Rows(f.rows.texts)), code),
            (
                lambda f, folder: build(f.tmp_path / "new", f.encoder, f.rows, name="small"),
                code if code == errno.ENOSPC else None,
            ),
        )
    ],
}


@pytest.mark.parametrize(("call", "told", "code"), rows_of(ERRORS))
def test_errors_of_disk_and_database_name_the_place_or_the_way_out(f, call, told, code):
    with pytest.raises(
        UserError if code is None else OSError, match=told and told.replace("FOLDER", str(f.tmp_path))
    ) as raised:
        call(f)
    assert getattr(raised.value, "errno", None) == code
