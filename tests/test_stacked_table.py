"""Whatever the width of a terminal, labels and values are all there, and stand in lines that fit."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from juzhen.report.stacked_table import Column, StackedTable
from juzhen.report.terminal import for_people

WIDTHS = (20, 30, 40, 60, 80, 100, 120, 160)
LONG = "a_set_with_a_rather_long_name (test)"


def printed(table, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue()


@pytest.fixture
def table():
    columns = [
        Column("trained on"),
        *(Column(f"{LONG} {n}", is_number=True) for n in range(6)),
        Column("note"),
    ]
    rows = [
        [label, *(f"{10 * row + n}.5\n[{n}.1, {90 + n}.2]" for n in range(6)), f"a sentence about row {row}"]
        for row, label in enumerate(("lexical", "[brackets] → csts (3 seeds)", "句阵，句向量的实验"))
    ]
    return StackedTable(columns, rows)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_at_any_width(table, width):
    text = printed(table, width)
    squeezed = "".join(text.split())
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    for row in table.rows:
        for value in row[1:-1]:
            assert all("".join(part.split()) in squeezed for part in value.split("\n")), value
    parts = table.parts(width)
    assert {0, *(number for part in parts or [range(8)] for number in part)} == set(range(8))
    assert all(part[0] == 0 and len(part) > 1 for part in parts or [range(8)])


def test_a_terminal_too_narrow_for_two_columns_gets_a_list(table):
    text = printed(table, 20)
    assert table.parts(20) is None
    assert text.startswith("lexical\n- ")
    assert text.count("lexical") == 1


def test_labels_keep_their_words_before_text_gets_room(table):
    narrow = StackedTable([Column("trained on"), Column("why")], [["bq · loss=cosent", "a long reason " * 9]])
    assert "loss=cosent" in printed(narrow, 40)


def test_one_table_where_there_is_room(table):
    assert table.parts(400) == [list(range(8))]
    assert printed(table, 400).count("trained on") == 1


def test_the_title_stands_once_and_a_bold_label_is_bold():
    table = StackedTable(
        [Column("set"), *(Column("number" * 3, is_number=True) for _ in range(4))],
        [["bq", *"1234"], ["csts", *"1234"]],
        title="scores of [a]",
        bold=[1],
    )
    assert printed(table, 40).count("scores of [a]") == 1
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    console.print(table)
    assert "\x1b[1mcsts\x1b[0m" in console.file.getvalue()
    assert "\x1b[1mbq\x1b[0m" not in console.file.getvalue()


def test_without_rows_and_without_values():
    assert "set" in printed(StackedTable([Column("set"), Column("dev", is_number=True)], []), 40)
    assert "bq" in printed(StackedTable([Column("set")], [["bq"]]), 40)


@pytest.mark.parametrize(
    ("columns", "is_terminal", "width"), [("50", False, 50), ("", True, 80), ("", False, None)]
)
def test_who_looks_gets_a_table_and_a_pipe_none(monkeypatch, columns, is_terminal, width):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("sys.__stdout__", None)  # what is asked for the size of a terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    console = for_people()
    assert (console and console.width) == width
