"""Leaks that a run counted itself, on the very rows it trained on, and its score without them."""

import statistics
from collections import Counter
from collections.abc import Sequence

from juzhen.core.result import WITHOUT_LEAKS, Result
from juzhen.report.leaks import Leak, Rest
from juzhen.report.matrix import Row


def counted_leak(row: Row, column: str, metric: str, seeds: Sequence[int]) -> Leak | None:
    """What `evaluation.without_leaks` found of a cell; None unless the results of all its seeds have it.

    Of several seeds, which may have drawn other rows under a limit, means; an undefined rest of one seed leaves
    the others' mean.
    """
    counting = [_counting(row.runs.results[seed], column) for seed in seeds]
    results = [one for one in counting if one is not None]
    if not results or len(results) < len(counting):
        return None
    found = [one.data[column]["leaked"] for one in results]
    rows = round(statistics.fmean(one["rows"] for one in found))
    share = statistics.fmean(one["share"] for one in found)
    by_set: Counter[str] = Counter()
    for one in found:
        by_set.update(one["by_set"])
    source = max(by_set, key=lambda name: by_set[name], default="")
    return Leak(source, rows, share, is_counted=True, rest=_rest(results, f"{column}/{metric}"))


def _counting(results: Sequence[Result], column: str) -> Result | None:
    """The latest result that counted, if the latest that read the set read the same rows."""
    read = [one for one in reversed(results) if column in one.data]
    counted = next((one for one in read if one.data[column].get("leaked")), None)
    if counted is None or counted.data[column].get("fingerprint") != read[0].data[column].get("fingerprint"):
        return None
    return counted


def _rest(results: Sequence[Result], key: str) -> Rest | None:
    """None where no row was seen, or the metric has no second number."""
    scores = [(one.scores.get(key), one.scores.get(f"{key}{WITHOUT_LEAKS}")) for one in results]
    pairs = [(whole, rest) for whole, rest in scores if whole is not None and rest is not None]
    if not pairs:
        return None
    defined = [(whole, rest) for whole, rest in pairs if None not in (whole.value, rest.value)]
    if not defined:
        mean = _mean([whole.value for whole, _ in pairs])
        return Rest(mean, None, None, None, max(rest.count for _, rest in pairs))
    value, low, high = (
        _mean([getattr(rest, name) for _, rest in defined]) for name in ("value", "low", "high")
    )
    count = round(statistics.fmean(rest.count for _, rest in defined))
    return Rest(_mean([whole.value for whole, _ in defined]), value, low, high, count)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return statistics.fmean(known) if len(known) == len(values) else None
