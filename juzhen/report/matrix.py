"""The transfer matrix: row = trained on, column = evaluated on, cell = one metric over the seeds."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from juzhen.core.errors import UserError
from juzhen.core.measures import is_beside
from juzhen.core.named import name_of
from juzhen.core.result import WITHOUT_LEAKS, Result, Score
from juzhen.report.identity import Identity, identify, row_name
from juzhen.report.labels import label_rows

SPLITS = ("test", "dev")
"""Evaluation splits, the one preferred in a table first."""

BOTH = "both"

BASELINES = ("", "lexical")
"""`trained_on` of rows that no training made."""

LEXICAL = {"lexical": "TF-IDF", "bm25": "BM25"}
"""Name of a model without an encoder → how it scores."""


@dataclass(frozen=True)
class Cell:
    """A metric of one row on one set, as a fraction.

    mean       over the seeds that have a value
    std        sample standard deviation over seeds, None below two
    low, high  95 % bootstrap interval, only for a single seed
    num_seeds  seeds that have a value
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None
    num_seeds: int


@dataclass(frozen=True)
class Row:
    """All runs that differ in nothing but their seed.

    trained_on  see Identity
    setup       backbone and loss in words
    cells       `split/dataset` → Cell; a score that is null or was never asked for is absent
    runs        what the cells were computed from
    """

    label: str
    trained_on: str
    setup: str
    num_seeds: int
    cells: Mapping[str, Cell]
    runs: "Runs" = field(default_factory=lambda: Runs(""), repr=False, compare=False)

    @property
    def latest(self) -> Result:
        """One of its results: all agree in what they have learnt from."""
        return list(self.runs.results.values())[-1][-1]


@dataclass(frozen=True)
class Matrix:
    """columns  `split/dataset` keys in the order of the suite; a column never mixes two splits
    counted  of these one for each set, so that an average counts a set once
    hidden   columns of other splits that have a value, and are not shown
    """

    metric: str
    rows: Sequence[Row]
    columns: list[str]
    counted: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)


@dataclass
class Runs:
    """What is gathered of one row: seed → metric key → Score, and seed → the Results they are from, oldest first.

    names  that sweeps gave to it
    """

    setup: str
    names: list[str] = field(default_factory=list)
    scores: dict[int, dict[str, Score]] = field(default_factory=dict)
    results: dict[int, list[Result]] = field(default_factory=dict)


def build_matrix(results: Sequence[Result], *, metric: str, split: str | None = None) -> Matrix:
    """The matrix of `metric` over all results; baselines first, then by length of the curriculum and name.

    Of several results with the same settings and seed the latest counts.

    split  dev, test, or both: each set's dev beside its test, where it has values. None: one column of each set, of the
           split that most rows have a value for, test if equal

    Raises UserError when no result has the metric, or none the split.
    """
    runs = _gather(results)
    known = sorted(
        {key.split("/")[-1] for one in runs.values() for found in one.scores.values() for key in found}
    )
    if metric not in known:
        raise UserError(f"metric={metric}: the results hold {', '.join(known) or 'no score at all'}")
    identities = list(runs)
    rows = [
        Row(
            label=label,
            trained_on=identity.trained_on,
            setup=runs[identity].setup,
            num_seeds=len(runs[identity].scores),
            cells=_cells(list(runs[identity].scores.values()), metric),
            runs=runs[identity],
        )
        for identity, label in zip(
            identities, label_rows(identities, [", ".join(one.names) for one in runs.values()]), strict=True
        )
    ]
    rows.sort(key=_row_order)
    chosen = partial(_columns, list(runs.values()), rows, metric=metric)
    columns = chosen(split)
    filled = {column for row in rows for column in row.cells}
    return Matrix(
        metric=metric,
        rows=rows,
        columns=columns,
        counted=columns if split != BOTH else chosen(None),
        hidden=[one for one in chosen(BOTH) if one in filled - {*columns}],
    )


def _gather(results: Sequence[Result]) -> dict[Identity, Runs]:
    runs: dict[Identity, Runs] = {}

    def add(result: Result, scores: Mapping[str, Score], *, before_training: bool) -> None:
        identity = identify(result, before_training=before_training)
        row = runs.setdefault(identity, Runs(_setup(result, identity)))
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
    return runs


def _setup(result: Result, identity: Identity) -> str:
    if identity.trained_on == "lexical":
        return LEXICAL[name_of(result.config["model"])]
    backbone = str(result.config["backbone"]["path"])
    return f"{backbone}, {name_of(result.config['loss'])}" if identity.trained_on else backbone


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


def _columns(runs: Sequence[Runs], rows: Sequence[Row], split: str | None, *, metric: str) -> list[str]:
    """`split/dataset` of the sets that `metric` is for, also if every score of one is null; as `build_matrix` says."""
    keys = [key for one in runs for scores in one.scores.values() for key in scores]
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
    for dataset in _suite_order(runs, asked):
        in_order = [*(one for one in SPLITS if one in asked[dataset]), *(asked[dataset] - {*SPLITS})]
        candidates = [f"{one}/{dataset}" for one in in_order]
        if split is None:
            columns.append(max(candidates, key=filled))  # the first of the best
        elif split == BOTH:
            columns += [one for one in reversed(candidates) if filled(one)] or candidates[:1]
        else:
            columns += [one for one in candidates if one.startswith(f"{split}/")]
    return columns


def _suite_order(runs: Sequence[Runs], names: Iterable[str]) -> list[str]:
    """The sets in the order of the suites that runs were evaluated on, the longest first; then the others by name."""
    suites = [
        one.config.get("evaluate") or {} for run in runs for found in run.results.values() for one in found
    ]
    listed = dict.fromkeys(name for suite in sorted(suites, key=len, reverse=True) for name in suite)
    known = set(names)
    return [*(name for name in listed if name in known), *sorted(known - listed.keys())]


def _row_order(row: Row) -> tuple[int, int, str]:
    baseline = {"lexical": 0, "": 1}.get(row.trained_on, 2)
    return baseline, row.trained_on.count(">") + row.trained_on.count("+"), row.label
