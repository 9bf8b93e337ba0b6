"""What is fitted on the sets of finished runs: scalings of one run's scores, and two runs as one score."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from juzhen.calibration.calibration import UnfitError, calibrated
from juzhen.calibration.fusion import fit_weight, standardised
from juzhen.calibration.run_scores import ScoredEncoder, ScoredRun, fitting_and_judging
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.file_guard import check_overwritable
from juzhen.core.safe_open import read_shaped
from juzhen.core.schema import Text
from juzhen.evaluation.decisions import fitted_threshold
from juzhen.evaluation.scoring import score_set

FUSED_KINDS = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
BOOTSTRAP_SAMPLES = 1000


def fitted_sets(
    names: Sequence[str], fit: Callable[[str], dict[str, Any]], notes: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The report of each set; of one that nothing can be fitted on, `notes` say why.

    Raises UserError where that is so of all.
    """
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


class FittedOn(TypedDict):
    weights: Text | list[Text]


def require_same_weights(paths: Sequence[Path], weights: str | list[str]) -> None:
    """Raises UserError for a file in the way that is not ours, or tells of other weights: both are to be kept."""
    check_overwritable(*paths)
    for path in paths:
        remedy = "Type --output <another folder>"
        if path.exists() and read_shaped(path, FittedOn, remedy)["weights"] != weights:
            raise UserError(
                f"{path}: is of other runs, and would be replaced; type --output <another folder>"
            )


def calibrate_set(run: ScoredEncoder, name: str) -> dict[str, Any]:
    """Scalings that were fitted on a set of 0/1 pairs, and how they do on rows that they were not fitted on."""
    fitted, judged, note = fitting_and_judging(run, name)
    dev, test = run.scored(name, "dev"), run.scored(name, "test")
    assert dev is not None  # it was fitted on
    threshold = fitted_threshold(dev.labelled, None if test is None else test.labelled)
    return {
        "run": str(run.source),
        "weights": run.weights,
        "set": name,
        "how": note,
        "rows": len(judged.scores),
        "rows_fitted_on": len(fitted.scores),
        "threshold": asdict(threshold),
        **calibrated(fitted.labelled, judged.labelled),
    }


def fuse_set(runs: Sequence[ScoredRun], name: str, *, seed: int) -> dict[str, Any]:
    """Scores of both runs and of their fusion on one set. Raises UserError when the runs have seen other rows."""
    first, second = (fitting_and_judging(run, name) for run in runs)
    fitted, judged, note = first
    for rows, other_rows in zip(first[:2], second[:2], strict=True):
        if rows.examples.fingerprint != other_rows.examples.fingerprint:
            raise UserError(
                f"{name}/{rows.examples.split}: the two runs have seen other rows; fuse runs on the same files"
            )
    scores = {
        "first": standardised(fitted.scores, judged.scores),
        "second": standardised(second[0].scores, second[1].scores),
    }
    grades = fitted.examples.grades()
    assert grades is not None  # the kinds that are fused have an order
    weight = fit_weight(scores["first"][0], scores["second"][0], grades)
    scores["fused"] = tuple(weight * a + (1 - weight) * b for a, b in zip(*scores.values(), strict=True))
    measures = {
        who: score_set(
            judged_scores,
            # Half of dev is judged by thresholds of the other half, as a test split is by those of dev.
            replace(judged.examples, split="test"),
            dev=(fitted_scores, fitted.examples),
            bootstrap_samples=BOOTSTRAP_SAMPLES,
            seed=seed,
        )
        for who, (fitted_scores, judged_scores) in scores.items()
    }
    report: dict[str, Any] = {"fitted": {}}
    if judged.examples.kind is Kind.LABELLED_PAIR:
        labelled = tuple(zip(scores["fused"], (fitted.gold, judged.gold), strict=True))
        report = calibrated(*labelled) | {"threshold": asdict(fitted_threshold(*labelled))}
    return {
        "runs": [str(run.folder) for run in runs],
        "weights": [run.weights for run in runs],
        "set": name,
        "how": note,
        "rows": len(judged.scores),
        "alpha": weight,
        "means": [float(rows[0].scores.mean()) for rows in (first, second)],
        "deviations": [float(rows[0].scores.std()) for rows in (first, second)],
        **{
            who: {metric: asdict(score) for metric, score in by_metric.items()}
            for who, by_metric in measures.items()
        },
        "fitted": report.pop("fitted"),
        **({"threshold": report.pop("threshold")} if "threshold" in report else {}),
        "calibration": report,
    }
