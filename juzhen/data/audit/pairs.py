"""Every training set beside every evaluation split: pairs and sentences that both have, and labels at odds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from juzhen.core.examples import Examples, Kind
from juzhen.core.progress import progress_bar
from juzhen.data.leaks.near import NEAR
from juzhen.data.leaks.normalize import normalize
from juzhen.data.leaks.pairs import Hits, PairIndex, pair_columns

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Detail:
    """How much an audit tells.

    counts    row numbers are left out
    examples  so many rows are quoted per cell
    progress  bars are shown
    """

    counts: bool = False
    examples: int = 0
    progress: bool = False


def audit_pairs(
    train: Sequence[Examples],
    evaluation: Sequence[Examples],
    absent: Sequence[str],
    *,
    threshold: float | None = None,
    detail: Detail,
) -> dict[str, Any]:
    """The report: `sets` with what each says about itself, `cells` with what two of them share.

    absent     `set/split` without a file, for the record
    threshold  Jaccard index of near duplicates; None: the usual one
    """
    threshold = NEAR if threshold is None else threshold
    cells = []
    with progress_bar("comparing sets", 1 + len(train), shown=detail.progress) as advance:
        index = PairIndex(evaluation, threshold=threshold)
        for examples in train:
            advance(1)
            for other, hits in zip(evaluation, index.search(examples), strict=True):
                if name_of(examples) != name_of(other):
                    cells.append(_cell(examples, other, hits, detail))
    both = {name_of(config): config for config in [*train, *evaluation]}
    return {
        "format_version": FORMAT_VERSION,
        "what": "leaks between training sets and evaluation splits",
        "near_threshold": threshold,
        "train": [name_of(examples) for examples in train],
        "evaluation": [name_of(examples) for examples in evaluation],
        "absent": sorted(absent),
        "sets": {name: _describe(examples, detail) for name, examples in sorted(both.items())},
        "cells": cells,
    }


def name_of(examples: Examples) -> str:
    return f"{examples.name}/{examples.split}"


def _cell(train: Examples, evaluation: Examples, hits: Hits, detail: Detail) -> dict[str, Any]:
    """Counts are of evaluation rows, except `train_rows`."""
    exact, near = hits.rows()
    has_pairs = bool(pair_columns(train) and pair_columns(evaluation))
    leaky_train = np.unique(hits.train_rows)
    cell = {
        "train": name_of(train),
        "evaluation": name_of(evaluation),
        "rows": len(evaluation),
        "exact_pairs": len(exact) if has_pairs else None,
        "near_pairs": len(near) if has_pairs else None,
        "other_label": _at_odds(train, evaluation, hits),
        "exact_sentences": int(hits.exact_sentence.sum()),
        "near_sentences": int((hits.near_sentence & ~hits.exact_sentence).sum()),
        "train_rows": len(leaky_train) if has_pairs else None,
    }
    if not detail.counts and len(leaky_train):
        cell["lines"] = {
            "exact": lines_of(evaluation, exact),
            "near": lines_of(evaluation, near),
            "train": lines_of(train, leaky_train),
        }
    if detail.examples and len(leaky_train):
        cell["examples"] = list(_quoted(train, evaluation, hits, detail.examples))
    return cell


def _at_odds(train: Examples, evaluation: Examples, hits: Hits) -> int | None:
    """Evaluation rows whose exact pair has another label in training; None where labels mean different things."""
    if train.kind is not evaluation.kind or len(pair_columns(train)) != 1:
        return None
    if train.targets is None or evaluation.targets is None:
        return None
    trained = train.targets[hits.train_rows[hits.is_exact]]
    scored = evaluation.targets[hits.evaluation_rows[hits.is_exact]]
    return len(np.unique(hits.evaluation_rows[hits.is_exact][trained != scored]))


def _quoted(train: Examples, evaluation: Examples, hits: Hits, count: int) -> Iterator[dict[str, Any]]:
    """Some rows in words, those of exact pairs first."""
    for hit in np.argsort(~hits.is_exact, kind="stable")[:count]:
        yield {
            "is_exact": bool(hits.is_exact[hit]),
            "train": _row(train, hits.train_rows[hit]),
            "evaluation": _row(evaluation, hits.evaluation_rows[hit]),
        }


def _row(examples: Examples, row: int) -> dict[str, Any]:
    quoted = {column: examples.sentences[values[row]] for column, values in examples.columns.items()}
    if examples.targets is not None:
        quoted["target"] = float(examples.targets[row])
    return quoted


def _describe(examples: Examples, detail: Detail) -> dict[str, Any]:
    described = {
        "rows": len(examples),
        "kind": str(examples.kind),
        "faulty_rows": examples.num_dropped,
        "fingerprint": examples.fingerprint,
    }
    if pair_columns(examples):
        repeated, groups = repeated_and_contradictory(examples)
        described["repeated_rows"] = repeated
        if examples.targets is not None:
            described["contradictory_pairs"] = len(groups)
            described["contradictory_rows"] = sum(map(len, groups))
            if not detail.counts and groups:
                described["contradictory_lines"] = [lines_of(examples, group) for group in groups]
            if detail.examples and groups:
                described["examples"] = [
                    [_row(examples, row) for row in group] for group in groups[: detail.examples]
                ]
    return described


def repeated_and_contradictory(examples: Examples) -> tuple[int, list[np.ndarray]]:
    """Rows that repeat the pair or triplet of an earlier row, and the rows of each pair that has several labels.

    A pair is the same in either order, except in NLI: that a entails b says nothing about b and a.
    """
    numbers: dict[str, int] = {}
    text_numbers = np.array(
        [numbers.setdefault(normalize(text), len(numbers)) for text in examples.sentences]
    )
    rows = np.stack([text_numbers[values] for values in examples.columns.values()], axis=1)
    if examples.kind in (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.POSITIVE_PAIR):
        rows.sort(axis=1)
    _, group, sizes = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    repeated = len(examples) - len(sizes)
    if examples.targets is None:
        return repeated, []
    low, high = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(low, group, examples.targets)
    np.maximum.at(high, group, examples.targets)
    odd = np.flatnonzero(low != high)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], odd)
    clusters = [
        np.sort(order[start : start + sizes[cluster]]) for start, cluster in zip(starts, odd, strict=True)
    ]
    return repeated, sorted(clusters, key=lambda rows: rows[0])


def lines_of(examples: Examples, rows: np.ndarray) -> list[int]:
    """Line numbers in the file (from 1), or positions counted from 1 where there are no lines."""
    return (rows + 1 if examples.lines is None else examples.lines[rows]).tolist()
