"""A byte of the database that has changed since it was written is found where it would be read."""

import sqlite3
from contextlib import closing

import pytest

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.index import Index, Rows, add, build, remove, writing
from juzhen.index.derived_files import verify
from juzhen.index.store import DATABASE, Store

TEXTS = [f"火车的第{number}个问题" for number in range(12)]
FLIPS = {
    "text": "UPDATE texts SET text = '火车的第8个门题' WHERE number = 8",
    "metadata": """UPDATE texts SET metadata = '{"n": 9}' WHERE number = 8""",
    "id": "UPDATE texts SET id = 'c8' WHERE number = 8",
    "vector": "UPDATE vectors SET vector = (SELECT vector FROM vectors WHERE number = 7) WHERE number = 8",
}


@pytest.fixture
def folder(encoder, tmp_path):
    rows = Rows(TEXTS, [f"a{number}" for number in range(12)], [{"n": number} for number in range(12)])
    build(tmp_path / "index", encoder, rows, name="small")
    return tmp_path / "index"


def changed(folder, statement):
    with closing(sqlite3.connect(folder / DATABASE)) as database, database:
        database.execute(statement)


def verified(folder):
    store = Store(folder / DATABASE)
    try:
        verify(store)
    finally:
        store.close()


@pytest.mark.parametrize("what", FLIPS)
def test_a_changed_row_is_not_shown(folder, encoder, what, capsys, monkeypatch):
    verified(folder)
    changed(folder, FLIPS[what])
    vectors = encoder.encode(TEXTS[8:9])
    with (
        Index.open(folder, encoder) as opened,
        pytest.raises(UserError, match=r"number 8 .* juzhen index build"),
    ):
        opened.search(TEXTS[8:9], 12, vectors=vectors)
    with pytest.raises(UserError, match="number 8 "):
        verified(folder)
    assert main(["index", "info", str(folder)]) == 2
    assert "number 8 " in capsys.readouterr().err
    monkeypatch.setattr(writing, "LATER", 0)  # the quick files are made of what is stored
    monkeypatch.setattr(writing, "SHARE", 0)
    with pytest.raises(UserError, match="number 8 "):
        add(folder, encoder, Rows(["一个新的问题"], ["b"], [{"n": 1}]))


def test_sums_follow_what_is_added_and_removed(folder, encoder):
    remove(folder, ["a3", "a3"])
    add(folder, encoder, Rows(["一个新的问题", TEXTS[1]], ["a4", "b"], [{"n": 1}, {"n": 2}]))
    verified(folder)
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        (numbers,) = zip(*database.execute("SELECT number FROM checksums ORDER BY 1"), strict=True)
        assert numbers == (0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13)


def test_an_index_of_an_earlier_version_is_read_and_added_to(folder, encoder):
    changed(folder, "DROP TABLE checksums")
    verified(folder)
    remove(folder, ["a3"])
    add(folder, encoder, Rows(["一个新的问题"], ["b"], [{"n": 1}]))
    verified(folder)
    changed(folder, FLIPS["text"])
    verified(folder)  # nothing is known of it
    changed(folder, "UPDATE texts SET text = '一个旧的问题' WHERE id = 'b'")
    with pytest.raises(UserError, match="number 12 "):
        verified(folder)
