"""`juzhen calibrate` and `fuse`: scores of a run as probabilities, and two runs as one score."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from juzhen.cli import options
from juzhen.cli.options import BATCH_TOKENS, SEED, Analysis, BatchTokens, FittedSets, RunDataDir
from juzhen.core.atomic_write import write_json
from juzhen.core.calibration_files import SCALINGS
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable, require_writable
from juzhen.core.machine import without_hub
from juzhen.core.result import RESULT_FILE, Threshold
from juzhen.core.text import markdown_table


def calibrate(
    run: Annotated[str, Argument(help="finished run, or with --data the folder of an encoder")],
    *,
    data: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE…",
            help="tables of pairs instead of the run's sets. dev.csv and test.csv of one folder are one set",
        ),
    ] = None,
    table: options.TableOptions = options.AS_IT_LOOKS,
    sets: options.FittedSets = None,
    data_dir: options.RunDataDir = None,
    output: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="where to write",
            show_default="analysis/ in the run, or next to the first file",
        ),
    ] = None,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
    no_plot: Annotated[
        bool, Option("--no-plot", help="draw no picture, so that matplotlib is not needed")
    ] = False,
) -> None:
    """Fits temperature, Platt scaling and a threshold on dev and judges them on test, for each set of 0/1 pairs.

    In positive pairs and triplets, each row is a pair of label 1. Its nearest other text makes a pair of label 0.
    Before scaling, the probability is sigmoid(score). For a cosine it never exceeds 0.73. Without a test split, one
    half of dev judges the fit of the other half. The verb writes calibration-<set>.json and .svg.

    juzhen calibrate runs/NAME
    juzhen calibrate builtin/mini_zh --data pairs.csv
    juzhen score runs/NAME --calibration runs/NAME/analysis/calibration-lcqmc.json --file pairs.tsv
    """
    if not data:
        table.reading.require_unread(run, "Name a table by --data, or leave it out")
        if not Path(run, RESULT_FILE).is_file():
            raise UserError(f"{run}: no result in this folder. Name a finished run, or add --data pairs.csv")
    elif foreign := "--sets" if sets else "--data-dir" if data_dir else None:
        raise UserError(f"{foreign}: --data FILE replaces the sets of the run. Leave out one of the two")
    if not no_plot:
        options.require_matplotlib(", or leave it out with --no-plot")
    from juzhen.calibration.run_scores import (
        ScoredEncoder,
        ScoredFiles,
        ScoredRun,
        calibrate_set,
        fitted_sets,
        require_same_weights,
    )
    from juzhen.encoders.resolve_path import ENCODER_FOLDER
    from juzhen.evaluation.scoring import DECIDED
    from juzhen.report.table import ReportTable, decision_table, show_tables

    scored: ScoredEncoder
    if data:
        without_hub()
        scored = files = ScoredFiles(run, data, reading=table.reading, batch_tokens=batch_tokens)
        names = [*files.sets]
        place = Path(run) if Path(run, ENCODER_FOLDER).is_dir() else data[0].parent
    else:
        scored = of_run = ScoredRun(run, data_dir=data_dir, batch_tokens=batch_tokens)
        names, place = of_run.choose(sets, DECIDED), of_run.folder
    folder = output or place / "analysis"
    require_writable(folder)
    require_same_weights([folder / f"calibration-{name}.json" for name in names], scored.weights)
    check_overwritable(*(folder / f"calibration-{name}.svg" for name in names))
    rows: list[tuple[str, ...]] = []
    decisions: list[tuple[str, Threshold]] = []
    notes: list[str] = []
    for name, report in fitted_sets(names, partial(calibrate_set, scored), notes):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"calibration-{name}.json", report)
        if not no_plot:
            from juzhen.report.picture import draw_reliability

            draw_reliability(report, folder / f"calibration-{name}.svg")
        for method in ("raw", *SCALINGS):
            numbers = ", ".join(f"{value:.4g}" for value in report["fitted"].get(method, ()))
            judged = [f"{report[method][measure]:.4f}" for measure in ("ece", "brier", "nll")]
            rows.append((name, str(report["rows"]), method, numbers or "–", *judged))
        notes.append(f"{name}: {report['how']}")
        decisions.append((name, Threshold(**report["threshold"])))
    head = ("set", "rows", "scaling", "T or a, b", "ECE", "Brier", "NLL")
    show_tables([ReportTable("scalings", "", "", head, rows), decision_table(decisions)], notes)
    print(f"written to {folder}", file=sys.stderr)


def fuse(
    runs: Annotated[tuple[str, str], Argument(metavar="RUN RUN", help="two finished runs")],
    *,
    sets: FittedSets = None,
    data_dir: RunDataDir = None,
    output: Analysis = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
) -> None:
    """Fuses two runs into one score, for example cross-encoders trained with ce and with cosent.

    The score is α · first + (1 − α) · second. Both scores are standardised on dev, where α is fitted too. Test judges
    the result. The verb writes fusion-<set>.json. For 0/1 pairs it also scales the fused score to a probability.

    juzhen fuse runs/FIRST runs/SECOND
    juzhen score --fuse runs/FIRST runs/SECOND --calibration runs/FIRST/analysis/fusion-lcqmc.json --file pairs.tsv
    """
    from juzhen.calibration.run_scores import (
        ScoredRun,
        fitted_sets,
        fuse_set,
        require_different_folders,
        require_same_weights,
    )
    from juzhen.core.row_scores import ROWS_OF_PAIRS

    require_different_folders(runs)
    first, second = (ScoredRun(folder, data_dir=data_dir, batch_tokens=batch_tokens) for folder in runs)
    if first.weights == second.weights:
        raise UserError(
            f"{first.folder} and {second.folder}: the same weights, so a fusion would change nothing. Name two "
            "different runs"
        )
    names, other_names = first.choose(sets, ROWS_OF_PAIRS), second.choose(sets, ROWS_OF_PAIRS)
    shared = [name for name in names if name in other_names]
    if not shared:
        raise UserError(
            f"{first.folder} was evaluated on {', '.join(names)} and {second.folder} on {', '.join(other_names)}: "
            "no common set. Evaluate one of them on a set of the other"
        )
    folder = output or first.folder / "analysis"
    require_writable(folder)
    rows: list[list[str]] = []
    notes: list[str] = []
    weights = [first.weights, second.weights]
    require_same_weights([folder / f"fusion-{name}.json" for name in shared], weights)
    for name, report in fitted_sets(shared, partial(fuse_set, (first, second), seed=SEED), notes):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"fusion-{name}.json", report)
        rows += [_row(report, who) for who in ("first", "second", "fused")]
        errors = [f"{100 * row['ece']:.1f} {method}" for method, row in report["calibration"].items()]
        trust = f"; ECE ×100 of the fused score: {', '.join(errors)}" if errors else ""
        notes.append(f"{name}: {report['how']}, {report['rows']:,} rows{trust}")
    head = ("set", "α", "who", "Spearman", "95 %", "accuracy")
    print("\n".join([markdown_table(head, rows, numbers=(1, 3, 5)), "", *notes]))
    print(f"written to {folder}", file=sys.stderr)


def _row(report: dict[str, Any], who: str) -> list[str]:
    spearman, accuracy = report[who]["spearman"], report[who].get("accuracy", {"value": None})
    interval = "" if spearman["low"] is None else f"{100 * spearman['low']:.1f}–{100 * spearman['high']:.1f}"
    weight = f"{report['alpha']:.2f}" if who == "fused" else ""
    values = [
        "–" if score["value"] is None else f"{100 * score['value']:.2f}" for score in (spearman, accuracy)
    ]
    return [report["set"], weight, who, values[0], interval, values[1]]
