"""Reasons for an undefined metric, in words. Those of the gold values are known before training."""

import numpy as np

from juzhen.core.examples import Examples, Kind
from juzhen.core.kinds import CLASS_MEANS, CORRELATIONS, MEASURES
from juzhen.metrics.correlation import POSITIVE_ABOVE

OF_THRESHOLDS = ("accuracy", "f1", "mcc")
OF_BOTH_LABELS = ("average_precision", "auc", "ks", "ks_p_value")

NO_OTHERS = "no row has another text that it is told from"
TOO_FEW_CLASSES = "fewer than two classes have two rows"


def undefined_reason(metric: str, rows: Examples) -> str | None:
    """Reason why the metric is undefined for these gold values. None: it is defined.

    Args:
        metric: Name of the metric.
        rows: The rows with their gold values.

    Returns:
        A clause for a message, or None.

    >>> rows = Examples.from_texts(
    ...     "a", "dev", kind=Kind.LABELLED_PAIR, texts={"text_a": ["x"] * 3, "text_b": ["y"] * 3}, targets=[1, 1, 1]
    ... )
    >>> undefined_reason("auc", rows), undefined_reason("spearman", rows)
    ('no row is negative', 'all gold values are equal')
    """
    if not len(rows):
        return "there are no rows"
    if rows.kind is Kind.POSITIVE_PAIR and metric in MEASURES[rows.kind]:
        is_alone = any((texts == texts[0]).all() for texts in rows.columns.values())
        return NO_OTHERS if is_alone else None
    if rows.targets is None:
        return None
    if metric in (CLASS_MEANS, "macro_f1"):
        counts = np.unique(rows.targets, return_counts=True)[1]
        if metric == CLASS_MEANS:
            return TOO_FEW_CLASSES if (counts >= 2).sum() < 2 else None
        return "all rows are of one class" if len(counts) < 2 else None
    if (grades := rows.grades()) is None:
        return None
    if metric in CORRELATIONS:
        if len(grades) < 2:
            return "there is one row"
        return "all gold values are equal" if (grades == grades[0]).all() else None
    is_fitted = metric in OF_THRESHOLDS and rows.kind is Kind.LABELLED_PAIR and rows.split == "dev"
    return (
        _why_one_label(grades, least=2 if is_fitted else 1) if is_fitted or metric in OF_BOTH_LABELS else None
    )


def _why_one_label(grades: np.ndarray, *, least: int) -> str | None:
    positives = int((grades > POSITIVE_ABOVE).sum())
    counts = {"positive": positives, "negative": len(grades) - positives}
    rarer = min(counts, key=lambda label: counts[label])
    if counts[rarer] >= least:
        return None
    if not counts[rarer]:
        return f"no row is {rarer}"
    return f"one row is {rarer}, and a threshold is fitted on one half of the rows and judged by the other"
