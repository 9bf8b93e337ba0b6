"""`juzhen table`, `report` and `archive`: what finished runs say."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from juzhen.cli import options
from juzhen.core.atomic_write import write_text
from juzhen.core.file_guard import check_overwritable

if TYPE_CHECKING:  # it loads numpy, and --help should not wait for that
    from juzhen.report.matrix import Matrix


def table(
    folder: options.Runs,
    *,
    metric: options.Metric = None,
    split: options.Split = None,
    debug: options.Debug = False,
    folders: Annotated[bool, Option("--folders", help="also the folders of the runs of each row")] = False,
    markdown: options.Markdown = None,
    csv: Annotated[Path | None, Option(help="also write every split in full precision")] = None,
    picture: Annotated[
        Path | None,
        Option(
            help="also draw each column as dots with intervals (one seed: 95 %, several: ± the deviation), as "
            ".svg or .png"
        ),
    ] = None,
) -> None:
    """Which training helps on which set, as a table.

    Draws a table as wide as the terminal; in a pipe, or into a file, writes Markdown, a line per row. COLUMNS=120 in
    the environment draws a table there too. A result that cannot be read is named and left out. The best of each column
    is in bold; letters beside a score name the rows that it is significantly better than.

    juzhen table runs --split test --csv matrix.csv
    """
    if picture is not None:
        options.require_matplotlib(", or leave out --picture")
    check_overwritable(*filter(None, (markdown, csv, picture)))
    matrix = read_matrix(folder, metric=metric, split=split, debug=debug)
    from juzhen.report.insights import merged_tables, size_tables
    from juzhen.report.significance import beaten
    from juzhen.report.table import (
        caption,
        letters_line,
        show_tables,
        to_console,
        to_csv,
        to_markdown,
        undefined_lines,
    )
    from juzhen.report.terminal import for_people

    wins = beaten(matrix)
    text, further = to_markdown(matrix, wins, folders=folders), [*size_tables(matrix), *merged_tables(matrix)]
    text += "".join(f"\n{table.title} {table.note}\n\n{table.markdown()}\n" for table in further)
    if console := for_people():
        console.print(to_console(matrix, wins, folders=folders))
        text_lines = [caption(matrix), *filter(None, [letters_line(wins)]), *undefined_lines(matrix)]
        console.print("\n".join(text_lines), highlight=False)
        show_tables(further)
    else:
        print(text, end="")
    write_page(markdown, text)
    write_page(csv, to_csv(matrix))
    if picture is not None:
        from juzhen.report.picture import draw_dots

        draw_dots(matrix, picture)


def report(
    folder: options.Runs,
    *,
    metric: options.Metric = None,
    split: options.Split = None,
    debug: options.Debug = False,
    out: options.Out = None,
    reference: options.Reference = None,
    leaks: options.Leaks = None,
    title: options.Title = "Transfer matrix",
    language: Annotated[
        Literal["en", "zh"], Option(help="of report.md; the page has both, with a switch")
    ] = "en",
    worst: Annotated[
        int,
        Option(
            min=0,
            help="pairs of each set that the page quotes, furthest from their label; 0: no sentence of a set",
        ),
    ] = 5,
    into: Annotated[
        list[Path] | None,
        Option(
            metavar="PAGE…",
            help="also fill the markers <!-- result:matrix --> … of these pages; *.zh.md get Chinese words",
        ),
    ] = None,
) -> None:
    """Matrix, published numbers, leaks, costs and answers of runs, as files, whose paths are printed.

    juzhen report runs --out report --into README.md README.zh.md
    """
    from juzhen.report.collect import read_report

    pages = read_report(
        folder, metric=metric, split=split, reference=reference, leaks=leaks, with_debug=debug
    )
    from juzhen.report.files import fill_pages, write_report

    for path in write_report(
        pages, out or folder / "report", title=title, worst=worst, is_chinese=language == "zh"
    ):
        print(path)
    fill_pages(into or (), pages, tell=warn)


def archive(
    folder: options.Runs, target: Annotated[Path, Argument(help="folder that they are written to")]
) -> None:
    """Copies the results of runs, without weights, logs and folders of this machine.

    A result that cannot be read is named and left out.

    juzhen archive runs build/results/NAME/runs
    """
    from juzhen.report.collect import export

    print(f"{target}: {export(folder, target, report=warn)} results")


def write_page(path: Path | None, text: str) -> None:
    """Writes a text where one was asked for."""
    if path is not None:
        write_text(path, text)


def read_matrix(
    folder: Path, *, metric: str | None, split: str | None = None, debug: bool = False
) -> "Matrix":
    from juzhen.report.collect import collect

    results = collect(folder, report=warn, with_debug=debug)
    from juzhen.report.matrix import build_matrix  # loads pandas

    return build_matrix(results, metric=metric, split=split)


def warn(line: str) -> None:
    print(line, file=sys.stderr)
