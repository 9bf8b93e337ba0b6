"""`juzhen report`: all that runs say, as files."""

from collections.abc import Sequence
from pathlib import Path

from juzhen.cli.arguments import VerbParser
from juzhen.cli.table import add_runs, add_split, tell


def parser() -> VerbParser:
    parser = VerbParser("report", "Matrix, published numbers, leaks, costs and answers of runs, as files.")
    add_runs(parser)
    add_split(parser)
    add_report(parser)
    parser.add_argument(
        "--into",
        type=Path,
        nargs="+",
        metavar="PAGE",
        help="also fill the markers <!-- result:matrix --> … of these pages; *.zh.md get Chinese words",
    )
    return parser


def add_report(parser: VerbParser) -> None:
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write; default: <folder>/report")
    parser.add_argument(
        "--reference", type=Path, metavar="FOLDER", help="published numbers as CSV; default: the shipped ones"
    )
    parser.add_argument(
        "--leaks", type=Path, metavar="FILE", help="audit of leaks; default: results/leaks/pairs.json"
    )
    parser.add_argument("--title", help="of the page (default: Transfer matrix)")


def run(
    folder: Path,
    *,
    metric: str = "spearman",
    split: str | None = None,
    out: Path | None = None,
    reference: Path | None = None,
    leaks: Path | None = None,
    title: str = "Transfer matrix",
    into: Sequence[Path] = (),
) -> None:
    """Writes the report of all runs below `folder` and prints the paths of its files."""
    from juzhen.report.collect import read_report

    report = read_report(folder, metric=metric, split=split, reference=reference, leaks=leaks)
    from juzhen.report.files import fill_pages, write_report

    for path in write_report(report, out or folder / "report", title=title):
        print(path)
    fill_pages(into, report, tell=tell)
