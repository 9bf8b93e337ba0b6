"""`juzhen fuse`: two runs as one score."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.cli.arguments import BATCH_TOKENS, SEED, VerbParser
from juzhen.cli.calibrate import add_scoring, fitted_sets, require_same_weights
from juzhen.core.errors import UserError
from juzhen.core.markup import markdown_table
from juzhen.core.whole import write_json

if TYPE_CHECKING:  # it loads torch, and --help should not wait for it
    from juzhen.calibration.run_scores import ScoredRun

BOOTSTRAP_SAMPLES = 1000


def parser() -> VerbParser:
    parser = VerbParser(
        "fuse",
        description="Two runs as one score, such as a cross-encoder trained with ce and one trained with cosent: "
        "score = α · first + (1 − α) · second. α is fitted on dev, where both scores are also brought to "
        "mean 0 and deviation 1, and judged on test.",
        epilog="Written is fusion-<set>.json; of 0/1 pairs it also scales the fused score to a probability. Of new "
        "pairs: juzhen score --fuse <first> <second> --calibration fusion-<set>.json …",
    )
    parser.add_argument("run_folders", nargs=2, metavar="run", help="run folders of two finished runs")
    add_scoring(parser)
    return parser


def run(
    run_folders: Sequence[str | Path],
    *,
    sets: Sequence[str] | None = None,
    data_dir: Path | None = None,
    output: Path | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> None:
    """Computes scores of both runs, fits α, judges, writes files and prints a table."""
    from juzhen.calibration.run_scores import ScoredRun
    from juzhen.core.examples import Kind

    kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    runs = [ScoredRun(folder, data_dir=data_dir, batch_tokens=batch_tokens) for folder in run_folders]
    names = [one.choose(sets, kinds) for one in runs]
    shared = [name for name in names[0] if name in names[1]]
    if not shared:
        raise UserError(
            f"{runs[0].folder} was evaluated on {', '.join(names[0])} and {runs[1].folder} on {', '.join(names[1])}: "
            "no set in common; evaluate one of them again on sets of the other"
        )
    folder = output or runs[0].folder / "analysis"
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[list[str]] = []
    notes: list[str] = []
    require_same_weights([folder / f"fusion-{name}.json" for name in shared], [run.weights for run in runs])
    for name, report in fitted_sets(shared, partial(fuse_set, runs), notes):
        write_json(folder / f"fusion-{name}.json", report)
        lines += [_row(report, who) for who in ("first", "second", "fused")]
        notes.append(f"{name}: {report['how']}, {report['rows']:,} rows{_told(report['calibration'])}")
    head = ("set", "α", "who", "Spearman", "95 %", "accuracy")
    print("\n".join([markdown_table(head, lines, numbers=(1, 3, 5)), "", *notes]))
    print(f"written to {folder}", file=sys.stderr)


def fuse_set(runs: list["ScoredRun"], name: str) -> dict[str, Any]:
    """Scores of both runs and of their fusion on one set. Raises UserError when the runs have seen other rows."""
    from juzhen.calibration.calibration import calibrated
    from juzhen.calibration.fusion import fit_weight, standardised
    from juzhen.calibration.run_scores import fitting_and_judging
    from juzhen.core.examples import Kind
    from juzhen.evaluation.scoring import score_set

    first, second = (fitting_and_judging(run, name) for run in runs)
    fitted, judged, how = first
    for one, other in zip(first[:2], second[:2], strict=True):
        if one.examples.fingerprint != other.examples.fingerprint:
            raise UserError(
                f"{name}/{one.examples.split}: the two runs have seen other rows; fuse runs on the same files"
            )
    pairs = [standardised(one[0].scores, one[1].scores) for one in (first, second)]
    grades = fitted.examples.grades()
    assert grades is not None  # the kinds that are fused have an order
    weight = fit_weight(pairs[0][0], pairs[1][0], grades)
    values = {"first": pairs[0], "second": pairs[1]}
    values["fused"] = tuple(weight * a + (1 - weight) * b for a, b in zip(*pairs, strict=True))
    found = {
        who: score_set(
            of_judged,
            # Half of dev is judged by thresholds of the other half, as a test split is by those of dev.
            replace(judged.examples, split="test"),
            dev=(of_fitted, fitted.examples),
            bootstrap_samples=BOOTSTRAP_SAMPLES,
            seed=SEED,
        )
        for who, (of_fitted, of_judged) in values.items()
    }
    report: dict[str, Any] = {"fitted": {}}
    if judged.examples.kind is Kind.LABELLED_PAIR:
        labels = fitted.gold, judged.gold
        report = calibrated(*zip(values["fused"], labels, strict=True))
    return {
        "runs": [str(run.folder) for run in runs],
        "weights": [run.weights for run in runs],
        "set": name,
        "how": how,
        "rows": len(judged.scores),
        "alpha": weight,
        "means": [float(one[0].scores.mean()) for one in (first, second)],
        "deviations": [float(one[0].scores.std()) for one in (first, second)],
        **{who: {metric: asdict(score) for metric, score in its.items()} for who, its in found.items()},
        "fitted": report.pop("fitted"),
        "calibration": report,
    }


def _told(calibration: dict[str, Any]) -> str:
    """How far the fused score is to be believed as a probability; nothing for sets without 0/1 labels."""
    errors = [f"{100 * its['ece']:.1f} {method}" for method, its in calibration.items()]
    return f"; ECE ×100 of the fused score: {', '.join(errors)}" if errors else ""


def _row(report: dict[str, Any], who: str) -> list[str]:
    spearman, accuracy = report[who]["spearman"], report[who].get("accuracy", {"value": None})
    interval = "" if spearman["low"] is None else f"{100 * spearman['low']:.1f}–{100 * spearman['high']:.1f}"
    weight = f"{report['alpha']:.2f}" if who == "fused" else ""
    return [report["set"], weight, who, _percent(spearman["value"]), interval, _percent(accuracy["value"])]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"
