"""`juzhen table`: the transfer matrix on the console."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.arguments import VerbParser
from juzhen.cli.calibrate import require_matplotlib
from juzhen.core.errors import UserError
from juzhen.core.owned import require_ours
from juzhen.core.whole import write_text, writing_to

if TYPE_CHECKING:  # it loads numpy, and --help should not wait for that
    from juzhen.report.matrix import Matrix

DRAWN = (
    "Draws a table as wide as the terminal; in a pipe, or into a file, writes Markdown, a line per row. COLUMNS=120 in "
    "the environment draws a table there too."
)


def parser() -> VerbParser:
    parser = VerbParser("table", f"Which training helps on which set, as a table. {DRAWN}")
    add_runs(parser)
    add_split(parser)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write every split in full precision")
    about = "also draw each column as dots with intervals (one seed: 95 %%, several: ± the deviation)"
    parser.add_argument("--picture", type=Path, metavar="FILE", help=f"{about}, .svg or .png")
    return parser


def add_runs(parser: VerbParser) -> None:
    parser.add_argument("folder", type=Path, help="folder that holds runs, at any depth")
    parser.add_argument("--metric", help="spearman (default), pearson, accuracy, f1, …")


def add_split(parser: VerbParser) -> None:
    parser.add_argument(
        "--split",
        choices=("dev", "test", "both"),
        help="columns of this split, or of both side by side; default: one of each set, test if it is as full",
    )


def run(
    folder: Path,
    *,
    metric: str = "spearman",
    split: str | None = None,
    markdown: Path | None = None,
    csv: Path | None = None,
    picture: Path | None = None,
) -> None:
    """Prints the matrix of all runs below `folder`; a result that cannot be read is named and left out."""
    if picture is not None:
        _require_picture(picture)
    require_ours(*filter(None, (markdown, csv, picture)))
    matrix = read_matrix(folder, metric=metric, split=split)
    from juzhen.report.table import caption, to_console, to_csv, to_markdown, undefined_lines
    from juzhen.report.terminal import for_people

    if console := for_people():
        console.print(to_console(matrix))
        console.print("\n".join([caption(matrix), *undefined_lines(matrix)]), highlight=False)
    else:
        print(to_markdown(matrix), end="")
    write_page(markdown, to_markdown(matrix))
    write_page(csv, to_csv(matrix))
    if picture is not None:
        from juzhen.report.picture import draw_dots

        with writing_to(picture):
            draw_dots(matrix, picture)


def _require_picture(path: Path) -> None:
    """Raises UserError for a picture that cannot be drawn, before any run is read."""
    if path.suffix not in (".svg", ".png"):
        raise UserError(f"--picture {path}: expected a file that ends in .svg or .png")
    require_matplotlib(", or leave out --picture")


def read_matrix(folder: Path, *, metric: str, split: str | None = None) -> "Matrix":
    from juzhen.report.collect import collect

    results = collect(folder, report=tell)
    from juzhen.report.matrix import build_matrix  # loads pandas

    return build_matrix(results, metric=metric, split=split)


def write_page(path: Path | None, text: str) -> None:
    """Writes a text where one was asked for. Raises UserError for a place that cannot be written to."""
    if path is not None:
        with writing_to(path):
            write_text(path, text)


def tell(line: str) -> None:
    """Says what is left out, beside what is printed."""
    print(line, file=sys.stderr)
