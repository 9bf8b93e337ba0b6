"""The score from which two sentences count as the same: fitted on the dev split of a set, judged on its test split."""

from collections.abc import Mapping

import numpy as np

from juzhen.core.kinds import RANKED, Kind
from juzhen.core.result import Threshold
from juzhen.core.row_scores import SetRows
from juzhen.metrics.threshold import decisions_at, fit_threshold

TEST, HALVES = "test", "halves of dev"

DECIDED = (Kind.LABELLED_PAIR, *RANKED)
"""Kinds of sets that a threshold is fitted on."""

Labelled = tuple[np.ndarray, np.ndarray]
"""Scores of rows, and their 0/1 labels."""


def fitted_thresholds(rows: Mapping[str, SetRows]) -> dict[str, Threshold]:
    """Name of each set of DECIDED kinds that has a dev split → its threshold.

    rows  `split/dataset` → what its rows were scored to
    """
    thresholds = {}
    for column, dev in rows.items():
        split, _, name = column.partition("/")
        if split == "dev" and dev.kind in DECIDED:
            test = rows.get(f"test/{name}")
            thresholds[name] = fitted_threshold(labelled(dev), None if test is None else labelled(test))
    return thresholds


def labelled(rows: SetRows) -> Labelled:
    """Scores and labels of 0/1 pairs. Rows that rank give two: the own text as 1, and the nearest other as 0."""
    if rows.kind not in RANKED:
        return rows["score"], rows["gold"]
    right, other = (rows[name][np.isfinite(rows["other"])] for name in ("score", "other"))
    return np.concatenate([right, other]), np.repeat([1, 0], len(right))


def fitted_threshold(dev: Labelled, test: Labelled | None) -> Threshold:
    """The threshold with the best accuracy on dev, and what it decides on test; without test on halves of dev."""
    (scores, labels), judged_on = dev, HALVES if test is None else TEST
    if len(np.unique(labels)) < 2:
        return Threshold(None, len(labels), judged_on, why="the dev split has pairs of one label alone")
    value = fit_threshold(scores, labels, objective="accuracy")
    judged_scores, judged_labels = test or dev
    reached = decisions_at(judged_scores, judged_labels, threshold=value if test else None)
    why = None
    if not np.isfinite(value):
        answer = "different" if value > 0 else "the same"
        why = f"on dev no score does better than calling all pairs {answer}"
    return Threshold(value if why is None else None, len(labels), judged_on, *reached, why=why)
