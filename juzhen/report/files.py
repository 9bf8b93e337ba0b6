"""Files of a report: Markdown, CSV, LaTeX and pictures, and its tables in other pages."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError, install_line
from juzhen.core.file_guard import check_overwritable
from juzhen.core.lazy_names import offered, offers
from juzhen.core.safe_open import csv_text, read_text
from juzhen.core.text import in_markdown
from juzhen.report.build import Report
from juzhen.report.collect import tell
from juzhen.report.insights import Transfer
from juzhen.report.matrix import BELOW, LEAKY, Matrix, Row
from juzhen.report.profiles import clustered
from juzhen.report.table import (
    LEGEND,
    MISSING,
    ReportTable,
    caption,
    chinese_caption,
    heading,
    marked_text,
    matrix_table,
    mean_and_deviation,
    to_csv,
    undefined,
)
from juzhen.report.translation import in_chinese, table_in_chinese

KEYS = (
    "matrix", "answers", "rows", "sizes", "averages", "helpers", "forgetting", "parts", "effects", "ranks", "predicted",
    "targets", "pairs", "greedy", "fidelity", "published", "unlike", "claims", "significance", "leaks", "unknown_texts",
    "costs",
)  # fmt: skip
"""Words for <!-- result:… -->. `published` means all sources."""

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "→": r"$\rightarrow$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "—": "---",
    LEAKY: r"$^{\dagger}$",
    BELOW: r"$^{\vee}$",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def write_report(
    report: Report, folder: Path, *, title: str, worst: int = 0, is_chinese: bool = False
) -> list[Path]:
    """Write all files of a report. Without matplotlib, pictures are left out with a notice.

    Args:
        report: The report.
        folder: Folder for the files.
        title: Title of the page.
        worst: Worst pairs of each set to quote on the page.
        is_chinese: Write report.md in Chinese. The page has both languages.

    Returns:
        The paths.
    """
    texts = {
        **{
            name: offered("report_files", name)(report, title=title, worst=worst)
            for name in offers("report_files")
        },
        "report.md": markdown(report, is_chinese=is_chinese),
        "matrix.csv": to_csv(report.matrix),
        "matrix.tex": latex(report.matrix),
        "differences.csv": differences_csv(report.differences),
        "published.csv": published_csv(report.tables),
    }
    paths = [folder / name for name in texts]
    check_overwritable(*paths, folder / "matrix.svg", folder / "matrix.png")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    if find_spec("matplotlib") is None:
        tell(f"the heat map needs matplotlib. Type: {install_line('report')}")
        return paths
    from juzhen.report.picture import draw_heat_map

    matrix = report.matrix
    rows, columns = clustered(matrix, matrix.columns)
    gains = Transfer(matrix, columns).gains
    return [*paths, *draw_heat_map(matrix, rows, columns, gains, folder)]


def markdown(report: Report, *, is_chinese: bool = False) -> str:
    say = in_chinese if is_chinese else str
    about = [f"# {say('Transfer matrix')}", say(f"From {report.num_results} results.")]
    told = [sentences[is_chinese] for sentences in report.sentences]
    about[1:1] = [*told, *([f"```bash\n{report.command}\n```"] if report.command else [])]
    parts = [*about, matrix_markdown(report.matrix, is_chinese=is_chinese)]
    for table in report.tables:
        if table.body or table.empty:
            shown = table_in_chinese(table) if is_chinese else table
            parts += [f"## {in_markdown(shown.title)}", in_markdown(shown.note), shown.markdown()]
    return "\n\n".join(filter(None, parts)) + "\n"


def matrix_markdown(matrix: Matrix, *, is_chinese: bool = False) -> str:
    table, say = matrix_table(matrix, marked_text), in_chinese if is_chinese else str
    lines = [f"{MISSING} {column}: {say(why)} ({', '.join(rows)})" for column, why, rows in undefined(matrix)]
    about = chinese_caption(matrix) if is_chinese else f"{caption(matrix)} {LEGEND}"
    shown = table_in_chinese(table) if is_chinese else table
    return "\n\n".join([about, shown.markdown(), *map(in_markdown, lines)])


def differences_csv(differences: pd.DataFrame) -> str:
    """Format every pair of rows in every common column as CSV."""
    formats = {"points": "{:.2f}", "p": "{:.3g}", "p_holm": "{:.3g}"}
    texts = {name: differences[name].map(form.format, na_action="ignore") for name, form in formats.items()}
    return differences.assign(**texts).to_csv(index=False, lineterminator="\n")


def published_csv(tables: Sequence[ReportTable]) -> str:
    """Format the tables of published numbers as one CSV. Each line begins with the title of its table."""
    published = [table for table in tables if table.key.startswith("published-")]
    head = ("table", *(published[0].head if published else ()))
    return csv_text([head, *((table.title, *line) for table in published for line in table.body)])


def latex(matrix: Matrix) -> str:
    """Format a table for LaTeX. It needs \\usepackage{booktabs} only."""
    head = ["trained on", *(escaped(heading(column, matrix)) for column in matrix.columns)]
    body = [
        [escaped(row.label), *(_latex_cell(row, column) for column in matrix.columns)] for row in matrix.rows
    ]
    table = pd.DataFrame(body, columns=head).to_latex(
        index=False, escape=False, column_format="l" + "r" * len(matrix.columns)
    )
    return (
        f"% \\usepackage{{booktabs}}\n% {caption(matrix)}\n"
        f"% bold: best of the column, italic: trained on it, dagger: leaky, vee: below the lexical baseline\n{table}"
    )


def _latex_cell(row: Row, column: str) -> str:
    cell = row.cells.get(column)
    if cell is None:
        return "---"
    text = escaped(mean_and_deviation(cell))
    text = f"\\textit{{{text}}}" if cell.in_domain else text
    text = f"\\textbf{{{text}}}" if cell.is_best else text
    return text + escaped(cell.signs)


def escaped(text: str) -> str:
    """Text for LaTeX.

    >>> escaped("a_b → c & 5 %")
    'a\\\\_b $\\\\rightarrow$ c \\\\& 5 \\\\%'
    """
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def fill_pages(pages: Sequence[Path], report: Report, *, tell: Callable[[str], None]) -> None:
    """Replace the text between the markers of some pages.

    Args:
        pages: Markdown files. One without markers is named and not changed.
        report: The report.
        tell: Called with a line about a page without markers.
    """
    for page in pages:
        is_chinese = page.suffixes[-2:-1] == [".zh"]
        try:
            text = before = read_text(page)
        except UnicodeDecodeError as error:
            raise UserError(f"--into {page}: not UTF-8 ({error.reason}). Save it as UTF-8") from error
        keys = [key for key in KEYS if f"<!-- result:{key} -->" in before]
        for key in keys:
            start, end = f"<!-- result:{key} -->", f"<!-- /result:{key} -->"
            head, _, tail = text.partition(start)
            if end not in tail:
                raise UserError(f"--into {page}: {start} has no end. Write {end} further down")
            text = f"{head}{start}\n{fragment(report, key, is_chinese=is_chinese)}\n{end}{tail.partition(end)[2]}"
        if not keys:
            tell(f"{page}: no marker such as <!-- result:matrix --> … <!-- /result:matrix -->; left as it is")
        elif text != before:
            write_text(page, text, in_own_folder=True)  # between markers that ask for it


def fragment(report: Report, key: str, *, is_chinese: bool) -> str:
    """Format one table as Markdown. `published` means the tables of all sources."""
    if key == "matrix":
        return matrix_markdown(report.matrix, is_chinese=is_chinese)
    tables = [table for table in report.tables if table.key == key or table.key.startswith(f"{key}-")]
    shown = map(table_in_chinese, tables) if is_chinese else tables
    return "\n\n".join(f"{table.note}\n\n{table.markdown()}" for table in shown)
