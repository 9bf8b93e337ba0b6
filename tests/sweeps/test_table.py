import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from juzhen.core.errors import UserError
from juzhen.core.progress import console_table, for_people
from juzhen.report.matrix import build_matrix
from juzhen.report.table import to_console, to_csv, to_markdown

GOLDEN = Path(__file__).parent / "golden_matrix.md"


def test_markdown_is_the_golden_table(small_matrix_results):
    markdown = to_markdown(build_matrix(small_matrix_results, metric="spearman"))
    assert markdown == GOLDEN.read_text(encoding="utf-8")


def test_console_shows_every_row_and_column(small_matrix_results):
    console = Console(file=io.StringIO(), width=100)
    console.print(to_console(build_matrix(small_matrix_results, metric="spearman")))
    text = console.file.getvalue()
    for word in ("lexical", "lcqmc → csts", "[40.0, 44.0]", "± 1.4", "80.5", "(test)"):
        assert word in text


def test_the_mean_of_chosen_sets_is_that_of_each_seed(make_result):
    seeds = [
        make_result(
            ["bq"],
            {"dev/bq/spearman": bq, "dev/csts/spearman": csts, "dev/lcqmc/spearman": 0.9},
            seed=seed,
        )
        for seed, bq, csts in ((1, 0.5, 0.7), (2, 0.7, 0.5), (3, 0.9, None))
    ]
    other = make_result(
        ["csts"], {"dev/bq/spearman": 0.5, "dev/csts/spearman": 0.8, "dev/faq/recall_at_1": 0.4}
    )

    def means(*sets: str) -> list[str]:
        matrix = build_matrix([*seeds, other], metric=None, sets=sets)
        lines = to_markdown(matrix, mean=True).splitlines()
        assert sorted(matrix.columns) == sorted(f"dev/{name}" for name in sets)
        return [line.split(" | ")[-1].strip("| ") for line in lines if line.startswith("| ")][2:]

    assert means("bq", "csts") == ["60.0 ± 0.0", "65.0"]  # seed 3 lacks csts
    assert means("bq", "faq") == ["—", "—"]  # Spearman and R@1 have no mean
    assert means("lcqmc", "bq") == ["80.0 ± 10.0", "—"]
    with pytest.raises(UserError, match="nope"):
        build_matrix(seeds, metric=None, sets=["bq", "nope"])


def test_an_interval_is_not_broken_where_names_can_be(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    head = ["evaluated on", "metric", "before", "dev", "95 %", "test", "95 %", "accuracy"]
    row = ["demo_retrieval", "nDCG@10", "44.9", "49.5", "47.7–51.4", "48.8", "47.2–50.5", "–"]
    console = Console(file=io.StringIO(), width=80)
    console.print(console_table(head, [row], numbers=head[2:]))
    text = console.file.getvalue()
    assert all(cell in text for cell in row[1:])
    assert max(map(len, text.splitlines())) <= 80
    console.print(console_table(head, [[*row[:4], 12 * "9", row[5], 12 * "9", "–"]], numbers=head[2:]))
    assert console.file.getvalue().count("9") == 24 + 2 * text.count("9")  # nothing is cut off


def test_labels_with_brackets_are_shown_as_they_are(make_result):
    results = [
        make_result(["a"], {"dev/bq/spearman": 0.5}, optimizer={"betas": betas}) for betas in ([0.9], [0])
    ]
    console = Console(file=io.StringIO(), width=100)
    console.print(to_console(build_matrix(results, metric="spearman")))
    assert "betas [0.9]" in console.file.getvalue()


def test_csv_has_both_splits_in_full_precision(small_matrix_results):
    lines = list(csv.DictReader(io.StringIO(to_csv(build_matrix(small_matrix_results, metric="spearman")))))
    cells = {(line["row"], line["split"], line["dataset"]): line for line in lines}
    assert cells["lcqmc → csts", "dev", "csts"]["mean"] == "0.8049"
    assert cells["lexical", "dev", "lcqmc"]["low"] == "0.4"
    assert cells["lcqmc", "test", "lcqmc"]["num_seeds"] == "2"
    assert cells["untrained", "test", "lcqmc"]["std"] == ""
    assert len(lines) == 4 * 3


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
