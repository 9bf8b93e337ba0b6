"""`juzhen table`, `report` and `archive`: tables and reports of finished runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from juzhen.cli import options
from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable
from juzhen.core.progress import tell
from juzhen.core.text import counted

if TYPE_CHECKING:  # it loads numpy, and --help should not wait for that
    from juzhen.report.matrix import Matrix


def table(
    folder: options.Runs,
    *,
    sets: Annotated[
        list[str] | None,
        Option(metavar="SET…", help="sets of the columns, with their mean", show_default="all sets"),
    ] = None,
    metric: options.Metric = None,
    split: options.Split = None,
    debug: options.Debug = False,
    folders: Annotated[bool, Option("--folders", help="show the run folders of each row")] = False,
    markdown: options.Markdown = None,
    csv: Annotated[Path | None, Option(help="write every split in full precision, too")] = None,
    picture: Annotated[
        Path | None,
        Option(
            help="draw each column as dots with intervals (one seed: 95 %, several: ± deviation), as .svg or .png"
        ),
    ] = None,
) -> None:
    """Shows the transfer matrix: training sets in rows, evaluation sets in columns.

    In a terminal the table is as wide as the terminal. In a pipe or a file it is Markdown, one line per row, unless
    COLUMNS=120 is set in the environment. Unreadable results are named and skipped. The best score of each column is
    bold. Letters next to a score name the rows that it beats significantly.

    juzhen table runs --split test --csv matrix.csv
    juzhen table runs --sets afqmc lcqmc bq
    """
    if picture is not None:
        if picture.suffix not in (".svg", ".png"):
            raise UserError(f"--picture {picture}: expected .svg or .png. Give such a name")
        options.require_matplotlib(", or leave out --picture")
    check_overwritable(*filter(None, (markdown, csv, picture)))
    matrix = read_matrix(folder, metric=metric, split=split, debug=debug, sets=sets)
    from juzhen.core.progress import for_people
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

    wins, mean = beaten(matrix), bool(sets) and split != "both"
    text, further = (
        to_markdown(matrix, wins, folders=folders, mean=mean),
        [*size_tables(matrix), *merged_tables(matrix)],
    )
    text += "".join(f"\n{table.title} {table.note}\n\n{table.markdown()}\n" for table in further)
    if console := for_people():
        console.print(to_console(matrix, wins, folders=folders, mean=mean))
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
    language: Annotated[Literal["en", "zh"], Option(help="language of report.md (the page has both)")] = "en",
    worst: Annotated[
        int,
        Option(
            min=0,
            help="worst pairs of each set to quote on the page (0 quotes no sentence)",
        ),
    ] = 5,
    into: Annotated[
        list[Path] | None,
        Option(
            metavar="PAGE…",
            help="fill the markers <!-- result:matrix --> … in these pages, in Chinese for *.zh.md",
        ),
    ] = None,
) -> None:
    """Writes a report of runs: matrix, published numbers, leaks, costs and findings. Prints the paths of its files.

    juzhen report runs --out report --into README.md README.zh.md
    """
    from juzhen.report.collect import read_report

    pages = read_report(
        folder, metric=metric, split=split, reference=reference, leaks=leaks, with_debug=debug
    )
    from juzhen.report.build import filled_pages, write_report

    filled = filled_pages(into or (), pages, tell=tell)
    for path in write_report(
        pages, out or folder / "report", title=title, worst=worst, is_chinese=language == "zh"
    ):
        print(path)
    for page, text in filled.items():
        write_text(page, text, in_own_folder=True)  # between markers that ask for it


def archive(folder: options.Runs, target: Annotated[Path, Argument(help="folder for the copies")]) -> None:
    """Copies the results of runs, without weights, logs and folders of this machine.

    Unreadable results are named and skipped.

    juzhen archive runs build/results/NAME/runs
    """
    from juzhen.report.collect import export

    print(f"{target}: {counted(export(folder, target, report=tell), 'results')}")


def write_page(path: Path | None, text: str) -> None:
    """Write a text to a file that a verb was given.

    Args:
        path: The file. None: nothing is written.
        text: Its content.
    """
    if path is not None:
        write_text(path, text)


def read_matrix(
    folder: Path,
    *,
    metric: str | None,
    split: str | None = None,
    debug: bool = False,
    sets: list[str] | None = None,
) -> "Matrix":
    """Read the transfer matrix of the runs of a folder. Unreadable results are reported and skipped.

    Args:
        folder: Folder with runs, at any depth.
        metric: Metric of all columns. None: the main metric of each set.
        split: dev, test or both. None: one per set.
        debug: Include runs on a few rows.
        sets: Sets of the columns. None: all sets.

    Returns:
        The matrix.
    """
    from juzhen.report.collect import collect

    results = collect(folder, report=tell, with_debug=debug)
    from juzhen.report.matrix import build_matrix  # loads pandas

    return build_matrix(results, metric=metric, split=split, sets=sets)
