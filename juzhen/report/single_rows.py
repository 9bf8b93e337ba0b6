"""Single rows of evaluation sets, for the page's panel: how scores lie by label, and which pairs are worst."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_CLASSES, RANKED, TEXT_COLUMNS, Examples, Kind
from juzhen.core.result import Result
from juzhen.core.row_scores import SetRows
from juzhen.core.schema import validated
from juzhen.core.text import short
from juzhen.report.kept_rows import KeptRows
from juzhen.report.matrix import Row

Plain = dict[str, Any]
BINS = 32
LONGEST = 300
"""Characters of a sentence that the page shows."""

GRADES = ("low grades", "middle grades", "high grades")
"""Thirds of the range of a graded set."""


def scored_sets(
    row: Row, columns: Sequence[str], kept: KeptRows, sentences: "PairTexts", *, worst: int
) -> list[Plain]:
    """For each column, of the first seed that has them: counts of scores by label, threshold, worst pairs.

    worst  so many pairs of each set, whose texts are read from its files; 0: none
    """
    sets: dict[str, Plain] = {}
    for seed, results in row.results.items():
        for result in reversed(results):
            if result.trained_on and not row.is_trained:
                continue  # it measured these weights before it trained them, and its rows are of the others
            scores = kept.of_run(result)
            for column in columns:
                if column in scores and column not in sets and column in row.cells:
                    made = _scored_set(result, column, scores[column], sentences, worst)
                    sets |= {column: {"column": columns.index(column), "seed": seed, **made}} if made else {}
    return [sets[column] for column in columns if column in sets]


def _scored_set(result: Result, column: str, rows: SetRows, sentences: "PairTexts", worst: int) -> Plain:
    if "score" not in rows.columns:
        return {}
    scores = rows["score"].astype(float)
    groups = {name: values[np.isfinite(values)] for name, values in _by_label(rows, scores)}
    groups = {name: values for name, values in groups.items() if len(values)}
    if not groups:
        return {}
    everything = np.concatenate(list(groups.values()))
    ends = (float(everything.min()), float(everything.max()))
    if ends[0] == ends[1]:
        return {}
    threshold = threshold_of(result, column)
    edges = np.linspace(*ends, BINS + 1)
    return {
        "ends": [round(end, 4) for end in ends],
        "counts": {name: np.histogram(values, edges)[0].tolist() for name, values in groups.items()},
        "threshold": threshold,
        "worst": _worst(
            sentences.of(result, column, rows.fingerprint),
            rows,
            worst,
            threshold["exact"] if threshold else None,
        )
        if worst
        else [],
    }


def threshold_of(result: Result, column: str) -> Plain | None:
    """What a run has fitted on the dev split of the set: the score from which on a pair counts as the same."""
    threshold = result.thresholds.get(column.split("/")[1])
    if threshold is None or threshold.value is None:
        return None
    names = ("accuracy", "precision", "recall", "f1")
    numbers = {name: getattr(threshold, name) for name in names}
    return {
        "value": round(threshold.value, 4),
        "exact": threshold.value,
        "on": threshold.judged_on,
        **{name: round(100 * number, 1) for name, number in numbers.items() if number is not None},
    }


def _by_label(rows: SetRows, scores: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    kind = Kind(rows.kind)
    if kind in RANKED:
        yield "right answer", scores
        yield "best other", rows["other"].astype(float)
    elif kind is Kind.SCORED_PAIR:
        thirds = np.clip((rows["gold"] * 3).astype(int), 0, 2)
        yield from ((name, scores[thirds == third]) for third, name in enumerate(GRADES))
    else:
        names = NLI_CLASSES if kind is Kind.NLI_PAIR else ("label 0", "label 1")
        yield from ((name, scores[rows["gold"] == label]) for label, name in enumerate(names))


def _worst(examples: Examples | None, rows: SetRows, count: int, border: float | None) -> list[Plain]:
    """Decisions that are wrong, those furthest beyond the threshold first; without one the pairs whose place by score
    is furthest from their place by label; of ranked rows those whose best other answer is furthest above the right one.

    Empty where the files of the set are not at hand, or others by now.
    """
    if examples is None or len(examples) != len(rows):
        return []
    kind, scores, gold = Kind(rows.kind), rows["score"].astype(float), None
    if kind in RANKED:
        error = rows["other"] - scores
    elif border is not None and kind is Kind.LABELLED_PAIR:
        gold = rows["gold"].astype(float)
        accepted = scores >= border
        places = np.abs(_ranks(scores) - (~accepted).sum() - 0.5)
        error = np.where(accepted == (gold == 1), -places, places)
    else:
        gold = rows["gold"].astype(float)
        error = np.abs(_ranks(scores) - _ranks(-gold if kind is Kind.NLI_PAIR else gold))
    error = np.where(np.isfinite(error), error, -np.inf)
    texts = [examples.texts(name) for name in TEXT_COLUMNS[kind][:2]]
    pairs = []
    for index in np.argsort(-error, kind="stable")[:count].tolist():
        if error[index] <= 0:
            break
        pair: Plain = {
            "texts": [short(text[index], LONGEST) for text in texts],
            "score": round(float(scores[index]), 3),
        }
        if gold is not None:
            pair["gold"] = NLI_CLASSES[int(gold[index])] if kind is Kind.NLI_PAIR else f"{gold[index]:g}"
        pairs.append(pair)
    return pairs


class PairTexts:
    """Texts of evaluation splits, each read once for a report."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, ...], Examples | None] = {}

    def of(self, result: Result, column: str, fingerprint: str) -> Examples | None:
        """The rows as the run has read them; None where its files are not there, or hold others by now."""
        key = (column, fingerprint, str(result.config.get("source")), str(result.config.get("data_dir")))
        if key not in self._read:
            examples = _read(result, column)
            is_same = examples is not None and examples.fingerprint == fingerprint
            self._read[key] = examples if is_same else None
        return self._read[key]


def _ranks(values: np.ndarray) -> np.ndarray:
    """From 1 on; equal values share the mean of their places."""
    return pd.Series(values).rank().to_numpy()


def _read(result: Result, column: str) -> Examples | None:
    from juzhen.data.loading import cut, sampled
    from juzhen.data.source import load_examples
    from juzhen.data.spec import DatasetConfig

    split, name = column.split("/")
    config, described = result.config, result.described(name)
    places: Plain = {key: config.get(key) for key in ("source", "data_dir", "on_bad_row")}
    if described is None or None in places.values() or "hub" in (described.get("source"), places["source"]):
        return None  # a report downloads nothing
    try:
        examples = load_examples(validated(DatasetConfig, described), split, **places)
    except (UserError, OSError):  # the page is made without these texts
        return None
    if examples is None:
        return None
    limit = (config.get("evaluation") or {}).get("limit")
    return cut(sampled(examples, limit), config.get("debug_rows"), result.seed)
