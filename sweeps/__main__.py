"""Reads the results of many runs.

python -m sweeps table runs                          the transfer matrix on the console
python -m sweeps table runs --markdown matrix.md --csv matrix.csv
python -m sweeps compare runs                        published numbers beside ours
python -m sweeps published                           which row of a sweep gives which published number
python -m sweeps report runs                         all of it as files: page, heat map, Markdown, CSV, LaTeX
python -m sweeps dashboards runs                     the report on Weights & Biases, with panels
python -m sweeps export runs results/mine            the results alone, to publish or to archive
python -m sweeps status runs                         cells that are finished, running, failed, and the time left
python -m sweeps snapshots --clear                   memory that killed runs still hold: list it, give it back

table and compare draw tables as wide as the terminal; in a pipe, or into a file, they write Markdown, a line per row.
COLUMNS=120 in the environment draws a table there too.
"""

import argparse
import sys
from pathlib import Path

from juzhen.cli.arguments import Parser
from juzhen.cli.program import run_program
from juzhen.core.caches import caches_below, default_cache
from juzhen.core.errors import UserError, exit_status
from juzhen.core.whole import write_text


def main(arguments: list[str]) -> int:
    """Runs one command; the exit status: 0, or 2 for a mistake of the user."""
    options = _parser().parse_args(arguments)
    caches_below(default_cache())
    return exit_status(lambda: options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m sweeps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    table = commands.add_parser("table", help="row: trained on, column: evaluated on")
    table.add_argument("--csv", type=Path, metavar="FILE", help="also write every split in full precision")
    table.set_defaults(run=_table)
    compare = commands.add_parser(
        "compare", help="published numbers beside ours: matches, differs, no reference"
    )
    compare.set_defaults(run=_compare)
    report = commands.add_parser(
        "report", help="matrix, published numbers, leaks, costs and answers, as files"
    )
    report.set_defaults(run=_report)
    dashboards = commands.add_parser("dashboards", help="the report and its panels on Weights & Biases")
    dashboards.set_defaults(run=_dashboards)
    status = commands.add_parser("status", help="how far the sweeps of a folder are, and which cells failed")
    status.set_defaults(run=_status)
    published = commands.add_parser(
        "published",
        help="every published figure: which row of a sweep gives one of its like, or why none does",
    )
    published.add_argument("page", type=Path, nargs="?", help="Markdown file to write; default: the console")
    published.set_defaults(run=_published)
    export = commands.add_parser(
        "export", help="copies the results, without weights, logs and folders of this machine"
    )
    export.set_defaults(run=_export)
    snapshots = commands.add_parser(
        "snapshots", help="states of training in shared memory, and whose they are"
    )
    snapshots.add_argument("--clear", action="store_true", help="delete those that no training is writing to")
    snapshots.add_argument(
        "--memory", type=Path, metavar="FOLDER", help="hardware.snapshot_folder; default: /dev/shm"
    )
    snapshots.set_defaults(run=_snapshots)
    for command in (table, compare, report, dashboards, export, status):
        command.add_argument("folder", type=Path, help="folder that holds runs, at any depth")
    export.add_argument("target", type=Path, help="folder that they are written to")
    for command in (table, compare, report, dashboards):
        command.add_argument(
            "--metric", default="spearman", help="spearman (default), pearson, accuracy, f1, …"
        )
    for command in (table, report, dashboards):
        command.add_argument(
            "--split",
            choices=("dev", "test", "both"),
            help="columns of this split, or of both side by side; default: one of each set, test if it is as full",
        )
    for command in (table, compare):
        command.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    for command in (report, dashboards):
        _report_arguments(command)
    report.add_argument(
        "--into",
        type=Path,
        nargs="+",
        metavar="PAGE",
        default=[],
        help="also fill the markers <!-- result:matrix --> … of these pages; *.zh.md get Chinese words",
    )
    dashboards.add_argument("--project", default="juzhen", help="where the runs are; default: juzhen")
    dashboards.add_argument("--entity", metavar="NAME", help="team or user; default: the account's own")
    dashboards.add_argument("--group", metavar="NAME", help="default: the group of the runs")
    return parser


def _report_arguments(report: argparse.ArgumentParser) -> None:
    report.add_argument("--out", type=Path, metavar="FOLDER", help="where to write; default: <folder>/report")
    report.add_argument(
        "--reference", type=Path, metavar="FOLDER", help="published numbers as CSV; default: the shipped ones"
    )
    report.add_argument(
        "--leaks", type=Path, metavar="FILE", help="audit of leaks; default: results/leaks/pairs.json"
    )
    report.add_argument("--title", default="Transfer matrix", help="of the page")


def _table(options: argparse.Namespace) -> None:
    from juzhen.report.table import caption, to_console, to_csv, to_markdown
    from juzhen.report.terminal import for_people

    matrix = _read_matrix(options, split=options.split)
    if console := for_people():
        console.print(to_console(matrix))
        console.print(caption(matrix), highlight=False)
    else:
        print(to_markdown(matrix), end="")
    _write(options.markdown, to_markdown(matrix))
    _write(options.csv, to_csv(matrix))


def _compare(options: argparse.Namespace) -> None:
    from juzhen.report.claims import beside_claims, claims_markdown
    from juzhen.report.compare import compare, comparison_markdown
    from juzhen.report.figures import load_published
    from juzhen.report.terminal import for_people

    matrix, published = _read_matrix(options), load_published()
    compared, claims = compare(matrix, published), beside_claims(matrix, published)
    text = comparison_markdown(compared, metric=options.metric) + claims_markdown(claims)
    if console := for_people():
        from juzhen.report.compare_console import to_console

        console.print(to_console(compared, claims, metric=options.metric), highlight=False)
    else:
        print(text, end="")
    _write(options.markdown, text)


def _published(options: argparse.Namespace) -> None:
    from juzhen.report.figures import load_published
    from sweeps.producers import all_jobs
    from sweeps.published_page import page

    text = page(load_published(), all_jobs())
    if options.page is None:
        print(text, end="")
    _write(options.page, text)


def _report(options: argparse.Namespace) -> None:
    from juzhen.report.command import run

    run(options)


def _dashboards(options: argparse.Namespace) -> None:
    from sweeps.dashboards import run

    run(options)


def _export(options: argparse.Namespace) -> None:
    from juzhen.report.export import export

    count = export(options.folder, options.target, report=lambda line: print(line, file=sys.stderr))
    print(f"{options.target}: {count} results")


def _status(options: argparse.Namespace) -> None:
    from juzhen.report.terminal import terminal
    from sweeps.status import read_status, to_console

    terminal().print(to_console(read_status(options.folder)), highlight=False)


def _snapshots(options: argparse.Namespace) -> None:
    from sweeps.snapshots import run

    run(options)


def _read_matrix(options: argparse.Namespace, *, split: str | None = None):
    from juzhen.report.collect import collect
    from juzhen.report.matrix import build_matrix

    results = collect(options.folder, report=lambda line: print(line, file=sys.stderr))
    return build_matrix(results, metric=options.metric, split=split)


def _write(path: Path | None, text: str) -> None:
    if path is None:
        return
    try:
        write_text(path, text)
    except OSError as error:
        raise UserError(f"{path}: cannot write there ({error.strerror})") from error


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))
