"""`juzhen calibrate`: scores of a run as probabilities."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.cli.arguments import BATCH_TOKENS, VerbParser
from juzhen.core.errors import UserError
from juzhen.core.markup import markdown_table
from juzhen.core.opened import read_json
from juzhen.core.owned import require_ours
from juzhen.core.whole import write_json

if TYPE_CHECKING:  # it loads torch, and --help should not wait for it
    from juzhen.calibration.run_scores import ScoredRun

METHODS = ("raw", "temperature", "platt")


def parser() -> VerbParser:
    parser = VerbParser(
        "calibrate",
        description="Fits temperature and Platt scaling on dev and judges them on test, for each set of 0/1 pairs.",
        epilog="Before scaling, a cross-encoder's probability is sigmoid(score); so is a cosine's, which never says "
        "more than 0.73. Written are calibration-<set>.json and .svg. Of new pairs: juzhen score <run> "
        "--calibration calibration-<set>.json …",
    )
    parser.add_argument("run_folder", metavar="run", help="run folder of a finished run")
    add_scoring(parser)
    parser.add_argument("--no-plot", action="store_true", help="no picture (matplotlib is then not needed)")
    return parser


def add_scoring(parser: VerbParser) -> None:
    """Arguments of every command that computes scores of runs."""
    parser.add_argument("--sets", nargs="+", metavar="SET", help="default: every fitting set of the run")
    parser.add_argument("--data-dir", type=Path, help="default: where the run read its sets")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="default: analysis/ in the (first) run")
    parser.add_batch_tokens()


def run(
    run_folder: str | Path,
    *,
    sets: Sequence[str] | None = None,
    data_dir: Path | None = None,
    output: Path | None = None,
    batch_tokens: int = BATCH_TOKENS,
    no_plot: bool = False,
) -> None:
    """Computes scores, fits, judges, writes files and prints a table."""
    if not no_plot:
        require_matplotlib(", or leave it out with --no-plot")
    from juzhen.calibration.run_scores import ScoredRun
    from juzhen.core.examples import Kind

    run = ScoredRun(run_folder, data_dir=data_dir, batch_tokens=batch_tokens)
    folder = output or run.folder / "analysis"
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[list[str]] = []
    notes: list[str] = []
    names = run.choose(sets, (Kind.LABELLED_PAIR,))
    require_same_weights([folder / f"calibration-{name}.json" for name in names], run.weights)
    require_ours(*(folder / f"calibration-{name}.svg" for name in names))
    for name, report in fitted_sets(names, partial(calibrate_set, run), notes):
        write_json(folder / f"calibration-{name}.json", report)
        if not no_plot:
            draw_reliability(report, folder / f"calibration-{name}.svg")
        for method in METHODS:
            one = report[method]
            numbers = ", ".join(f"{value:.4g}" for value in report["fitted"].get(method, ()))
            judged = [f"{one[measure]:.4f}" for measure in ("ece", "brier", "nll")]
            lines.append([name, str(report["rows"]), method, numbers or "–", *judged])
        notes.append(f"{name}: {report['how']}")
    head = ("set", "rows", "scaling", "T or a, b", "ECE", "Brier", "NLL")
    print("\n".join([markdown_table(head, lines, numbers=(1, 4, 5, 6)), "", *notes]))
    print(f"written to {folder}", file=sys.stderr)


def fitted_sets(
    names: Sequence[str], fit: Callable[[str], dict[str, Any]], notes: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What `fit` says of each set; of one that nothing can be fitted on, `notes` say why.

    Raises UserError where that is so of all.
    """
    from juzhen.calibration.calibration import UnfitError

    unfit = []
    for name in names:
        try:
            report = fit(name)
        except UnfitError as error:
            unfit.append(f"{name}: {error}")
            continue
        yield name, report
    if len(unfit) == len(names):
        raise UserError("; ".join(unfit))
    notes += unfit


def calibrate_set(run: "ScoredRun", name: str) -> dict[str, Any]:
    from juzhen.calibration.calibration import calibrated
    from juzhen.calibration.run_scores import fitting_and_judging

    fitted, judged, how = fitting_and_judging(run, name)
    return {
        "run": str(run.folder),
        "weights": run.weights,
        "set": name,
        "how": how,
        "rows": len(judged.scores),
        "rows_fitted_on": len(fitted.scores),
        **calibrated((fitted.scores, fitted.gold), (judged.scores, judged.gold)),
    }


def require_same_weights(paths: Sequence[Path], weights: str | list[str]) -> None:
    """Raises UserError for a file in the way that is not ours, or tells of other weights: both are to be kept."""
    require_ours(*paths)
    for path in paths:
        if path.exists() and read_json(path)["weights"] != weights:
            raise UserError(
                f"{path}: is of other runs, and would be replaced; type --output <another folder>"
            )


def require_matplotlib(otherwise: str = "") -> None:
    """Raises UserError where there is no matplotlib: better before scores are computed than after.

    otherwise  end of the message: what can be done instead
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UserError(f"the picture needs matplotlib: pip install -e '.[analysis]'{otherwise}") from None


def draw_reliability(report: dict[str, Any], path: Path) -> None:
    """Share of positives over probability, one panel per scaling; bars below show where the rows are."""
    from matplotlib.figure import Figure

    from juzhen.report.picture import save_picture

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for axes, method in zip(figure.subplots(1, len(METHODS), sharey=True), METHODS, strict=True):
        bins = [one for one in report[method]["bins"] if one["count"]]
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes.bar(
            [one["probability"] for one in bins],
            [one["count"] / report["rows"] for one in bins],
            width=0.03,
            color="0.85",
        )
        axes.plot(
            [one["probability"] for one in bins], [one["positives"] for one in bins], "o-", markersize=3
        )
        axes.set(
            title=f"{method}: ECE {report[method]['ece']:.3f}",
            xlabel="probability",
            xlim=(0, 1),
            ylim=(0, 1),
        )
    figure.axes[0].set_ylabel(f"share of positives, {report['set']}")
    save_picture(figure, path)
