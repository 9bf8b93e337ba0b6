"""Functions behind calibrate, fuse, compare and quantize, called from Python with what does not fit them."""

from types import SimpleNamespace

import numpy as np
import pytest

from juzhen import MiningOptions, cluster, mine_paraphrases, quantize
from juzhen.calibration.calibration import (
    calibrated,
    calibration_errors,
    expected_calibration_error,
    fit_weight,
    reliability,
    standardised,
)
from juzhen.calibration.run_scores import PairedRuns, ScoredRun, calibrate_set, differences, flips
from juzhen.core.calibration_files import Scaling
from juzhen.core.errors import UserError
from juzhen.core.row_scores import SetRows
from juzhen.encoders.search import ApproximateIndex
from juzhen.metrics.comparison import Scored
from juzhen.metrics.threshold import fit_threshold

SCORES = np.linspace(-1, 1, 8)
LABELS = np.array([0, 1] * 4)
BROKEN = np.where(LABELS, np.nan, SCORES)
VECTORS = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


def rows(kind="labelled_pair", fingerprint="f"):
    places = {name: np.arange(8, dtype=np.int32) for name in ("row", "line")}
    return SetRows(
        kind, fingerprint, places | {"gold": LABELS.astype(np.float32), "score": SCORES.astype(np.float32)}
    )


def run(*columns):
    return SimpleNamespace(
        result=SimpleNamespace(data={column: {"kind": "labelled_pair"} for column in columns})
    )


def pair(*runs):
    paired = object.__new__(PairedRuns)
    paired.runs = runs
    return paired


def calibrate_unknown_set():
    of_run = object.__new__(ScoredRun)
    of_run.source, of_run.result = "runs/a", SimpleNamespace(data={})
    calibrate_set(of_run, "nope")


OTHER_ROWS = Scored(rows(), 0.0), Scored(rows(fingerprint="of another file"), 0.0)


def both():
    columns = ("dev/a", "test/a", "dev/b")
    return pair(run(*columns), run(*columns, "test/c"))


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (lambda: reliability(2 * SCORES, LABELS), "probabilities"),
        (lambda: reliability(BROKEN, LABELS), "probabilities"),
        (lambda: reliability(abs(SCORES), LABELS * 2), "labels"),
        (lambda: reliability(abs(SCORES), LABELS, num_bins=0), "num_bins"),
        (lambda: reliability(abs(SCORES), LABELS, num_bins=2.5), "num_bins"),
        (lambda: expected_calibration_error([]), "bins"),
        (lambda: calibration_errors(BROKEN, LABELS), "logits"),
        (lambda: calibration_errors([], []), "logits"),
        (lambda: calibration_errors(SCORES, LABELS * 5), "labels"),
        (lambda: calibrated((SCORES, LABELS), (SCORES, LABELS * 5)), "labels"),
        (lambda: fit_weight(BROKEN, SCORES, LABELS), "first"),
        (lambda: standardised(BROKEN, SCORES), "fitted"),
        (lambda: standardised([], SCORES), "fitted"),
        (lambda: fit_threshold(SCORES, LABELS, objective="recall"), "objective"),
        (lambda: fit_threshold(SCORES, LABELS[:3], objective="f1"), "8 scores, 3 labels"),
        (lambda: Scaling("x.json", {"platt": [1, 0]}, None).logits(0.5, "isotonic"), "scaling"),
        (lambda: Scaling("x.json", {}, None).logits(0.5, "platt"), "scaling=platt"),
        (lambda: quantize(VECTORS, "binary", ranges=np.ones((2, 4))), "ranges"),
        (lambda: quantize(VECTORS, whole=VECTORS[:, :2]), "whole"),
        (lambda: quantize(VECTORS, rescore=1.5), "rescore"),
        (lambda: ApproximateIndex(VECTORS, "lsh"), "kind"),
        (lambda: ApproximateIndex(VECTORS[:0], "flat"), "documents"),
        (lambda: cluster(VECTORS, 2, seed=-1), "seed"),
        (lambda: mine_paraphrases(VECTORS, max_pairs=1.5), "max_pairs"),
        (lambda: MiningOptions(num_negatives=1.5), "num_negatives"),
        (lambda: PairedRuns("runs/a", data_dir=None, batch_tokens=1), "folders"),
        (lambda: PairedRuns([], data_dir=None, batch_tokens=1), "folders"),
        (lambda: differences(*OTHER_ROWS, metric=None), ".*other rows"),
        (lambda: flips(*OTHER_ROWS), ".*other rows"),
        (calibrate_unknown_set, "set=nope"),
        *(
            (
                lambda sets=sets: pair(run("dev/a"), run("dev/b")).columns(None, sets),
                ".*no evaluation set in common",
            )
            for sets in (None, ["a"], ["nope"])
        ),
        *(
            (lambda split=split, sets=sets: both().columns(split, sets), key)
            for split, sets, key in (
                ("valid", None, "split=valid"),
                ("train", None, "split=train"),
                (None, ["nope"], "set=nope"),
                ("test", ["a", "b"], "split=test.* b "),  # half of an answer
                ("test", ["b"], "split=test.* b "),
            )
        ),
        (lambda: both().scored("test/nope"), "column=test/nope"),
    ],
)
def test_what_gives_no_right_number_is_refused(call, key):
    with pytest.raises(UserError, match=f"^({key})"):
        call()


def test_columns_of_pairs_of_runs():
    paired = both()
    assert paired.columns(None, None) == ["test/a", "dev/b"]
    assert paired.columns("both", "a") == ["dev/a", "test/a"]  # one name is no list of letters


def test_numbers_of_numpy_are_options():
    options = MiningOptions(range_max=np.int64(9), num_negatives=np.int32(2), relative_margin=np.float32(0.5))
    assert {type(value) for value in (options.range_max, options.num_negatives)} == {int}
    assert type(options.relative_margin) is float
    assert len(quantize(VECTORS, rescore=np.int64(2), whole=VECTORS)) == 8
    assert len({*cluster(VECTORS, np.int64(3), seed=np.int64(1)).tolist()}) == 3
