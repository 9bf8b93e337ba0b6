"""The transfer matrix: row = trained on, column = evaluated on, cell = one metric over the seeds."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from juzhen.core.errors import UserError
from juzhen.core.measures import is_beside
from juzhen.core.named import name_of
from juzhen.core.reading import as_read
from juzhen.core.result import WITHOUT_LEAKS, Result, Score
from juzhen.report.identity import Identity, identify, row_name
from juzhen.report.labels import label_rows
from juzhen.report.leaks import Leak

SPLITS = ("test", "dev")
"""Evaluation splits, the one preferred in a table first."""

BOTH = "both"

BASELINES = ("", "lexical")
"""`trained_on` of rows that no training made."""

LEXICAL = {"lexical": "TF-IDF", "jaccard": "Jaccard", "dice": "Dice", "bm25": "BM25"}
"""Name of a model without an encoder → how it scores."""


LEAKY, BELOW = "†", "▽"
"""Signs beside a cell: it leaks, it is below the lexical baseline."""


@dataclass(frozen=True)
class Cell:
    """A metric of one row on one set, as a fraction; what has a default, `entries.with_entries` finds for a report.

    mean           over the seeds that have a value
    std            sample standard deviation over seeds, None below two
    low, high      95 % bootstrap interval of a single seed; in a report, of several seeds the mean of their bounds
    num_seeds      seeds that have a value
    values         seed → value
    count          evaluation rows, None where the result does not say
    in_domain      the row was trained on this set (on its train split, alone or among others)
    below_lexical  the lexical baseline does better on the same split
    is_best        no row does better, and none above it as well
    leak           as the runs counted it, else as the audit did; None: neither
    command        what was typed for the run, of the first seed; "" where the result does not say
    commit         of the code, "" likewise; a `+` at its end: with changes that were not committed
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None
    num_seeds: int
    values: tuple[tuple[int, float], ...] = ()
    count: int | None = None
    in_domain: bool = False
    below_lexical: bool = False
    is_best: bool = False
    leak: Leak | None = None
    command: str = ""
    commit: str = ""

    @property
    def is_leaky(self) -> bool:
        return self.leak is not None and self.leak.is_marked

    @property
    def flatters(self) -> bool:
        """It leaks, and not from the set's own train split, where a reader expects it to do well."""
        return self.is_leaky and not self.in_domain

    @property
    def signs(self) -> str:
        return LEAKY * self.is_leaky + BELOW * self.below_lexical


@dataclass
class Row:
    """All runs that differ in nothing but their seed.

    trained_on  see Identity
    setup       backbone and loss in words
    cells       `split/dataset` → Cell; a score that is null or was never asked for is absent
    names       that sweeps gave to it
    scores      seed → metric key → Score
    results     seed → the Results these are from, oldest first
    """

    trained_on: str
    setup: str
    label: str = ""
    cells: Mapping[str, Cell] = field(default_factory=dict)
    names: list[str] = field(default_factory=list, repr=False)
    scores: dict[int, dict[str, Score]] = field(default_factory=dict, repr=False)
    results: dict[int, list[Result]] = field(default_factory=dict, repr=False)

    @property
    def num_seeds(self) -> int:
        return len(self.scores)

    def why_missing(self, column: str, metric: str) -> str | None:
        """Why a set that was evaluated has no value; None where there is one, or nothing is known."""
        if column in self.cells:
            return None
        asked = [scores.get(f"{column}/{metric}") for scores in self.scores.values()]
        return next((score.why for score in asked if score is not None and score.why), None)

    @property
    def latest(self) -> Result:
        """One of its results: all agree in what they have learnt from."""
        return list(self.results.values())[-1][-1]


@dataclass(frozen=True)
class Matrix:
    """columns  `split/dataset` keys in the order of the suite; a column never mixes two splits
    counted  of these one for each set, so that an average counts a set once
    hidden   columns of other splits that have a value, and are not shown
    """

    metric: str
    rows: Sequence[Row]
    columns: list[str]
    counted: list[str]
    hidden: list[str]


def build_matrix(results: Sequence[Result], *, metric: str, split: str | None = None) -> Matrix:
    """The matrix of `metric` over all results; baselines first, then by length of the curriculum and name.

    Of several results with the same settings and seed the latest counts.

    split  dev, test, or both: each set's dev beside its test, where it has values. None: one column of each set, of the
           split that most rows have a value for, test if equal

    Raises UserError when no result has the metric, or none the split.
    """
    found = _gather(results)
    rows = list(found.values())
    known = sorted({key.split("/")[-1] for row in rows for scores in row.scores.values() for key in scores})
    if metric not in known:
        raise UserError(f"metric={metric}: the results hold {', '.join(known) or 'no score at all'}")
    labels = label_rows(list(found), [", ".join(row.names) for row in rows])
    for row, label in zip(rows, _with_devices(labels, rows), strict=True):
        row.label, row.cells = label, _cells(list(row.scores.values()), metric)
    chosen = partial(_columns, list(rows), metric=metric)  # in the order of the results, which settles ties
    rows.sort(key=_row_order)
    columns = chosen(split)
    filled = {column for row in rows for column in row.cells}
    return Matrix(
        metric=metric,
        rows=rows,
        columns=columns,
        counted=columns if split != BOTH else chosen(None),
        hidden=[one for one in chosen(BOTH) if one in filled - {*columns}],
    )


def _gather(results: Sequence[Result]) -> dict[Identity, Row]:
    rows: dict[Identity, Row] = {}

    def add(result: Result, scores: Mapping[str, Score], *, before_training: bool) -> None:
        identity = identify(result, before_training=before_training)
        row = rows.setdefault(identity, Row(identity.trained_on, _setup(result, identity)))
        # Equal weights may have been evaluated by several runs, each on sets of its own.
        row.scores.setdefault(result.seed, {}).update(scores)
        row.results.setdefault(result.seed, []).append(result)
        name = "" if before_training else row_name(result)
        if name and name not in row.names:
            row.names.append(name)

    for result in sorted(results, key=lambda one: one.finished_at):
        # Later stages start from trained weights, so what they measured before training is no untrained row.
        if result.untrained and result.stage == 0:
            add(result, result.untrained, before_training=True)
        add(result, result.scores, before_training=False)
    return rows


def _setup(result: Result, identity: Identity) -> str:
    if identity.trained_on == "lexical":
        model = result.config["model"]
        return LEXICAL.get(model.get("method"), LEXICAL[name_of(model)])
    config = as_read(result.config)
    start = str(config["backbone"]["path"] if "backbone" in config else config["init_from"])
    return f"{start}, {name_of(config['loss'])}" if identity.trained_on and "loss" in config else start


def _cells(seeds: Sequence[Mapping[str, Score]], metric: str) -> dict[str, Cell]:
    cells = {}
    for key in dict.fromkeys(key for scores in seeds for key in scores if key.endswith(f"/{metric}")):
        asked = [scores[key] for scores in seeds if key in scores]
        found = [(score, score.value) for score in asked if score.value is not None]
        if not found:
            continue
        values = [value for _, value in found]
        alone = found[0][0] if len(found) == 1 else Score(None)
        cells[key.rsplit("/", 1)[0]] = Cell(
            mean=statistics.fmean(values),
            std=statistics.stdev(values) if len(values) > 1 else None,
            low=alone.low,
            high=alone.high,
            num_seeds=len(values),
        )
    return cells


def _with_devices(labels: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The labels, each with what its row was computed on where that is not one device for all that have an encoder.

    Seeds on several devices are one row, which says so.
    """
    computed: list[set[str]] = []
    for row in rows:
        of_row = [one for results in row.results.values() for one in results]
        hardware = [one.config.get("hardware") for one in of_row]
        hardware += [fill.get("hardware") for one in of_row for fill in one.filled]
        is_lexical = row.trained_on == "lexical"
        computed.append(
            {one["accelerator"] for one in hardware if one and "accelerator" in one and not is_lexical}
        )
    if len(set().union(*computed)) < 2:
        return list(labels)
    return [
        f"{label}, on {' and '.join(sorted(devices))}" if devices else label
        for label, devices in zip(labels, computed, strict=True)
    ]


def _columns(rows: Sequence[Row], split: str | None, *, metric: str) -> list[str]:
    """`split/dataset` of the sets that `metric` is for, also if every score of one is null; as `build_matrix` says."""
    keys = [key for row in rows for scores in row.scores.values() for key in scores]
    keys = [key for key in keys if is_beside(key.rpartition("/")[2], metric.removesuffix(WITHOUT_LEAKS))]
    asked: dict[str, set[str]] = {}
    for key in keys:
        found, dataset, _ = key.split("/")
        asked.setdefault(dataset, set()).add(found)
    if split not in (None, BOTH) and not any(split in found for found in asked.values()):
        raise UserError(
            f"--split {split}: no result has a score of that split; leave it out, or take another"
        )

    def filled(column: str) -> int:
        return sum(column in row.cells for row in rows)

    columns = []
    for dataset in _suite_order(rows, asked):
        in_order = [*(one for one in SPLITS if one in asked[dataset]), *(asked[dataset] - {*SPLITS})]
        candidates = [f"{one}/{dataset}" for one in in_order]
        if split is None:
            columns.append(max(candidates, key=filled))  # the first of the best
        elif split == BOTH:
            columns += [one for one in reversed(candidates) if filled(one)] or candidates[:1]
        else:
            columns += [one for one in candidates if one.startswith(f"{split}/")]
    return columns


def _suite_order(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """The sets in the order of the suites that runs were evaluated on, the longest first; then the others by name."""
    suites = [
        one.config.get("evaluate") or {} for row in rows for found in row.results.values() for one in found
    ]
    listed = dict.fromkeys(name for suite in sorted(suites, key=len, reverse=True) for name in suite)
    known = set(names)
    return [*(name for name in listed if name in known), *sorted(known - listed.keys())]


def _row_order(row: Row) -> tuple[int, int, str]:
    baseline = {"lexical": 0, "": 1}.get(row.trained_on, 2)
    return baseline, row.trained_on.count(">") + row.trained_on.count("+"), row.label
