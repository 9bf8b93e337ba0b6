"""Conversion of rows to another kind, without guessing.

`juzhen.core.kinds.KINDS` lists the conversions. All keep the table of sentences and rearrange indices. Rows stay in the
order of the file.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_CLASSES, TEXT_COLUMNS, Examples, Kind, negative_columns

ENTAILMENT, CONTRADICTION = NLI_CLASSES.index("entailment"), NLI_CLASSES.index("contradiction")
SAME, DIFFERENT = 1, 0


def convert_rows(examples: Examples, target_kind: Kind) -> Examples:
    """Convert examples to a kind. Examples that have it already are returned unchanged.

    Args:
        examples: The rows.
        target_kind: Kind to convert to.

    Returns:
        The converted rows.

    Raises:
        UserError: No row is left, for instance because no premise has both classes.
    """
    if examples.kind == target_kind:
        return examples
    if target_kind is Kind.SENTENCE:
        return _distinct_sentences(examples)
    function, reason = _CONVERSIONS[examples.kind, target_kind]
    viewed = function(examples)
    if not len(viewed):
        name = examples.name
        raise UserError(
            f"{name}/{examples.split}: {reason}, so it cannot be read as a {target_kind}. Choose a loss that takes "
            f"a {examples.kind} (a job of train.py may have another dataset.{name}.convert_to)"
        )
    return viewed


def with_negatives(triplets: Examples, count: int) -> Examples:
    """Return triplets with the first `count` negatives of each row.

    Args:
        triplets: Rows with negatives.
        count: Number of negatives to keep.

    Returns:
        The triplets.

    Raises:
        UserError: The rows have fewer negatives.
    """
    columns = list(triplets.columns)
    if count > len(columns) - 2:
        raise UserError(
            f"num_negatives={count}: rows of {triplets.name}, read as triplets, have "
            f"{len(columns) - 2}. Name more columns negative_2, negative_3, … in its file, or choose a smaller number"
        )
    scores = triplets.teacher_scores
    missing = None if triplets.missing is None else triplets.missing[:, : 1 + count]
    return replace(
        triplets,
        columns={column: triplets.columns[column] for column in columns[: 2 + count]},
        teacher_scores=None if scores is None else scores[:, : 1 + count],
        missing=None if missing is None or not missing.any() else missing,
    )


def with_equal_columns(parts: Sequence[Examples]) -> list[Examples]:
    """Give all triplets the same number of negative columns. A part with fewer lacks the others in every row.

    Args:
        parts: Sets of triplets.

    Returns:
        The sets in the same order.
    """
    most = max(len(part.columns) for part in parts)
    if all(len(part.columns) == most and part.missing is None for part in parts):
        return [*parts]
    equal = []
    for part in parts:
        fewer = most - len(part.columns)
        names = [*part.columns, *negative_columns(most - 2)[len(part.columns) - 2 :]]
        columns = [*part.columns.values(), *[part.columns["positive"]] * fewer]
        missing = (
            np.zeros((len(part), len(part.columns) - 1), dtype=bool) if part.missing is None else part.missing
        )
        scores = part.teacher_scores
        if scores is not None:
            scores = np.concatenate([scores, np.repeat(scores[:, :1], fewer, axis=1)], axis=1)
        equal.append(
            replace(
                part,
                columns=dict(zip(names, columns, strict=True)),
                missing=np.pad(missing, ((0, 0), (0, fewer)), constant_values=True),
                teacher_scores=scores,
            )
        )
    return equal


def _positives(examples: Examples, target: int | None = None) -> Examples:
    """Pairs whose target is `target` (None: all) as anchor and positive. Of triplets the first two texts."""
    first, second, *_ = TEXT_COLUMNS[examples.kind]
    rows = np.arange(len(examples)) if target is None else np.flatnonzero(examples.targets == target)
    columns = {"anchor": examples.columns[first][rows], "positive": examples.columns[second][rows]}
    return _rebuilt(examples, Kind.POSITIVE_PAIR, columns, rows)


def _answered(examples: Examples) -> Examples:
    """Each query with each document that answers it. All documents can still be mined."""
    assert examples.targets is not None  # judgements always have gains, see TARGET_COLUMN
    return replace(_positives(examples.select(examples.targets > 0)), documents=examples.documents)


def _grouped_triplets(examples: Examples, positive: int, negative: int) -> Examples:
    """Pairs grouped by their first sentence: each positive with one negative of its group, in turn.

    The k-th positive of a group gets negative k modulo their number. Each positive is used once, and nothing is random.
    """
    first, second = TEXT_COLUMNS[examples.kind]
    anchors = examples.columns[first]
    positives = np.flatnonzero(examples.targets == positive)
    negatives = np.flatnonzero(examples.targets == negative)
    negatives = negatives[np.argsort(anchors[negatives], kind="stable")]
    starts = np.searchsorted(anchors[negatives], anchors[positives], side="left")
    counts = np.searchsorted(anchors[negatives], anchors[positives], side="right") - starts
    turns = _rank_in_group(anchors[positives])
    has_negative = counts > 0
    rows = positives[has_negative]
    partners = negatives[(starts + turns % np.maximum(counts, 1))[has_negative]]
    columns = {
        "anchor": anchors[rows],
        "positive": examples.columns[second][rows],
        "negative": examples.columns[second][partners],
    }
    return _rebuilt(examples, Kind.TRIPLET, columns, rows)


def _ranked_triplets(examples: Examples) -> Examples:
    """Each query with each answer and another document, paired as by `_grouped_triplets`."""
    assert examples.targets is not None  # judgements always have gains
    answers = (examples.targets > 0).astype(np.float32)
    return _grouped_triplets(replace(examples, targets=answers), SAME, DIFFERENT)


def _rank_in_group(groups: np.ndarray) -> np.ndarray:
    """Number of earlier rows in the same group, per row."""
    order = np.argsort(groups, kind="stable")
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - np.searchsorted(groups[order], groups[order], side="left")
    return ranks


def _triplet_pairs(examples: Examples) -> Examples:
    """Each triplet as a pair with label 1 and, for each negative, a pair with label 0, in this order."""
    compared = [
        column for column in examples.columns if column != "anchor"
    ]  # the positive, then the negatives
    rows = np.repeat(np.arange(len(examples)), len(compared))
    columns = {
        "text_a": examples.columns["anchor"][rows],
        "text_b": np.stack([examples.columns[column] for column in compared], axis=1).ravel(),
    }
    labels = [SAME if column == "positive" else DIFFERENT for column in compared]
    targets = np.tile(np.asarray(labels, dtype=np.float32), len(examples))
    pairs = replace(_rebuilt(examples, Kind.LABELLED_PAIR, columns, rows), targets=targets, num_classes=2)
    return pairs if examples.missing is None else pairs.select(~examples.missing.ravel())


def _distinct_sentences(examples: Examples) -> Examples:
    """Every sentence of the rows once, by first occurrence."""
    columns = list(examples.columns.values())
    _, positions = np.unique(np.stack(columns, axis=1).ravel(), return_index=True)
    positions = np.sort(positions)
    rows = positions // len(columns)
    distinct = _rebuilt(examples, Kind.SENTENCE, {"text": np.stack(columns, axis=1).ravel()[positions]}, rows)
    return replace(distinct, symmetric=None)  # a single sentence is not a query


def _rebuilt(examples: Examples, kind: Kind, columns: dict[str, np.ndarray], rows: np.ndarray) -> Examples:
    """Examples of another kind over the same table. `rows` has the source row of each row."""
    line_numbers = None if examples.lines is None else examples.lines[rows]
    return replace(
        examples,
        kind=kind,
        columns=columns,
        targets=None,
        lines=line_numbers,
        num_classes=0,
        documents=None,
        teacher_scores=None,
        missing=None,
    )


_CONVERSIONS: dict[tuple[Kind, Kind], tuple[Callable[[Examples], Examples], str]] = {
    (Kind.NLI_PAIR, Kind.TRIPLET): (
        lambda examples: _grouped_triplets(examples, ENTAILMENT, CONTRADICTION),
        "no premise has both an entailment and a contradiction",
    ),
    (Kind.NLI_PAIR, Kind.POSITIVE_PAIR): (
        lambda examples: _positives(examples, ENTAILMENT),
        "no pair is an entailment",
    ),
    (Kind.LABELLED_PAIR, Kind.POSITIVE_PAIR): (
        lambda examples: _positives(examples, SAME),
        "no pair has label 1",
    ),
    (Kind.LABELLED_PAIR, Kind.TRIPLET): (
        lambda examples: _grouped_triplets(examples, SAME, DIFFERENT),
        "no first sentence occurs with label 1 and with label 0",
    ),
    (Kind.RETRIEVAL, Kind.POSITIVE_PAIR): (_answered, "no document answers a query"),
    (Kind.RERANKING, Kind.POSITIVE_PAIR): (_answered, "no document answers a query"),
    (Kind.RERANKING, Kind.TRIPLET): (
        _ranked_triplets,
        "no query has both a document that answers it and one that does not",
    ),
    (Kind.TRIPLET, Kind.POSITIVE_PAIR): (_positives, "there are no rows"),
    (Kind.TRIPLET, Kind.LABELLED_PAIR): (_triplet_pairs, "there are no rows"),
}
