"""`juzhen gate`: accept or reject a run by its change against a base."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from juzhen.cli import options
from juzhen.core.errors import UserError


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
    from juzhen.calibration.paired_comparison import PairedRuns
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
        raise UserError(
            f"--target {absent[0]}: not a set that both runs were scored on. Leave it out, or run juzhen evaluate."
        )
    wanted = trained_on if target is None else {*target}
    targets = [names[column] for column in columns if column.split("/")[1] in wanted]
    verdict = judge(after, before, targets)
    if verdict is None:
        raise UserError(
            f"{run}: no set with the same rows in {against}. Score both runs with juzhen evaluate --again."
        )
    if missing := [name for name in targets if name not in verdict.targets]:
        raise UserError(
            f"{missing[0]}: the target cannot be compared, the runs have no scores of the same rows. Score both runs "
            "with juzhen evaluate --again, or name another --target."
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
    lost = verdict.others is not None and 100 * verdict.others.value < -may_lose
    if verdict.word == "LOSS" or lost or (must_win and verdict.word != "WIN"):
        print("gate: failed" + (f", other sets lose more than {may_lose:g} points" if lost else ""))
        raise Exit(1)
    print("gate: passed")
