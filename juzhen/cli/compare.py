"""`juzhen compare` and `gate`: runs row by row or with published numbers, and the verdict on a run for CI."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from juzhen.cli import options
from juzhen.cli.runs import read_matrix, write_page
from juzhen.core.errors import UserError, require_choice
from juzhen.core.file_guard import check_overwritable
from juzhen.core.kinds import metric_key, metric_title
from juzhen.core.result import without_size
from juzhen.core.text import counted, short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from juzhen.calibration.run_scores import PairedRuns
    from juzhen.metrics.comparison import Scored
    from juzhen.report.table import ReportTable


MOST_SETS = 3
"""Sets whose pairs are listed without --sets, at most."""
FEW_ROWS = 50
LONGEST = 60
"""Characters of a text in a list of pairs. --csv has whole texts."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def compare(
    runs: Annotated[
        list[Path], Argument(help="two or more run folders, or with --published one folder that holds runs")
    ],
    *,
    sets: Annotated[
        list[str] | None, Option(metavar="SET…", help="sets to compare", show_default="all common sets")
    ] = None,
    split: options.Split = None,
    metric: Annotated[
        str | None, Option(help="the only metric", show_default="the main metric of each set, and accuracy")
    ] = None,
    worst: Annotated[int, Option(min=0, help="pairs in each list of flipped pairs and worst pairs")] = 3,
    csv: Annotated[
        Path | None, Option(help="also write every row, with its texts, and scores of all runs")
    ] = None,
    published: Annotated[bool, Option("--published", help="compare with published numbers instead")] = False,
    markdown: options.Markdown = None,
    data_dir: options.RunDataDir = None,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
) -> None:
    """Compares runs on the same rows: differences to the first run with 95 % intervals, settings, flipped pairs.

    Runs keep the scores of single rows. These are compared row by row, or query by query for rankings, so a set that is
    hard for all runs adds no noise. Texts come from the data sets. --published shows which published numbers the runs
    match, miss or lack.

    juzhen compare runs/FIRST runs/SECOND
    juzhen compare runs/FIRST runs/SECOND --sets lcqmc --worst 20 --csv rows.csv
    juzhen compare --published runs --markdown comparison.md
    """
    check_overwritable(*filter(None, (markdown, csv)))
    metric = metric and metric_key(metric)
    if published:
        unread = {"--sets": sets, "--split": split, "--csv": csv, "--data-dir": data_dir}
        if flag := next((flag for flag, value in unread.items() if value), None):
            raise UserError(f"{flag}: not read with --published. Leave out one of the two")
        tables = _published(runs, metric=metric)
        notes: list[str] = []
    else:
        if len(runs) > len(LETTERS):
            raise UserError(
                f"{counted(len(runs), 'runs')}: at most {len(LETTERS)} can be compared. juzhen table shows all"
            )
        if len(runs) < 2:
            raise UserError(
                "two or more runs are needed: juzhen compare runs/FIRST runs/SECOND. For published numbers, type "
                "juzhen compare --published runs"
            )
        from juzhen.calibration.run_scores import PairedRuns

        paired = PairedRuns(runs, data_dir=data_dir, batch_tokens=batch_tokens)
        tables, frames = _comparison(
            paired,
            paired.columns(split, sets),
            sets,
            metric=metric,
            worst=worst,
            with_texts=csv is not None,
        )
        notes = list(dict.fromkeys(paired.notes))
        if csv is not None:
            import pandas as pd

            everything = pd.concat([frame.assign(set=column) for column, frame in frames.items()])
            first = ["set", *(name for name in everything.columns if name != "set")]
            write_page(csv, everything[first].to_csv(index=False, lineterminator="\n"))
    from juzhen.report.table import show_tables

    show_tables(tables, notes)
    text = "".join(f"{table.title}. {table.note}\n\n{table.markdown()}\n\n" for table in tables)
    write_page(markdown, text)
    if csv is not None and not published:
        print(f"written to {csv}", file=sys.stderr)


def _published(runs: "Sequence[Path]", *, metric: str | None) -> "list[ReportTable]":
    if len(runs) != 1:
        raise UserError("--published: give one folder that holds runs. Type juzhen compare --published runs")
    matrix = read_matrix(runs[0], metric=metric)
    from juzhen.report.compare import comparison_tables, load_published

    return comparison_tables(matrix, load_published())


def _comparison(
    paired: "PairedRuns",
    columns: "Sequence[str]",
    sets: "Sequence[str] | None",
    *,
    metric: str | None,
    worst: int,
    with_texts: bool,
) -> "tuple[list[ReportTable], dict[str, pd.DataFrame]]":
    """Make the tables, and for each column a row per evaluation row, with texts if asked for."""
    from juzhen.calibration.run_scores import differences, flips
    from juzhen.metrics.comparison import flipped_rows, row_frame, worst_rows
    from juzhen.report.row_identity import differing_settings, label_runs
    from juzhen.report.table import ReportTable, heading

    results = [run.result for run in paired.runs]
    labels = dict(zip(LETTERS, label_runs(results), strict=False))
    table = ReportTable(
        "runs", "Runs", "", ("", "run", "folder"),
        [(letter, label, str(run.folder)) for (letter, label), run in zip(labels.items(), paired.runs, strict=True)],
    )  # fmt: skip
    settings = ReportTable(
        "settings",
        "Settings that differ",
        "",
        ("setting", *labels),
        differing_settings(results),
        empty="None: the runs have the same settings.",
    )
    table_rows: list[tuple[str, ...]] = []
    flipped: list[tuple[str, ...]] = []
    sliced: list[tuple[str, ...]] = []
    lists: list[ReportTable] = []
    frames: dict[str, pd.DataFrame] = {}
    measures: set[str] = set()
    for column in columns:
        if (scored_runs := paired.scored(column)) is None:
            continue
        scored = dict(zip(labels, scored_runs, strict=True))
        measures.update(*(run.measures for run in scored_runs))
        for letter, other in list(scored.items())[1:]:
            for gap in differences(scored_runs[0], other, metric=metric):
                measure = metric_title(gap.measure).replace("spearman", "Spearman")
                verdict = ("better" if gap.points > 0 else "worse") if gap.is_decided else "undecided"
                interval = f"[{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
                values = (f"{100 * gap.first:.1f}", f"{100 * gap.other:.1f}", f"{gap.points:+.1f}", interval)
                table_rows.append((heading(column), measure, f"{letter} − A", *values, verdict))
            if (counts := flips(scored_runs[0], other)) is not None:
                *rows, p = counts
                flipped.append(
                    (heading(column), f"A, {letter}", *(f"{count:,}" for count in rows), f"{p:.2g}")
                )
        is_listed = bool(worst) and (sets is not None or len(columns) <= MOST_SETS)
        texts = paired.texts(column) if is_listed or with_texts else {}
        frame = frames[column] = row_frame(scored, texts)
        sliced += _slice_lines(column, scored, list(texts.values()))
        if is_listed:
            last = list(labels)[-1]
            are_decided = scored_runs[0].right is not None and scored_runs[-1].right is not None
            moved = f"{'Flipped' if are_decided else 'Moved most'} from A to {last}"
            flipped_pairs = flipped_rows(frame, scored_runs[0], scored_runs[-1])
            lists.append(_pairs(flipped_pairs, column, worst, moved))
            lists.append(_pairs(worst_rows(frame), column, worst, f"Worst of {last}"))
    if metric is not None and measures:
        require_choice("--metric", metric, measures)
    note = (
        "Differences to A ×100, with 95 % intervals over rows, paired. A difference is undecided where its interval "
        "holds 0; intervals are not corrected for their number, and say nothing about other seeds."
    )
    if any(len(frame) < FEW_ROWS for frame in frames.values()):
        note += f" Of fewer than {FEW_ROWS} rows an interval of correlations covers about 90 %."
    columns_of_gaps = ("set", "measure", "of", "A", "the other", "difference", "95 %", "verdict")
    gaps = ReportTable("differences", "Differences", note, columns_of_gaps, table_rows, empty="None.")
    tables = [table, settings, gaps]
    if flipped:
        note = "Rows that one run alone decides right at its threshold; p: McNemar's exact test."
        head = ("set", "runs", "A alone right", "the other alone", "both wrong", "p")
        tables.append(ReportTable("flips", "Decisions", note, head, flipped))
    if sliced:
        note = (
            "Accuracy, or without decisions the main metric, ×100, on a part of the rows: the other run minus A with "
            "95 % intervals, paired over rows and not corrected for their number."
        )
        columns_of_slices = ("set", "of", "slice", "rows", "A alone right", "the other alone", "difference")
        tables.append(ReportTable("slices", "By slice", note, columns_of_slices, sliced))
    if worst and not lists and frames:
        paired.notes.append(f"pairs that flipped, and the worst: --sets {next(iter(frames)).split('/')[1]}")
    return tables + lists, frames


def _slice_lines(
    column: str, scored: "Mapping[str, Scored]", sides: "Sequence[Sequence[str]]"
) -> list[tuple[str, ...]]:
    """Lines of the table of slices. [] without the texts of pairs."""
    if len(sides) < 2:
        return []
    from juzhen.metrics.comparison import points, slice_changes, slices
    from juzhen.report.table import MISSING, heading

    first, *others = scored.items()
    masks = slices(sides[0], sides[1])
    return [
        (
            heading(column),
            f"{letter} − {first[0]}",
            change.name,
            f"{change.rows:,}",
            *(map(str, change.flipped) if change.flipped else (MISSING, MISSING)),
            points(change.gap),
        )
        for letter, other in others
        for change in slice_changes(first[1], other, masks)
    ]


def _pairs(frame: "pd.DataFrame", column: str, count: int, title: str) -> "ReportTable":
    from juzhen.report.table import ReportTable, heading

    # What each run has, such as its score, without whether it is right.
    names = [name for name in frame.columns if ": " in name and not name.startswith("right: ")]
    texts = list(frame.columns[list(frame.columns).index("error") + 1 :])
    columns = [
        "line" if frame["line"].any() else "row",
        *(["gold"] if "gold" in frame else []),
        *names,
        *texts,
    ]
    body = [
        tuple(_cell(value) for value in line) for line in frame[columns].head(count).itertuples(index=False)
    ]
    head = [name.split(": ")[-1] if name in names else name.replace("_", " ") for name in columns]
    note = f"{min(count, len(frame))} of {len(frame):,}."
    if frame["line"].any():
        split, name = without_size(column)[0].split("/")
        note += f" Lines are those of the {split} file of {name}."
    return ReportTable("pairs", f"{title}, {heading(column)}", note, tuple(head), body, empty="None.")


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return short(value, LONGEST)
    return f"{value:.3f}".removesuffix(".000") if isinstance(value, float) else str(value)


def gate(
    run: Annotated[Path, Argument(help="run folder to judge")],
    *,
    against: Annotated[Path, Option(metavar="BASE", help="run folder to compare with")],
    target: Annotated[
        list[str] | None,
        Option(
            metavar="SET…", help="sets that must not get worse", show_default="sets that RUN was trained on"
        ),
    ] = None,
    may_lose: Annotated[float, Option(min=0, help="points that the other sets may lose on average")] = 0.5,
    must_win: Annotated[
        bool, Option("--must-win", help="also fail if the target does not gain for certain")
    ] = False,
    sets: Annotated[
        list[str] | None, Option(metavar="SET…", help="these sets", show_default="all in common")
    ] = None,
    split: options.Split = None,
    data_dir: options.RunDataDir = None,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
) -> None:
    """Judge a run by its change against a base, on the same rows. For CI: the exit status is 0 or 1.

    The target is WIN or LOSS if the 95 % interval of its change excludes 0, else TIE. The gate fails on LOSS, and if
    the other sets lose more than --may-lose points on average. A change is of the main metric, in points (×100). If
    RUN was trained on none of the sets, only the other sets are judged.

    juzhen gate runs/NEW --against runs/OLD
    juzhen gate runs/NEW --against runs/OLD --target lcqmc --may-lose 1 --must-win
    """
    from juzhen.calibration.run_scores import PairedRuns
    from juzhen.metrics.comparison import judge, points
    from juzhen.report.table import ReportTable, heading, show_tables

    paired = PairedRuns([against, run], data_dir=data_dir, batch_tokens=batch_tokens)
    columns = paired.columns(split, sets)
    names = {column: column.split("/")[1] if split != "both" else column for column in columns}
    before, after = {}, {}
    for column in columns:
        scored = paired.scored(column)
        if scored is not None:
            before[names[column]], after[names[column]] = scored
    trained_on = {part for stage in paired.runs[1].result.trained_on for part in stage.split("+")}
    if target is not None and (
        absent := [name for name in target if name not in {c.split("/")[1] for c in columns}]
    ):
        where = "--sets" if sets else "the sets that both runs were scored on"
        raise UserError(f"--target {absent[0]}: not among {where}. Leave it out, or run juzhen evaluate.")
    wanted = trained_on if target is None else {*target}
    targets = [names[column] for column in columns if column.split("/")[1] in wanted]
    verdict = judge(after, before, targets)
    if verdict is None:
        raise UserError(
            f"{run}: no set with the same rows in {against}. Score both runs with juzhen evaluate --again."
        )
    named, way = (names.values(), "other --sets") if sets else (targets, "another --target")
    if missing := [name for name in named if name not in verdict.changes]:
        raise UserError(
            f"{missing[0]}: {'the target ' * (missing[0] in targets)}cannot be compared, the runs have no scores of "
            f"the same rows. Score both runs with juzhen evaluate --again, or name {way}."
        )
    rows = [
        (
            heading(column),
            "target" if names[column] in verdict.targets else "",
            points(verdict.changes[names[column]]),
        )
        for column in columns
        if names[column] in verdict.changes
    ]
    note = f"{run} minus {against}, main metric ×100, 95 % intervals paired over rows, without the spread of seeds."
    show_tables(
        [ReportTable("changes", "Changes", note, ("set", "", "change"), rows)],
        list(dict.fromkeys(paired.notes)),
    )
    print(verdict.line())
    reasons = {
        "the target gets worse": verdict.word == "LOSS",
        "no target gains for certain": must_win and verdict.word not in ("WIN", "LOSS"),
        f"other sets lose more than {may_lose:g} points": verdict.others is not None
        and 100 * verdict.others.value < -may_lose,
    }
    if any(reasons.values()):
        print(f"gate: failed, {' and '.join(filter(reasons.get, reasons))}")
        raise Exit(1)
    print("gate: passed")
