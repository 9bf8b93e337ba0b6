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
    from juzhen.report.compare import beside_claims, compare
    from juzhen.report.comparison import comparison_markdown, to_console
    from juzhen.report.figures import load_published
    from juzhen.report.terminal import for_people

    matrix, published = read_matrix(folder, metric=metric), load_published()
    compared, claims = compare(matrix, published), beside_claims(matrix, published)
    text = comparison_markdown(compared, claims, metric=metric)
    if console := for_people():
        console.print(to_console(compared, claims, metric=metric), highlight=False)
    else:
        print(text, end="")
    write_page(markdown, text)
