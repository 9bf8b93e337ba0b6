"""`juzhen published`: which row of a sweep gives which published number."""

from pathlib import Path

from juzhen.cli.arguments import VerbParser
from juzhen.cli.table import write_page


def parser() -> VerbParser:
    parser = VerbParser(
        "published", "Every published figure: which row of a sweep gives one of its like, or why none does."
    )
    parser.add_argument("page", type=Path, nargs="?", help="Markdown file to write; default: the console")
    return parser


def run(page: Path | None = None) -> None:
    """Writes the page, or prints it."""
    from juzhen.report.figures import load_published
    from sweeps import published_page

    text = published_page.page(load_published(), published_page.all_jobs())
    if page is None:
        print(text, end="")
    write_page(page, text)
