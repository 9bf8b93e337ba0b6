"""The table of thresholds: from which score on a pair counts as the same, and how good these decisions are."""

from collections.abc import Iterable

from juzhen.core.result import Threshold
from juzhen.report.table import MISSING, ReportTable

HEAD = ("set", "same from", "accuracy", "precision", "recall", "F1", "judged on")


def decision_table(thresholds: Iterable[tuple[str, Threshold]]) -> ReportTable:
    """A line for each set that has a threshold; shares ×100."""
    listed, body, reasons = list(thresholds), [], []
    for name, threshold in listed:
        shares = (threshold.accuracy, threshold.precision, threshold.recall, threshold.f1)
        texts = [MISSING if share is None else f"{100 * share:.1f}" for share in shares]
        value = MISSING if threshold.value is None else threshold_text(threshold.value)
        body.append((name, value, *texts, threshold.judged_on))
        reasons += [f"{name}: {threshold.why}." for _ in range(threshold.why is not None)]
    note = " ".join(
        ["A pair counts as the same from the score on that has the best accuracy on dev.", *reasons]
    )
    return ReportTable("decisions", "Same or not, ×100", note, HEAD, body)


def threshold_text(value: float) -> str:
    """As many digits as tell scores apart that are shown."""
    return f"{value:.4f}"
