"""The transfer matrix: row = trained on, column = evaluated on, cell = one metric over the seeds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from juzhen.core.commands import command
from juzhen.core.errors import UserError
from juzhen.core.measures import is_beside
from juzhen.core.named import name_of
from juzhen.core.reading import as_read
from juzhen.core.result import WITHOUT_LEAKS, Result
from juzhen.report.identity import Identity, identify, label_rows, row_name
from juzhen.report.leaks import Audit, Leak, leak_of, parts_of

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
    """A metric of one row on one set, as a fraction.

    mean, std      over the seeds that have a value; sample deviation, None below two
    low, high      95 % bootstrap interval; of several seeds the mean of their bounds
    values         seed → value
    count          evaluation rows, None where the result does not say
    in_domain      the row was trained on this set (on its train split, alone or among others)
    leak           as the runs counted it, else as the audit did; None: neither
    command        what was typed for the run, of the first seed; "" where the result does not say
    commit         of the code, "" likewise; a `+` at its end: with changes that were not committed
    below_lexical  the lexical baseline does better on the same split
    is_best        no row does better, and none above it as well
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None
    values: Mapping[int, float]
    count: int | None
    in_domain: bool
    leak: Leak | None
    command: str
    commit: str
    below_lexical: bool = False
    is_best: bool = False

    @property
    def num_seeds(self) -> int:
        return len(self.values)

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
    results     seed → the Results of its runs, oldest first
    names       that sweeps gave to it
    cells       `split/dataset` → Cell; a score that is null or was never asked for is absent
    reasons     `split/dataset` → why a set that was evaluated has no value
    """

    trained_on: str
    setup: str
    results: dict[int, list[Result]] = field(repr=False)
    names: list[str]
    label: str = ""
    cells: Mapping[str, Cell] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_seeds(self) -> int:
        return len(self.results)

    @property
    def is_trained(self) -> bool:
        return self.trained_on not in BASELINES

    @property
    def sets(self) -> list[str]:
        """What it was trained on, in order, each once: "a>b+a" → a, b; none for a baseline."""
        return list(dict.fromkeys(self.trained_on.replace("+", ">").split(">"))) if self.is_trained else []

    @property
    def latest(self) -> Result:
        """One of its results: all agree in what they have learnt from."""
        return list(self.results.values())[-1][-1]


@dataclass(frozen=True)
class Matrix:
    """runs   every run, as `run_frame` has them
    columns  `split/dataset` keys in the order of the suite; a column never mixes two splits
    counted  of these one for each set, so that an average counts a set once
    hidden   columns of other splits that have a value, and are not shown
    """

    metric: str
    rows: Sequence[Row]
    runs: pd.DataFrame
    columns: list[str]
    counted: list[str]
    hidden: list[str]

    def frame(self, name: str, rows: Sequence[Row] | None = None) -> pd.DataFrame:
        """A field of the cells: a line per row, a column per `split/dataset`, NaN where there is no cell."""
        rows = self.rows if rows is None else rows
        lines = {row.label: {key: getattr(cell, name) for key, cell in row.cells.items()} for row in rows}
        columns = dict.fromkeys(
            [*self.columns, *self.counted, *(key for one in lines.values() for key in one)]
        )
        return pd.DataFrame.from_dict(lines, orient="index", columns=None).reindex(
            index=list(lines), columns=list(columns)
        )


def run_frame(results: Sequence[Result]) -> tuple[pd.DataFrame, list[Identity]]:
    """A line for each run, oldest first, and one more for untrained weights that it scored; the identities of the rows.

    Columns: row (number of its identity), key, seed, stage, name (that a sweep gave to its row), seconds and rows_seen
    of its training, scores (metric key → Score), result.
    """
    lines: list[dict[str, Any]] = []
    numbers: dict[Identity, int] = {}
    for result in sorted(results, key=lambda result: result.finished_at):
        # Later stages start from trained weights, so what they measured before training is no untrained row.
        sides = [(True, result.untrained)] if result.untrained and result.stage == 0 else []
        for before, scores in [*sides, (False, result.scores)]:
            number = numbers.setdefault(identify(result, before_training=before), len(numbers))
            lines.append(
                {
                    "row": number,
                    "key": result.key,
                    "seed": result.seed,
                    "stage": result.stage,
                    "name": "" if before else row_name(result),
                    "seconds": result.training.get("train_seconds"),
                    "rows_seen": result.training.get("rows_seen"),
                    "scores": scores,
                    "result": result,
                }
            )
    return pd.DataFrame(lines), list(numbers)


def build_matrix(
    results: Sequence[Result], *, metric: str, split: str | None = None, audit: Audit | None = None
) -> Matrix:
    """The matrix of `metric` over all results; baselines first, then by length of the curriculum and name.

    Of several results with the same settings and seed the latest counts.

    split  dev, test, or both: each set's dev beside its test, where it has values. None: one column of each set, of the
           split that most rows have a value for, test if equal

    Raises UserError when no result has the metric, or none the split.
    """
    runs, identities = run_frame(results)
    scores = pd.DataFrame(
        [
            {"row": run.row, "seed": run.seed, "result": run.result, "key": key} | vars(score)
            for run in runs.itertuples()
            for key, score in run.scores.items()
        ],
        columns=["row", "seed", "result", "key", "value", "low", "high", "count", "why"],
    ).drop_duplicates(
        ["row", "seed", "key"], keep="last"
    )  # equal weights may have been scored by several runs
    scores["column"], scores["metric"] = (scores["key"].str.rpartition("/")[part] for part in (0, 2))
    if metric not in (known := sorted(scores["metric"].unique())):
        raise UserError(f"metric={metric}: the results hold {', '.join(known) or 'no score at all'}")
    rows = []
    for identity, (_, group) in zip(identities, runs.groupby("row"), strict=True):
        of_seeds = {int(seed): list(one) for seed, one in group.groupby("seed", sort=False)["result"]}
        names = list(filter(None, group["name"].unique()))
        rows.append(Row(identity.trained_on, _setup(group["result"].iloc[0], identity), of_seeds, names))
    labels = label_rows(identities, [", ".join(row.names) for row in rows])
    for row, label in zip(rows, _with_devices(labels, rows), strict=True):
        row.label = label
    of_metric = scores[scores["metric"] == metric].sort_values("seed", kind="stable")
    for number, group in of_metric.groupby("row"):
        row = rows[number]
        valued = group[group["value"].notna()]
        row.cells = {
            column: _cell(row, column, cell, audit) for column, cell in valued.groupby("column", sort=False)
        }
        unvalued = group[group["why"].notna() & ~group["column"].isin([*row.cells])]
        row.reasons = dict(
            zip(unvalued["column"][::-1], unvalued["why"][::-1], strict=True)
        )  # of the first seed
    in_order = _suite_order(
        [result for row in rows for results in row.results.values() for result in results]
    )
    rows.sort(key=_row_order)
    beside = scores["metric"].map(lambda name: is_beside(name, metric.removesuffix(WITHOUT_LEAKS)))
    scored = list(scores["column"][beside].unique())
    shown, counted, both = (_columns(scored, in_order, rows, one) for one in (split, None, BOTH))
    _mark(rows)
    filled = {column for row in rows for column in row.cells}
    return Matrix(
        metric=metric,
        rows=rows,
        runs=runs,
        columns=shown,
        counted=counted if split == BOTH else shown,
        hidden=[column for column in both if column in filled - {*shown}],
    )


def _setup(result: Result, identity: Identity) -> str:
    if identity.trained_on == "lexical":
        model = result.config["model"]
        return LEXICAL.get(model.get("method"), LEXICAL[name_of(model)])
    config = as_read(result.config)
    start = str(config["backbone"]["path"] if "backbone" in config else config["init_from"])
    return f"{start}, {name_of(config['loss'])}" if identity.trained_on and "loss" in config else start


def _cell(row: Row, column: str, scores: pd.DataFrame, audit: Audit | None) -> Cell:
    """scores: the lines of the cell, in the order of their seeds, all with a value."""
    first = scores.iloc[0]
    values = [float(value) for value in scores["value"]]
    bounded = bool(scores[["low", "high"]].notna().all(axis=None))
    low, high = (statistics.fmean(scores[end]) if bounded else None for end in ("low", "high"))
    result: Result = first["result"]
    typed, commit = (result.environment.get(key) for key in ("command", "git_commit"))
    parts = {part for name in row.sets for part in parts_of(name, result.config)}
    seeds = [row.results[seed] for seed in scores["seed"]]
    return Cell(
        mean=statistics.fmean(values),
        std=statistics.stdev(values) if len(values) > 1 else None,
        low=low,
        high=high,
        values=dict(zip(map(int, scores["seed"]), values, strict=True)),
        count=next((int(count) for count in scores["count"] if count), None),
        in_domain=column.split("/")[1] in parts,
        leak=leak_of(seeds, first["key"], row.sets, result, audit),
        command=command("python", *typed) if typed else "",
        commit=f"{commit[:10]}{'+' if result.environment.get('git_dirty') else ''}" if commit else "",
    )


def _mark(rows: Sequence[Row]) -> None:
    """Writes into the cells which are best of their column, and which are below the lexical baseline."""
    means = pd.DataFrame([{key: cell.mean for key, cell in row.cells.items()} for row in rows])
    best = means.idxmax() if len(means.columns) else {}
    lexical = means[[row.trained_on == "lexical" for row in rows]].max()
    for number, row in enumerate(rows):
        row.cells = {
            column: replace(
                cell,
                is_best=best[column] == number,
                below_lexical=row.trained_on != "lexical" and bool(cell.mean < lexical[column]),
            )
            for column, cell in row.cells.items()
        }


def _with_devices(labels: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The labels, each with what its row was computed on where that is not one device for all that have an encoder.

    Seeds on several devices are one row, which says so.
    """
    computed: list[list[str]] = []
    for row in rows:
        nodes = [
            node.get("hardware")
            for results in row.results.values()
            for one in results
            for node in (one.config, *one.filled)
        ]
        named = {node["accelerator"] for node in nodes if node and "accelerator" in node}
        computed.append(sorted(named) if row.trained_on != "lexical" else [])
    if len({device for devices in computed for device in devices}) < 2:
        return list(labels)
    return [
        f"{label}, on {' and '.join(devices)}" if devices else label
        for label, devices in zip(labels, computed, strict=True)
    ]


def _columns(
    scored: Sequence[str], in_order: Sequence[str], rows: Sequence[Row], split: str | None
) -> list[str]:
    """Of the scored columns those that `build_matrix` describes; a set all of whose scores are null has one too."""
    if split not in (None, BOTH) and not any(column.startswith(f"{split}/") for column in scored):
        raise UserError(
            f"--split {split}: no result has a score of that split; leave it out, or take another"
        )
    filled = {column: sum(column in row.cells for row in rows) for column in scored}
    sets = dict.fromkeys(column.split("/")[1] for column in scored)
    columns: list[str] = []
    for name in [*(one for one in in_order if one in sets), *sorted(sets.keys() - {*in_order})]:
        candidates = [column for column in scored if column.split("/")[1] == name]
        preferred = [f"{one}/{name}" for one in SPLITS if f"{one}/{name}" in candidates]
        candidates = [*preferred, *(column for column in candidates if column not in preferred)]
        if split is None:
            columns.append(max(candidates, key=filled.__getitem__))  # the first of the best
        elif split == BOTH:
            columns += [column for column in reversed(candidates) if filled[column]] or candidates[:1]
        else:
            columns += [column for column in candidates if column.startswith(f"{split}/")]
    return columns


def _suite_order(results: Sequence[Result]) -> list[str]:
    """Sets in the order of the suites that runs were evaluated on, the longest first."""
    suites = sorted((one.config.get("evaluate") or {} for one in results), key=len, reverse=True)
    return list(dict.fromkeys(name for suite in suites for name in suite))


def _row_order(row: Row) -> tuple[int, int, str]:
    baseline = {"lexical": 0, "": 1}.get(row.trained_on, 2)
    return baseline, row.trained_on.count(">") + row.trained_on.count("+"), row.label
