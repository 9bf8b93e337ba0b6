"""The contents of a report, computed from results, and its files: Markdown, CSV, LaTeX and pictures."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError, install_line
from juzhen.core.file_guard import check_overwritable
from juzhen.core.lazy_names import offered, offers
from juzhen.core.progress import tell
from juzhen.core.result import Result
from juzhen.core.safe_open import csv_text, read_text
from juzhen.core.text import in_markdown
from juzhen.metrics.comparison import points
from juzhen.metrics.correlation import Gap
from juzhen.metrics.matrix_statistics import leave_one_out, low_rank, two_way
from juzhen.report.answers import answers
from juzhen.report.compare import Reference, comparison_tables
from juzhen.report.insights import (
    Transfer,
    cost_table,
    leak_table,
    merged_tables,
    row_costs,
    rows_table,
    single_set_rows,
    size_tables,
    unknown_table,
)
from juzhen.report.matrix import BELOW, LEAKY, Matrix, Row, build_matrix
from juzhen.report.significance import (
    both_ways,
    clustered,
    complement_tables,
    contrast,
    differences,
    fidelity_table,
    shape_fidelity,
    significance_table,
)
from juzhen.report.table import (
    LEGEND,
    MISSING,
    Phrase,
    ReportTable,
    caption,
    chinese_caption,
    heading,
    in_chinese,
    marked_text,
    matrix_table,
    mean_and_deviation,
    signed,
    table_in_chinese,
    to_csv,
    undefined,
)
from juzhen.report.training import Audit

LEAST_MEASURED = 4
"""Cells that a row and a column need for predictions."""

ROUNDS, MOST_LEFT_OUT = 50, 60
"""Rounds of a prediction, and cells that its error is measured on, so that a report stays quick."""


def effect_tables(matrix: Matrix, transfer: Transfer, tested: pd.DataFrame) -> list[ReportTable]:
    """Make the tables of this module that have a line.

    Args:
        matrix: The transfer matrix.
        transfer: Its gains.
        tested: Tested differences of rows.

    Returns:
        At most as many tables as this module has.
    """
    tables = [_forgetting_table(matrix, transfer), *_part_tables(matrix, transfer.columns)]
    return [table for table in (*tables, _rank_table(matrix, transfer.columns, tested)) if table.body]


def _part_tables(matrix: Matrix, columns: Sequence[str]) -> list[ReportTable]:
    lines = [
        (row.label, column, seed, 100 * value)
        for row in matrix.rows
        if row.is_trained
        for column in columns
        if column in row.cells and not row.cells[column].flatters
        for seed, value in row.cells[column].values.items()
    ]
    found = two_way(pd.DataFrame(lines, columns=["row", "column", "seed", "score"]))
    if found is None:
        return []
    note = (
        "Score = mean + row + column + interaction + seed: standard deviation of each part in points, with 95 % "
        "intervals, over trained rows without leaks from other sets. Seed: of one training. The interaction is what "
        "makes a training help one set and not another."
    )
    body = [
        (part.name, f"{part.deviation:.1f}", f"[{part.low:.1f}, {part.high:.1f}]") for part in found.parts
    ]
    parts = ReportTable("parts", "What moves a score?", note, ("part", "deviation", "95 % interval"), body)
    note = "Mean of a row over the sets less that of the mean row, in points. The interval holds for further sets."
    effects = [
        (str(label), signed(effect), f"[{low:+.1f}, {high:+.1f}]")
        for label, effect, low, high in found.rows.sort_values("effect", ascending=False).itertuples()
    ]
    head = ("trained on", "effect", "95 % interval")
    return [parts, ReportTable("effects", "Which training helps on average?", note, head, effects)]


def _rank_table(matrix: Matrix, columns: Sequence[str], tested: pd.DataFrame) -> ReportTable:
    """Ranks with simultaneous intervals: rows that are certainly better or worse bound them (Mogstad et al. 2024)."""
    verdicts = both_ways(tested)
    ranks: dict[tuple[str, str], str] = {}
    for column in columns:
        rows = [row for row in matrix.rows if column in row.cells and not row.cells[column].flatters]
        rows.sort(key=lambda row: -row.cells[column].mean)
        labels = {row.label for row in rows}
        here = verdicts[
            (verdicts["column"] == column) & verdicts["first"].isin(labels) & verdicts["second"].isin(labels)
        ]
        counts = pd.crosstab(here["first"], here["verdict"]).reindex(
            columns=["higher", "lower"], fill_value=0
        )
        for place, row in enumerate(rows if len(counts) else [], start=1):
            higher, lower = counts.loc[row.label]
            ranks[row.label, column] = f"{place} [{1 + lower}, {len(rows) - higher}]"
    note = (
        "Place of each row in a set, with an interval that holds for all places of this report together at 95 %: from "
        "the differences that Holm's correction leaves certain. Cells with leaks from other sets are left out."
    )
    body = [
        (row.label, *(ranks.get((row.label, column), MISSING) for column in columns))
        for row in matrix.rows
        if any((row.label, column) in ranks for column in columns)
    ]
    return ReportTable("ranks", "Which place has a row?", note, ("trained on", *map(heading, columns)), body)


def predict_cells(matrix: Matrix, columns: Sequence[str]) -> tuple[dict[tuple[str, str], float], float]:
    """Predict scores of trained rows on sets that they were neither scored nor trained on.

    Args:
        matrix: The transfer matrix.
        columns: Its columns.

    Returns:
        (label, column) → prediction in points, and the error of measured cells that are left out. Rows and columns with
        fewer than LEAST_MEASURED cells are absent.
    """
    trained = [row for row in matrix.rows if row.is_trained]
    flatters = matrix.frame("flatters", columns, trained).eq(True)
    measured = (100 * matrix.frame("mean", columns, trained).astype(float)).mask(flatters)
    measured = measured.loc[:, measured.count() >= LEAST_MEASURED]
    measured = measured[measured.count(axis="columns") >= LEAST_MEASURED]
    missing = {
        (row.label, column)
        for row in trained
        if row.label in measured.index
        for column in measured.columns
        if not {column, column.split("/")[1]} & {*row.cells, *row.reasons, *row.sets}
    }
    if not missing:
        return {}, math.nan
    fill = partial(low_rank, rounds=ROUNDS)
    filled, error = fill(measured), leave_one_out(measured, fill, most=MOST_LEFT_OUT)
    return {place: float(filled.loc[place]) for place in sorted(missing)}, error


def _predicted_table(predicted: Mapping[tuple[str, str], float], error: float) -> ReportTable:
    note = (
        "Filled by the effects of rows and columns and two components, from trained rows without leaks from other "
        "sets. Error: of measured cells that were left out, root of the mean square. No other table and no decision "
        "uses them."
    )
    body = [
        (label, heading(column), f"≈ {value:.1f}", f"± {error:.1f}")
        for (label, column), value in predicted.items()
    ]
    head = ("trained on", "set", "predicted", "error")
    return ReportTable("predicted", "Predicted, not measured", note, head, body)


def _forgetting_table(matrix: Matrix, transfer: Transfer) -> ReportTable:
    note = (
        "Change against the untrained weights in points, with 95 % intervals: mean over the sets that a row was "
        "trained on, and over all others that have no leak. Forgotten most: the other set that loses most."
    )
    body = []
    for row in matrix.rows:
        known = [key for key in transfer.columns if key in row.cells and (row.label, key) in transfer.before]
        own = [column for column in known if row.cells[column].in_domain]
        others = [column for column in known if transfer.zero_shot.loc[row.label, column]]
        changes = [mean_change(matrix, transfer, row, group) for group in (own, others)]
        if any(changes):
            texts = [MISSING if change is None else points(change) for change in changes]
            lost = transfer.gains.loc[row.label, others]
            worst = (
                f"{heading(lost.idxmin())} {signed(lost.min())}" if len(lost) and lost.min() < 0 else MISSING
            )
            body.append((row.label, *texts, worst))
    head = ("trained on", "gain on own sets", "change of others", "forgotten most")
    return ReportTable("forgetting", "What is gained, and forgotten?", note, head, body)


def mean_change(matrix: Matrix, transfer: Transfer, row: Row, columns: Sequence[str]) -> Gap | None:
    """Mean change of a row over columns, against the weights that it started from.

    Rows of different sets are independent. A seed moves all columns together, so its part comes from the means of the
    seeds. Of a single seed it is the mean error of the columns, as if they moved in step.

    Args:
        matrix: The transfer matrix.
        transfer: Its gains.
        row: A trained row.
        columns: Columns that both have.

    Returns:
        None without columns, or if one has no test.
    """
    rows = {row.label: row for row in matrix.rows}
    found = [
        contrast(matrix, column, row.cells[column], rows[transfer.before[row.label, column]].cells[column])
        for column in columns
    ]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    count = len(known)
    variance = sum(each.row_error**2 for each in known) / count**2
    seeds = set.intersection(*({*row.cells[column].values} for column in columns))
    if len(seeds) > 1:
        means = [statistics.fmean(row.cells[column].values[seed] for column in columns) for seed in seeds]
        of_seeds, freedom = statistics.variance(means) / len(means), len(means) - 1.0
    else:
        of_seeds = statistics.fmean(each.seed_error or 0.0 for each in known) ** 2
        freedom = min(noise[1] if (noise := row.cells[column].seed_noise) else math.inf for column in columns)
    total = variance + of_seeds
    value = statistics.fmean(each.gap.value for each in known)
    return Gap(value, math.sqrt(total), total**2 * freedom / of_seeds**2 if of_seeds else math.inf)


@dataclass(frozen=True)
class Report:
    """Contents of a report.

    Attributes:
        matrix: The transfer matrix.
        costs: Cost of each row, from `row_costs`.
        fidelity: Agreement with published numbers, from `shape_fidelity`.
        differences: Tested differences of rows, from `significance.differences`.
        tables: All other tables, in the order of the page.
        num_results: Number of result files.
        sentences: What the report answers first, in English and Chinese.
        command: Command line of the next run, or "".
        predicted: Row label and column → predicted score in points, of cells that were not measured.
        prediction_error: Their leave-one-out error.
    """

    matrix: Matrix
    costs: pd.DataFrame
    fidelity: pd.DataFrame
    differences: pd.DataFrame
    tables: list[ReportTable]
    num_results: int
    sentences: Sequence[Phrase] = ()
    command: str = ""
    predicted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    prediction_error: float = math.nan

    def table(self, key: str) -> ReportTable:
        """Return the table of a key.

        Args:
            key: Key of one of `tables`, such as "leaks".

        Returns:
            The table.
        """
        return next(table for table in self.tables if table.key == key)


def build_report(
    results: Sequence[Result],
    *,
    metric: str | None,
    reference: Reference,
    audit: Audit | None,
    split: str | None = None,
    runs: Path | None = None,
) -> Report:
    """Compute a report.

    Args:
        results: Results of runs.
        metric: Metric of the matrix. None takes the main metric of each set.
        reference: Published numbers.
        audit: Leak audit.
        split: Split of the columns, as for `build_matrix`.
        runs: Folder of the results, in which the next run is put.

    Returns:
        The report.

    Raises:
        UserError: No result has the metric or the split.
    """
    matrix = build_matrix(results, metric=metric, split=split, audit=audit)
    # Sets, each once, not averages of other columns: those whose rows a result has read.
    read = {key for result in results for key in result.data}
    scored = [column for column in matrix.counted if any(column in row.cells for row in matrix.rows)]
    columns = [column for column in scored if not read or column in read]
    transfer, tested = Transfer(matrix, columns), differences(matrix)
    fidelity, costs = shape_fidelity(matrix, reference.numbers), row_costs(matrix)
    unknown = [(name,) for name in reference.unknown]
    note = "Names of the reference that have no equal here; their numbers are not compared."
    predicted, error = predict_cells(matrix, columns)
    answered = answers(matrix, transfer, costs, runs=runs)
    tables = [
        *answered.tables,
        *rows_table(matrix),
        *size_tables(matrix),
        transfer.averages_table(),
        transfer.helpers_table(tested),
        *effect_tables(matrix, transfer, tested),
        *([_predicted_table(predicted, error)] if predicted else []),
        transfer.targets_table(),
        *merged_tables(matrix),
        *complement_tables(matrix, single_set_rows(matrix), columns),
        fidelity_table(fidelity),
        *comparison_tables(matrix, reference.numbers),
        *([ReportTable("unknown", "Not compared", note, ("name",), unknown)] if unknown else []),
        significance_table(matrix, tested),
        leak_table(matrix),
        *unknown_table(matrix),
        cost_table(costs),
    ]
    return Report(
        matrix,
        costs,
        fidelity,
        tested,
        tables,
        len(results),
        answered.sentences,
        answered.command,
        predicted,
        error,
    )


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
        "differences.csv": _differences_csv(report.differences),
        "published.csv": _published_csv(report.tables),
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
    """Format a report as Markdown. Tables without rows are left out, unless they say why.

    Args:
        report: The report.
        is_chinese: Translate the texts. Names and numbers stay.

    Returns:
        A page with a line feed at its end.
    """
    say = in_chinese if is_chinese else str
    about = [f"# {say('Transfer matrix')}", say(f"From {report.num_results} results.")]
    told = [sentences[is_chinese] for sentences in report.sentences]
    about[1:1] = [*told, *([f"```bash\n{report.command}\n```"] if report.command else [])]
    parts = [*about, _matrix_markdown(report.matrix, is_chinese=is_chinese)]
    for table in report.tables:
        if table.body or table.empty:
            shown = table_in_chinese(table) if is_chinese else table
            parts += [f"## {in_markdown(shown.title)}", in_markdown(shown.note), shown.markdown()]
    return "\n\n".join(filter(None, parts)) + "\n"


def _matrix_markdown(matrix: Matrix, *, is_chinese: bool = False) -> str:
    table, say = matrix_table(matrix, marked_text), in_chinese if is_chinese else str
    lines = [f"{MISSING} {column}: {say(why)} ({', '.join(rows)})" for column, why, rows in undefined(matrix)]
    about = chinese_caption(matrix) if is_chinese else f"{caption(matrix)} {LEGEND}"
    shown = table_in_chinese(table) if is_chinese else table
    return "\n\n".join([about, shown.markdown(), *map(in_markdown, lines)])


def _differences_csv(differences: pd.DataFrame) -> str:
    """Format every pair of rows in every common column as CSV."""
    formats = {"points": "{:.2f}", "p": "{:.3g}", "p_holm": "{:.3g}"}
    texts = {name: differences[name].map(form.format, na_action="ignore") for name, form in formats.items()}
    return differences.assign(**texts).to_csv(index=False, lineterminator="\n")


def _published_csv(tables: Sequence[ReportTable]) -> str:
    """Format the tables of published numbers as one CSV. Each line begins with the title of its table."""
    published = [table for table in tables if table.key.startswith("published-")]
    head = ("table", *(published[0].head if published else ()))
    return csv_text([head, *((table.title, *line) for table in published for line in table.body)])


def latex(matrix: Matrix) -> str:
    """Format a table for LaTeX. It needs \\usepackage{booktabs} only.

    Args:
        matrix: The transfer matrix.

    Returns:
        A `tabular`, with two comments above it.
    """
    head = ["trained on", *(_escaped(heading(column, matrix)) for column in matrix.columns)]
    body = [
        [_escaped(row.label), *(_latex_cell(row, column) for column in matrix.columns)] for row in matrix.rows
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
    text = _escaped(mean_and_deviation(cell))
    text = f"\\textit{{{text}}}" if cell.in_domain else text
    text = f"\\textbf{{{text}}}" if cell.is_best else text
    return text + _escaped(cell.signs)


def _escaped(text: str) -> str:
    """Text for LaTeX.

    >>> _escaped("a_b → c & 5 %")
    'a\\\\_b $\\\\rightarrow$ c \\\\& 5 \\\\%'
    """
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def filled_pages(pages: Sequence[Path], report: Report, *, tell: Callable[[str], None]) -> dict[Path, str]:
    """Return the changed pages, with new text between their markers. Nothing is written.

    Args:
        pages: Markdown files. One without markers is named and not changed.
        report: The report.
        tell: Called with a line about a page without markers.

    Returns:
        Page → its new text.

    Raises:
        UserError: A page that is not UTF-8, or a marker without an end.
    """
    filled = {}
    for page in pages:
        is_chinese = page.suffixes[-2:-1] == [".zh"]
        try:
            text = before = read_text(page)
        except UnicodeDecodeError as error:
            raise UserError(f"into={page}: not UTF-8 ({error.reason}). Save it as UTF-8") from error
        keys = [key for key in KEYS if f"<!-- result:{key} -->" in before]
        for key in keys:
            start, end = f"<!-- result:{key} -->", f"<!-- /result:{key} -->"
            head, _, tail = text.partition(start)
            if end not in tail:
                raise UserError(f"into={page}: {start} has no end. Write {end} further down")
            text = f"{head}{start}\n{_fragment(report, key, is_chinese=is_chinese)}\n{end}{tail.partition(end)[2]}"
        if not keys:
            tell(f"{page}: no marker such as <!-- result:matrix --> … <!-- /result:matrix -->; left as it is")
        elif text != before:
            filled[page] = text
    return filled


def _fragment(report: Report, key: str, *, is_chinese: bool) -> str:
    """Format one table as Markdown. `published` means the tables of all sources."""
    if key == "matrix":
        return _matrix_markdown(report.matrix, is_chinese=is_chinese)
    tables = [table for table in report.tables if table.key == key or table.key.startswith(f"{key}-")]
    shown = map(table_in_chinese, tables) if is_chinese else tables
    return "\n\n".join(f"{table.note}\n\n{table.markdown()}" for table in shown)
