"""`juzhen compare`: published numbers beside ours."""

from pathlib import Path

from juzhen.cli.arguments import VerbParser
from juzhen.cli.table import DRAWN, add_runs, read_matrix, write_page


def parser() -> VerbParser:
    parser = VerbParser("compare", f"Published numbers beside those of the runs. {DRAWN}")
    add_runs(parser)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    return parser


def run(folder: Path, *, metric: str = "spearman", markdown: Path | None = None) -> None:
    """Prints which published numbers the runs below `folder` match, which they miss, and which they do not have."""
    matrix = read_matrix(folder, metric=metric)
    from juzhen.report.compare import comparison_tables
    from juzhen.report.figures import load_published
    from juzhen.report.terminal import for_people

    tables = comparison_tables(matrix, load_published())
    text = "".join(f"{table.title}. {table.note}\n\n{table.markdown()}\n\n" for table in tables)
    if console := for_people():
        for table in tables:
            console.print(f"{table.title}. {table.note}", table.console(), highlight=False, sep="\n")
    else:
        print(text, end="")
    write_page(markdown, text)
