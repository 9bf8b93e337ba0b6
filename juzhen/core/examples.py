"""Examples: the rows of one split of one dataset, as text; and which of their texts are compared with one another.

Many sets are one table of distinct sentences, so that each sentence is encoded once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from juzhen.core.columns import as_column
from juzhen.core.errors import UserError
from juzhen.core.kinds import JUDGED as JUDGED
from juzhen.core.kinds import RANKED as RANKED
from juzhen.core.kinds import TARGET_COLUMN as TARGET_COLUMN
from juzhen.core.kinds import TEXT_COLUMNS as TEXT_COLUMNS
from juzhen.core.kinds import Kind as Kind

NLI_CLASSES = ("entailment", "neutral", "contradiction")
NLI_GRADES = (1.0, 0.5, 0.0)
"""Similarity grade of each NLI class (entailment, neutral, contradiction) where a correlation needs an order."""

TEACHER_SCORE = "score_{}"
"""The column that holds what a teacher scores a document of a triplet: `score_positive`, `score_negative`, …"""


class Side(IntEnum):
    """Which of an encoder's prompts stands before a text, where it names prompts for queries and for documents."""

    EVERY = 0  # the one before every sentence
    QUERY = 1
    DOCUMENT = 2
    ALIKE = 3  # a query among queries: that of queries, where documents have one of their own too


def sides_of(symmetric: bool | None) -> tuple[Side, Side]:
    """How the first text of a row is read, and how the others are; see `Examples.symmetric`."""
    if symmetric is None:
        return Side.EVERY, Side.EVERY
    return (Side.ALIKE, Side.ALIKE) if symmetric else (Side.QUERY, Side.DOCUMENT)


def negative_columns(count: int) -> list[str]:
    """The columns of a triplet's negatives.

    >>> negative_columns(3)
    ['negative', 'negative_2', 'negative_3']
    """
    return ["negative", *(f"negative_{number}" for number in range(2, count + 1))]


@dataclass(frozen=True)
class Examples:
    """The rows of one split, every distinct sentence stored once and rows stored as numbers into that table.

    sentences  the distinct sentences, in order of first appearance; windows of running text (`TextTable`), and queries
               and documents that have numbers of their own, as they come
    columns    text column → int32 array (rows,), positions in `sentences`
    targets    float32 array (rows,) or None: a score scaled to [0, 1], a 0/1 label, a class number, or a gain
    missing    bool array (rows, documents) or None: documents that a triplet lacks because it has fewer negatives than
               others, in the order of `teacher_scores`. The row's positive fills their places; no loss counts them
    documents  of kind retrieval, and of positive pairs made of it, int32 array: positions in `sentences` of all that is
               looked through; else None
    lines      int32 array (rows,), line numbers in the file read (1-based), for messages
    teacher_scores  float32 array (rows, documents) or None: a teacher's score of a triplet's positive and each negative
    fingerprint  hex digest of the rows as read; equal fingerprints mean equal data
    num_dropped  bad rows left out under `on_bad_row=drop`
    num_leaky    training rows left out because an evaluation set has them too; None: not looked for
    symmetric    of rows in which a text asks for others. False: these are documents, of another sort than the query ·
                 True: all are queries, such as duplicate questions · None: nobody asks
    sides        int8 array (sentences,) or None: the Side by which each sentence is read, whatever its column
    unreachable  number of a query → gains of its answers that are no documents of the set; see RankingSet
    own          number of a query → that of the document which is the query itself in other words
    """

    name: str
    split: str
    kind: Kind
    sentences: Sequence[str]
    columns: dict[str, np.ndarray]
    targets: np.ndarray | None
    fingerprint: str = ""
    num_dropped: int = 0
    num_leaky: int | None = None
    lines: np.ndarray | None = None
    num_classes: int = 0
    teacher_scores: np.ndarray | None = None
    missing: np.ndarray | None = None
    documents: np.ndarray | None = None
    symmetric: bool | None = None
    sides: np.ndarray | None = None
    unreachable: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    own: Mapping[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @classmethod
    def from_texts(
        cls,
        name: str,
        split: str,
        *,
        kind: Kind,
        texts: Mapping[str, Sequence[str]],
        targets: np.ndarray | None = None,
        **fields: Any,
    ) -> "Examples":
        """Builds the sentence table from the texts of each column; `fields` are further fields."""
        table: dict[str, int] = {}
        listed = {
            column: values if isinstance(values, list) else as_column(values, column)
            for column, values in texts.items()
        }
        lengths = {len(values) for values in listed.values()} | (
            {len(targets)} if targets is not None else set()
        )
        if len(lengths) > 1:
            raise UserError(f"{name}/{split}: columns of {sorted(lengths)} rows; expected as many in each")
        columns = {
            column: np.fromiter(
                (table.setdefault(text, len(table)) for text in values), dtype=np.int32, count=len(values)
            )
            for column, values in listed.items()
        }
        targets = None if targets is None else np.asarray(targets, dtype=np.float32)
        return cls(name, split, kind, list(table), columns, targets, **fields)

    def texts(self, column: str) -> list[str]:
        """One text column, spelt out row by row."""
        sentences = self.sentences
        return [sentences[position] for position in self.columns[column]]

    def select(self, rows: np.ndarray) -> "Examples":
        """The given rows (positions or a boolean mask), over the same sentence table."""
        return replace(
            self,
            columns={column: values[rows] for column, values in self.columns.items()},
            targets=None if self.targets is None else self.targets[rows],
            lines=None if self.lines is None else self.lines[rows],
            teacher_scores=None if self.teacher_scores is None else self.teacher_scores[rows],
            missing=None if self.missing is None else self.missing[rows],
        )

    @property
    def reads(self) -> list[int]:
        """The Sides by which its texts are read."""
        return list(sides_of(self.symmetric)) if self.sides is None else np.unique(self.sides).tolist()

    def read_as(self, rows: np.ndarray | slice) -> np.ndarray:
        """The Side by which each text of these rows is read, int8 (columns, rows)."""
        numbers = np.stack([values[rows] for values in self.columns.values()])
        if self.sides is not None:
            return self.sides[numbers]
        first, further = sides_of(self.symmetric)
        sides = np.full(numbers.shape, further, dtype=np.int8)
        sides[0] = first
        return sides

    def grades(self) -> np.ndarray | None:
        """Gold similarity per row, float32 (rows,), higher = closer; None when the kind has no order.

        NLI classes become 1, 0.5 and 0 (entailment, neutral, contradiction).
        """
        if TARGET_COLUMN.get(self.kind) == "score" or self.kind is Kind.LABELLED_PAIR:
            return self.targets
        if self.kind is Kind.NLI_PAIR:
            assert self.targets is not None  # NLI pairs have classes, as TARGET_COLUMN says
            return np.asarray(NLI_GRADES, dtype=np.float32)[self.targets.astype(np.int64)]
        return None


BLOCK = 16_384
"""Comparisons that are scored at a time where rows have many."""


@dataclass(frozen=True)
class Comparisons:
    """Pairs of text numbers that a model must score.

    first, second  text numbers, (comparisons,)
    left_out  of a set that ranks, (rows, candidates): candidates that are no wrong answer; a row's own is the first.
              None: one comparison per row
    """

    first: np.ndarray
    second: np.ndarray
    left_out: np.ndarray | None = None

    @classmethod
    def of(cls, examples: Examples) -> "Comparisons":
        """The comparisons of a set, by numbers of its own table; none for single texts."""
        first, *further = examples.columns.values()
        if not further:
            return cls(*np.empty((2, 0), dtype=np.int64))
        if examples.kind not in RANKED:
            return cls(first, further[0])
        if examples.kind is Kind.TRIPLET:
            candidates = np.stack(further, axis=1)
            left_out = np.zeros(candidates.shape, dtype=bool)
            if examples.missing is not None:
                left_out |= examples.missing
        else:
            candidates = further[0][draw_candidates(len(examples))]
            left_out = known_answers(first, further[0], candidates)
        return cls(np.repeat(first, candidates.shape[1]), candidates.ravel(), left_out)

    def renumbered(self, numbers: np.ndarray) -> "Comparisons":
        """The same by other text numbers: `numbers`, (texts,), of the old ones."""
        return replace(self, first=numbers[self.first], second=numbers[self.second])

    def scored(self, score: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """What `score` gives for first and second texts, shaped; in blocks where there are many candidates."""
        if self.left_out is None:
            return score(self.first, self.second)
        parts = [
            score(self.first[start : start + BLOCK], self.second[start : start + BLOCK])
            for start in range(0, len(self.first), BLOCK)
        ]
        return self.shaped(np.concatenate(parts))

    def shaped(self, scores: np.ndarray) -> np.ndarray:
        """One score per comparison → (rows,); of a set that ranks (rows, candidates), −inf where one is left out."""
        if self.left_out is None:
            return scores
        return np.where(self.left_out, -np.inf, scores.reshape(self.left_out.shape))


class SentenceUnion:
    """The union of the sentences of several sets, and of further lists of texts.

    examples  the distinct sentences as Examples of kind `sentence`, one row each
    numbers   of each set and each list: rows of `examples` for the sentences of its table, or for its texts
    """

    def __init__(self, sets: Sequence[Examples], lists: Iterable[Iterable[str]] = ()) -> None:
        table: dict[str, int] = {}
        self.numbers = [
            np.array([table.setdefault(text, len(table)) for text in texts], dtype=np.int64)
            for texts in (*(examples.sentences for examples in sets), *lists)
        ]
        self.sets = list(sets)
        columns = {"text": np.arange(len(table), dtype=np.int32)}
        self.examples = Examples("union", "evaluation", Kind.SENTENCE, list(table), columns, None)

    def rows(self, position: int) -> dict[str, np.ndarray]:
        """Text columns of the set at `position` as row numbers of the union."""
        return {
            column: self.numbers[position][values] for column, values in self.sets[position].columns.items()
        }

    def comparisons(self, position: int) -> Comparisons:
        """What is compared in the set at `position`, by numbers of the union."""
        return Comparisons.of(self.sets[position]).renumbered(self.numbers[position])


NUM_CANDIDATES = 32
"""Texts among which the anchor of a positive pair looks for its own, that one included."""


def draw_candidates(num_rows: int) -> np.ndarray:
    """(rows, candidates): of each row those of its batch, itself first; NUM_CANDIDATES, or all where there are fewer.

    Rows are dealt into batches by a fixed shuffle, whatever a job's seed; the last batch is filled up from the one
    before it, so that every row has as many candidates.
    """
    size = min(NUM_CANDIDATES, num_rows)
    shuffled = np.random.default_rng(0).permutation(num_rows)
    positions = np.arange(num_rows)
    starts = np.minimum(positions // max(size, 1) * size, num_rows - size)
    turns = (positions - starts)[:, None] + np.arange(size)
    candidates = np.empty((num_rows, size), dtype=np.int64)
    candidates[shuffled] = shuffled[starts[:, None] + turns % max(size, 1)]
    return candidates


def known_answers(
    anchors: np.ndarray,
    positives: np.ndarray,
    candidates: np.ndarray,
) -> np.ndarray:
    """Candidates, (rows, candidates), that are the anchor's own text, or a positive of the same anchor in any row.

    The rule of juzhen.losses.in_batch_negatives.false_negatives, over the whole set. A row's own, the first, is never
    marked.
    """
    span = 1 + int(positives.max(initial=0))
    pairs = anchors.astype(np.int64) * span + positives
    marked = np.isin(anchors[:, None].astype(np.int64) * span + candidates, pairs)
    marked |= candidates == anchors[:, None]
    marked[:, :1] = False
    return marked


class DrawnDocuments:
    """Draws positives of other rows of a set for its rows.

    Args:
        anchors: Number of the anchor's text in each row.
        positives: Number of the positive's text in each row.
    """

    def __init__(self, anchors: np.ndarray, positives: np.ndarray) -> None:
        order = np.argsort(anchors, kind="stable")
        self._anchors, self._sorted, self._positives = anchors, anchors[order], positives[order]
        self._documents = np.unique(positives)

    def draw(self, rows: np.ndarray, count: int, *, seed: tuple[int, ...]) -> np.ndarray:
        """Return `count` documents for each of some rows, int64 (len(rows), count).

        The draw of a row depends on the seed and the row alone, not on the rows next to it. A known answer of its
        anchor (`known_answers`) is never drawn. Where the set has too few documents, some are drawn twice.

        Args:
            rows: Rows of the set.
            count: Documents of each row.
            seed: Numbers from 0, such as the job's seed and the number of the batch.

        Raises:
            UserError: Every document of the set answers the anchor of one of the rows.
        """
        drawn = np.empty((len(rows), count), dtype=np.int64)
        for place, row in enumerate(rows.tolist()):
            anchor = self._anchors[row]
            start, end = np.searchsorted(self._sorted, [anchor, anchor + 1])
            known = np.append(self._positives[start:end], anchor)
            size = min(count + len(known), len(self._documents))
            tried = np.random.default_rng((*seed, row)).choice(self._documents, size=size, replace=False)
            fitting = tried[~np.isin(tried, known)]
            if not len(fitting):
                raise UserError(
                    "num_drawn: all documents of the set answer one of its rows, and none is left to draw. "
                    "Train on a set with more distinct documents"
                )
            drawn[place] = np.resize(fitting, count)
        return drawn


CLASSIFIED_KINDS = (Kind.LABELLED_PAIR, Kind.NLI_PAIR, Kind.LABELLED_TEXT)
"""Rows with classes."""


def judged_split(splits: Mapping[str, Sized]) -> tuple[str, bool]:
    """The split that a classifier is judged on, and whether that is in folds of it.

    Beside a train split test, else dev, which then is not used to choose the penalty. Where there is only one side,
    folds of the largest split that there is: no row is judged by a classifier that has seen it.
    """
    held_out = [name for name in ("test", "dev") if name in splits]
    if "train" in splits and held_out:
        return held_out[0], False
    return max(splits, key=lambda name: len(splits[name])), True


def too_few(labels: Mapping[str, np.ndarray]) -> str | None:
    """Why no classifier can be made of splits with these class numbers; None where one can."""
    name, in_folds = judged_split(labels)
    fitted_on = labels[name if in_folds else "train"]
    _, counts = np.unique(fitted_on, return_counts=True)
    if len(counts) < 2:
        return f"all {len(fitted_on):,} rows to learn from are of one class"
    if in_folds and counts.min() < 2:
        return "a class has 1 row only; a classifier needs at least 2 of each"
    return None
