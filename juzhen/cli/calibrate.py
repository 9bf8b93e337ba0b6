"""`juzhen calibrate`: scores of a run as probabilities."""

import sys
from functools import partial
from typing import Annotated

from typer import Argument, Option

from juzhen.cli.options import BATCH_TOKENS, Analysis, BatchTokens, FittedSets, RunDataDir, require_matplotlib
from juzhen.core.fitted import SCALINGS
from juzhen.core.owned import require_ours
from juzhen.core.result import Threshold
from juzhen.core.whole import write_json


def calibrate(
    run: Annotated[str, Argument(help="run folder of a finished run")],
    *,
    sets: FittedSets = None,
    data_dir: RunDataDir = None,
    output: Analysis = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    no_plot: Annotated[bool, Option("--no-plot", help="no picture; matplotlib is then not needed")] = False,
) -> None:
    """Fits temperature, Platt scaling and a threshold on dev and judges them on test, for each set of 0/1 pairs.

    Of positive pairs and triplets, each row is a pair of label 1, and one of label 0 with the nearest other text.
    Before scaling, a cross-encoder's probability is sigmoid(score); so is a cosine's, which never says more than 0.73.
    Written are calibration-<set>.json and .svg.

    juzhen calibrate runs/NAME
    juzhen score runs/NAME --calibration runs/NAME/analysis/calibration-lcqmc.json --file pairs.tsv
    """
    if not no_plot:
        require_matplotlib(", or leave it out with --no-plot")
    from juzhen.calibration.reports import calibrate_set, fitted_sets, require_same_weights
    from juzhen.calibration.run_scores import ScoredRun
    from juzhen.evaluation.decisions import DECIDED
    from juzhen.report.decisions import decision_table
    from juzhen.report.table import ReportTable, show_tables

    scored = ScoredRun(run, data_dir=data_dir, batch_tokens=batch_tokens)
    folder = output or scored.folder / "analysis"
    folder.mkdir(parents=True, exist_ok=True)
    names = scored.choose(sets, DECIDED)
    require_same_weights([folder / f"calibration-{name}.json" for name in names], scored.weights)
    require_ours(*(folder / f"calibration-{name}.svg" for name in names))
    rows: list[list[str]] = []
    decisions: list[tuple[str, Threshold]] = []
    notes: list[str] = []
    for name, report in fitted_sets(names, partial(calibrate_set, scored), notes):
        write_json(folder / f"calibration-{name}.json", report)
        if not no_plot:
            from juzhen.report.reliability import draw_reliability

            draw_reliability(report, folder / f"calibration-{name}.svg")
        for method in ("raw", *SCALINGS):
            numbers = ", ".join(f"{value:.4g}" for value in report["fitted"].get(method, ()))
            judged = [f"{report[method][measure]:.4f}" for measure in ("ece", "brier", "nll")]
            rows.append([name, str(report["rows"]), method, numbers or "–", *judged])
        notes.append(f"{name}: {report['how']}")
        decisions.append((name, Threshold(**report["threshold"])))
    head = ("set", "rows", "scaling", "T or a, b", "ECE", "Brier", "NLL")
    table = ReportTable("scalings", "", "", head, [tuple(row) for row in rows])
    show_tables([table, decision_table(decisions)], notes)
    print(f"written to {folder}", file=sys.stderr)
