"""Leaks of the cells of a matrix: from an audit, or counted by a run on its training rows."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from juzhen.core.errors import UserError
from juzhen.core.result import WITHOUT_LEAKS, Column, Result, Score
from juzhen.core.safe_open import read_json
from juzhen.core.schema import Text, Whole, require_form
from juzhen.core.text import short
from juzhen.data.spec import parents
from juzhen.report.training import chosen_layout, train_files

FORMAT_VERSION = 1
LEAKY_SHARE = 0.01
"""Share of leaked evaluation rows from which a cell is marked. Fewer can hardly move a correlation by a point."""


@dataclass(frozen=True)
class Leak:
    """Evaluation rows that a row of the matrix has seen in training.

    Attributes:
        source: Training set with the most shared rows.
        rows: Evaluation rows with an exact or near duplicate in training. An audit counts those in `source` only, so
            the true number may be larger with several sets.
        share: Share of the split, as a fraction.
        is_counted: True if the run counted on its training rows. False if an audit counted in whole training sets.
        unseen: Score without these rows, if the run has it. Its value is None if no row is left, or if it is undefined.
        score: Score on all rows, from the same results.
    """

    source: str
    rows: int
    share: float
    is_counted: bool = False
    unseen: Score | None = None
    score: float | None = None

    @property
    def is_marked(self) -> bool:
        return self.share >= LEAKY_SHARE

    @property
    def counted_by(self) -> str | None:
        return "run" if self.is_counted else "audit" if self.rows else None


NO_LEAK = Leak("", 0, 0.0)


class SetFile(TypedDict):
    fingerprint: Text


class CellFile(TypedDict):
    train: Text
    evaluation: Text
    rows: Whole
    exact_pairs: Whole | None
    near_pairs: Whole | None


class AuditFile(TypedDict):
    """Required keys of an audit file."""

    format_version: Whole
    train: list[Text]
    sets: dict[Column, SetFile]
    cells: list[CellFile]


class Audit:
    """The cells of an audit file of `juzhen leaks`. Its `lcqmc/dev` is the column `dev/lcqmc`."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self.train = {name.split("/")[0] for name in report["train"]}
        self._sets = {_column(name): rows for name, rows in report["sets"].items()}
        self._cells = {
            (cell["train"].split("/")[0], _column(cell["evaluation"])): cell for cell in report["cells"]
        }

    @classmethod
    def read(cls, path: Path) -> "Audit":
        """Read an audit file.

        Raises:
            UserError: The file is missing, or not an audit of pairs.
        """
        try:
            report = read_json(path)
            require_form(report, AuditFile, "it")
            if report["format_version"] != FORMAT_VERSION:
                raise ValueError(
                    f"format_version={report['format_version']}: this version reads {FORMAT_VERSION}. Write it again"
                )
            return cls(report)
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
        except (ValueError, RecursionError) as error:
            problem = f"not an audit of pairs ({short(str(error), 200)})"
        raise UserError(f"--leaks {path}: {problem}. juzhen leaks writes one")

    def leak(self, trained: Iterable[str], column: str, fingerprint: str | None) -> Leak | None:
        """Find the largest leak from any of the training sets.

        Args:
            column: `split/dataset`.
            trained: Training sets.
            fingerprint: Fingerprint of the scored evaluation rows, or None if unknown.

        Returns:
            The leak, or None if a set was not audited, or against other rows.
        """
        audited = self._sets.get(column)
        if audited is None or fingerprint not in (None, audited["fingerprint"]):
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
    dataset, _, split = name.partition("/")
    return f"{split}/{dataset}"


def leak_of(
    seeds: Sequence[Sequence[Result]], key: str, sets: Sequence[str], result: Result, audit: Audit | None
) -> Leak | None:
    """Find the leak of a cell. Counts of the runs win over the audit.

    Args:
        seeds: Results of each seed, oldest first.
        key: `split/dataset/metric`.
        sets: Training sets of the row.
        result: A result that measured the cell.
        audit: Leak audit.

    Returns:
        The leak, or None if neither has it.
    """
    column = key.rpartition("/")[0]
    if leak := _counted_leak(seeds, key) if sets else None:
        return leak
    if not sets or result.config.get("filter_leaks"):
        return NO_LEAK  # nothing was learnt from, or the leaked rows were left out
    if audit is None:
        return None
    audited: list[str] = []
    for name in sets:
        parts = [part for part in parts_of(name, result.config) if part != name]
        audited += parts if name not in audit.train and parts else [name]
    return audit.leak(audited, column, result.data.get(column, {}).get("fingerprint"))


def parts_of(name: str, config: Mapping[str, Any]) -> list[str]:
    """List a set, its component sets as far as the configuration knows them, and sets that it was derived from."""
    described = {**(config.get("evaluate") or {}), **config["dataset"]}
    files = {other: set(train_files(chosen_layout(node))) for other, node in described.items()}
    inside = [other for other, names in files.items() if names and names <= files.get(name, set())]
    made_of = parents(str((described.get(name) or {}).get("origin") or ""))
    return list(dict.fromkeys([name, *inside, *made_of]))


def _counted_leak(seeds: Sequence[Sequence[Result]], key: str) -> Leak | None:
    """Read the counts of `evaluation.without_leaks`, if the results of all seeds have them.

    Several seeds, which may have drawn other rows under a limit, are averaged. An undefined rest of one seed is left
    out.
    """
    column, without = key.rpartition("/")[0], f"{key}{WITHOUT_LEAKS}"
    results = [result for runs in seeds if (result := _counting(runs, column)) is not None]
    if not results or len(results) < len(seeds):
        return None
    leaks = [result.data[column]["leaked"] for result in results]
    by_set = sum((Counter(leak.get("by_set", {})) for leak in leaks), Counter[str]())
    # None of the seeds has a second score where no row was seen, or the metric has no second number.
    pairs = [
        (result.scores[key], result.scores[without])
        for result in results
        if {key, without} <= result.scores.keys()
    ]
    defined = [pair for pair in pairs if None not in (pair[0].value, pair[1].value)]
    count = _mean([unseen.count for _, unseen in defined]) or max(
        (unseen.count for _, unseen in pairs), default=0
    )
    value, low, high = (
        _mean([getattr(unseen, name) for _, unseen in defined]) for name in ("value", "low", "high")
    )
    return Leak(
        source=max(by_set, key=by_set.__getitem__, default=""),
        rows=round(statistics.fmean(leak["rows"] for leak in leaks)),
        share=statistics.fmean(leak["share"] for leak in leaks),
        is_counted=True,
        unseen=Score(value, low, high, round(count)) if pairs else None,
        score=_mean([all_rows.value for all_rows, _ in defined or pairs]),
    )


def _counting(results: Sequence[Result], column: str) -> Result | None:
    """The latest result with counts, if the latest result of the set read the same rows."""
    read = [result for result in reversed(results) if column in result.data]
    counted = next((result for result in read if result.data[column].get("leaked")), None)
    if counted is None or counted.data[column].get("fingerprint") != read[0].data[column].get("fingerprint"):
        return None
    return counted


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return statistics.fmean(numbers) if numbers and len(numbers) == len(values) else None
