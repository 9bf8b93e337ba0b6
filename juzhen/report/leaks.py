"""Leaks of the cells of a matrix: what one is, what an audit says, and what a run counted on the rows it trained on."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.opened import read_json
from juzhen.core.result import WITHOUT_LEAKS, Result
from juzhen.core.shape import Entries, Object, require_shape
from juzhen.core.texts import short

FORMAT_VERSION = 1
LEAKY_SHARE = 0.01
"""From this share of leaked evaluation rows on a cell is marked: fewer can hardly move a correlation by a point."""


@dataclass(frozen=True)
class Rest:
    """The score of a cell on the evaluation rows that training has not seen.

    whole      the score on all rows, by the same results
    value      the score on the rest, None where no row is left or they have no correlation
    low, high  95 % interval of `value`
    count      rows of the rest
    """

    whole: float | None
    value: float | None
    low: float | None
    high: float | None
    count: int


@dataclass(frozen=True)
class Leak:
    """What a row of the matrix has seen of an evaluation split.

    source      the training set that shares most with it
    rows        evaluation rows whose pair was trained on, exactly or nearly; by an audit those in `source` alone, so
                that with several sets the true number may be larger
    share       of the split, as a fraction
    is_counted  by the run itself, on the rows it trained on; else by an audit of whole training sets
    rest        the score without these rows, where the run has one
    """

    source: str
    rows: int
    share: float
    is_counted: bool = False
    rest: Rest | None = None

    @property
    def is_marked(self) -> bool:
        return self.share >= LEAKY_SHARE


NO_LEAK = Leak("", 0, 0.0)

COLUMN = r"[^/]+/[^/]+"
COUNT = (int, type(None))
AUDIT = Object(
    {
        "format_version": int,
        "train": [str],
        "sets": Entries(Object({"fingerprint": str}), keys=COLUMN),
        "cells": [
            Object({"train": str, "evaluation": str, "rows": int, "exact_pairs": COUNT, "near_pairs": COUNT})
        ],
    }
)
"""What is read of an audit file."""


class Audit:
    """The cells of one audit file, as `juzhen leaks` writes it."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.train = {name.split("/")[0] for name in report["train"]}
        self._sets = {_column(name): one for name, one in report["sets"].items()}
        self._cells = {
            (one["train"].split("/")[0], _column(one["evaluation"])): one for one in report["cells"]
        }

    @classmethod
    def read(cls, path: Path) -> "Audit":
        """Raises UserError when the file is missing or no audit of pairs."""
        try:
            report = read_json(path)
            require_shape(report, AUDIT, "it")
            if report["format_version"] != FORMAT_VERSION:
                raise ValueError(f"format {report['format_version']}, this version reads {FORMAT_VERSION}")
            return cls(report)
        except OSError as error:
            raise UserError(
                f"--leaks {path}: cannot be read ({error.strerror}); juzhen leaks writes one"
            ) from error
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"--leaks {path}: not an audit of pairs ({short(str(error), 200)}); juzhen leaks writes one"
            ) from error

    def leak(self, trained: Iterable[str], column: str, fingerprint: str | None) -> Leak | None:
        """The largest leak from any of the training sets; None where one was not audited, or against other rows.

        fingerprint  of the evaluation rows that were scored, None where it is not known
        """
        known = self._sets.get(column)
        if known is None or (fingerprint is not None and fingerprint != known["fingerprint"]):
            return None
        largest = NO_LEAK
        for name in trained:
            if name not in self.train:
                return None
            cell = self._cells.get((name, column))
            if cell is None or None in (cell["exact_pairs"], cell["near_pairs"]) or not cell["rows"]:
                continue  # one of the two has no pairs
            rows = cell["exact_pairs"] + cell["near_pairs"]
            if (share := rows / cell["rows"]) > largest.share:
                largest = Leak(name, rows, share)
        return largest


def _column(name: str) -> str:
    """The audit's `lcqmc/dev` as a column of the matrix, `dev/lcqmc`."""
    dataset, _, split = name.partition("/")
    return f"{split}/{dataset}"


def counted_leak(seeds: Sequence[Sequence[Result]], key: str) -> Leak | None:
    """What `evaluation.without_leaks` found of a cell; None unless the results of all its seeds have it.

    seeds  the results of each, oldest first
    key    `split/dataset/metric`

    Of several seeds, which may have drawn other rows under a limit, means; an undefined rest of one seed leaves
    the others' mean.
    """
    column = key.rpartition("/")[0]
    counting = [_counting(results, column) for results in seeds]
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
    return Leak(source, rows, share, is_counted=True, rest=_rest(results, key))


def _counting(results: Sequence[Result], column: str) -> Result | None:
    """The latest result that counted, if the latest that read the set read the same rows."""
    read = [one for one in reversed(results) if column in one.data]
    counted = next((one for one in read if one.data[column].get("leaked")), None)
    if counted is None or counted.data[column].get("fingerprint") != read[0].data[column].get("fingerprint"):
        return None
    return counted


def _rest(results: Sequence[Result], key: str) -> Rest | None:
    """None where no row was seen, or the metric has no second number."""
    keys = (key, f"{key}{WITHOUT_LEAKS}")
    pairs = [[one.scores[name] for name in keys] for one in results if {*keys} <= one.scores.keys()]
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
