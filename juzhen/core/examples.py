"""Examples: the rows of one split of one dataset, and which of their texts are compared.

Several sets share one table of distinct sentences, so that each sentence is encoded once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import count
from typing import Any

import numpy as np

from juzhen.core.columns import as_column
from juzhen.core.errors import UserError
from juzhen.core.kinds import JUDGED as JUDGED
from juzhen.core.kinds import RANKED as RANKED
from juzhen.core.kinds import TARGET_COLUMN as TARGET_COLUMN
from juzhen.core.kinds import TEXT_COLUMNS as TEXT_COLUMNS
from juzhen.core.kinds import Kind as Kind
from juzhen.core.text import counted

NLI_CLASSES = ("entailment", "neutral", "contradiction")
NLI_GRADES = (1.0, 0.5, 0.0)
"""Similarity grade of each NLI class (entailment, neutral, contradiction), for correlations."""

TEACHER_SCORE = "score_{}"
"""Column of a teacher's score for a document of a triplet: `score_positive`, `score_negative`, …"""


class Side(IntEnum):
    """Prompt of an encoder for a text."""

    EVERY = 0  # the prompt of every sentence
    QUERY = 1
    DOCUMENT = 2
    ALIKE = 3  # a query among queries: the query prompt, if documents have a prompt of their own, too


def sides_of(symmetric: bool | None) -> tuple[Side, Side]:
    """Return the Side of a row's first text, and that of its other texts, from `Examples.symmetric`.

    Args:
        symmetric: Value of `Examples.symmetric`.

    Returns:
        Side of the first text, and of the others.
    """
    if symmetric is None:
        return Side.EVERY, Side.EVERY
    return (Side.ALIKE, Side.ALIKE) if symmetric else (Side.QUERY, Side.DOCUMENT)


def negative_columns(count: int) -> list[str]:
    """Return the names of a triplet's negative columns.

    Args:
        count: Number of negatives of a row.

    Returns:
        Their names, in order.

    >>> negative_columns(3)
    ['negative', 'negative_2', 'negative_3']
    """
    return ["negative", *(f"negative_{number}" for number in range(2, count + 1))]


@dataclass(frozen=True)
class Examples:
    """Rows of one split. Each distinct sentence is stored once, and rows are indices into the table of sentences.

    Args:
        name: Name of the set.
        split: train, dev or test.
        kind: Kind of the rows.
        sentences: Distinct sentences, in order of first appearance. Windows of running text (`TextTable`),
            and queries and documents with separate ids, are not merged.
        columns: Text column → int32 array (rows,), indices into `sentences`.
        num_classes: Number of classes of the targets. 0: they are no classes.
        targets: float32 array (rows,) or None: a score scaled to [0, 1], a 0/1 label, a class index, or a
            gain.
        missing: bool array (rows, documents) or None: documents that a triplet lacks because it has fewer
            negatives than others, in the order of `teacher_scores`. The row's positive fills their places,
            and no loss counts them.
        documents: int32 array or None: indices of all documents to search, for kind retrieval and positive
            pairs made from it.
        lines: int32 array (rows,) or None: line numbers in the file (from 1), for messages.
        teacher_scores: float32 array (rows, documents) or None: a teacher's score of a triplet's positive and
            each negative.
        fingerprint: Hex digest of the rows as read. Equal fingerprints mean equal data.
        num_dropped: Bad rows left out by `on_bad_row=drop`.
        num_leaky: Training rows left out because an evaluation set has them too. None: not checked.
        symmetric: For queries with documents. False: documents differ in kind from queries. True: all texts
            are queries, such as duplicate questions. None: rows are not queries and documents.
        sides: int8 array (sentences,) or None: the Side of each sentence, whatever its column.
        unreachable: Query → gains of its answers that are not documents of the set, see RankingSet.
        own: Query → the document that is the query itself in other words.
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
        """Build the table of sentences from the texts of each column.

        Args:
            name: Name of the set.
            split: Name of the split.
            kind: Kind of its rows.
            texts: Column → its texts, row by row.
            targets: Gold values (rows,), as of `Examples.targets`.
            **fields: Further fields of Examples.

        Returns:
            The examples.

        Raises:
            UserError: Columns of different lengths.

        Example:
            >>> pairs = {"text_a": ["今天", "明天"], "text_b": ["今日", "今天"]}
            >>> examples = Examples.from_texts("mine", "train", kind=Kind.SCORED_PAIR, texts=pairs)
            >>> len(examples), examples.sentences
            (2, ['今天', '明天', '今日'])
        """
        table = defaultdict[str, int](count().__next__)
        listed = {
            column: values if isinstance(values, list) else as_column(values, column)
            for column, values in texts.items()
        }
        lengths = {len(values) for values in listed.values()} | (
            {len(targets)} if targets is not None else set()
        )
        if len(lengths) > 1:
            raise UserError(f"{name}/{split}: columns of {sorted(lengths)} rows. Expected as many in each")
        columns = {
            column: np.fromiter(map(table.__getitem__, values), dtype=np.int32, count=len(values))
            for column, values in listed.items()
        }
        targets = None if targets is None else np.asarray(targets, dtype=np.float32)
        return cls(name, split, kind, list(table), columns, targets, **fields)

    def texts(self, column: str) -> list[str]:
        """Return one text column row by row.

        Args:
            column: Name of the column, such as "anchor".

        Returns:
            The texts, one for each row.
        """
        sentences = self.sentences
        return [sentences[position] for position in self.columns[column]]

    def select(self, rows: np.ndarray) -> "Examples":
        """Return some rows (indices or a boolean mask) over the same table of sentences.

        Args:
            rows: Indices or a boolean mask, (rows,).

        Returns:
            Examples with these rows.
        """
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
        """Sides of its texts."""
        return list(sides_of(self.symmetric)) if self.sides is None else np.unique(self.sides).tolist()

    def read_as(self, rows: np.ndarray | slice) -> np.ndarray:
        """Return the Side of each text of some rows, int8 (columns, rows).

        Args:
            rows: Indices or a slice.

        Returns:
            int8 array (columns, rows).
        """
        numbers = np.stack([values[rows] for values in self.columns.values()])
        if self.sides is not None:
            return self.sides[numbers]
        first, further = sides_of(self.symmetric)
        sides = np.full(numbers.shape, further, dtype=np.int8)
        sides[0] = first
        return sides

    def grades(self) -> np.ndarray | None:
        """Return the gold similarity per row, float32 (rows,), higher = closer. None if the kind has no order.

        NLI classes become 1, 0.5 and 0 (entailment, neutral, contradiction).

        Returns:
            float32 array (rows,), or None.
        """
        if TARGET_COLUMN.get(self.kind) == "score" or self.kind is Kind.LABELLED_PAIR:
            return self.targets
        if self.kind is Kind.NLI_PAIR:
            assert self.targets is not None  # NLI pairs always have classes, see TARGET_COLUMN
            return np.asarray(NLI_GRADES, dtype=np.float32)[self.targets.astype(np.int64)]
        return None


BLOCK = 16_384
"""Comparisons scored at a time where rows have many candidates."""


@dataclass(frozen=True)
class Comparisons:
    """Pairs of text indices that a model must score.

    Args:
        first: Indices of the first texts, (comparisons,).
        second: Indices of the second texts, (comparisons,).
        left_out: (rows, candidates) for ranked kinds: True for candidates that are not wrong answers. The
            first candidate is the answer of the row. None: one comparison per row.
    """

    first: np.ndarray
    second: np.ndarray
    left_out: np.ndarray | None = None

    @classmethod
    def of(cls, examples: Examples) -> "Comparisons":
        """Return the comparisons of a set, by indices into its own table. None for single texts.

        Args:
            examples: The set.

        Returns:
            The comparisons, or None.
        """
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
        """Return the comparisons by other text indices: `numbers`, (texts,), maps old to new.

        Args:
            numbers: New index of each text, (texts,).

        Returns:
            Comparisons with the new indices.
        """
        return replace(self, first=numbers[self.first], second=numbers[self.second])

    def scored(self, score: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """Score all comparisons and shape the scores, in blocks if there are many candidates.

        Args:
            score: Function of two index arrays, (pairs,), that returns their scores, (pairs,).

        Returns:
            Scores, (rows,) or (rows, candidates).
        """
        if self.left_out is None:
            return score(self.first, self.second)
        parts = [
            score(self.first[start : start + BLOCK], self.second[start : start + BLOCK])
            for start in range(0, len(self.first), BLOCK)
        ]
        return self.shaped(np.concatenate(parts))

    def shaped(self, scores: np.ndarray) -> np.ndarray:
        """Shape one score per comparison to (rows,).

        For ranked kinds the shape is (rows, candidates), with −inf where a candidate is left out.

        Args:
            scores: One score for each comparison.

        Returns:
            Scores, (rows,) or (rows, candidates).
        """
        if self.left_out is None:
            return scores
        return np.where(self.left_out, -np.inf, scores.reshape(self.left_out.shape))


class SentenceUnion:
    """Union of the sentences of several sets and of further lists of texts.

    `examples` has the distinct sentences, of kind `sentence`. `numbers` has, for each set and each list, the rows of
    `examples` for the sentences of its table or for its texts.

    Args:
        sets: The sets.
        lists: Further lists of texts.
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
        """Return the text columns of a set as rows of the union.

        Args:
            position: Number of the set, in the order of the union.

        Returns:
            Column → indices into the union, (rows,).
        """
        return {
            column: self.numbers[position][values] for column, values in self.sets[position].columns.items()
        }

    def comparisons(self, position: int) -> Comparisons:
        """Return the comparisons of a set by rows of the union.

        Args:
            position: Number of the set, in the order of the union.

        Returns:
            Its comparisons.
        """
        return Comparisons.of(self.sets[position]).renumbered(self.numbers[position])


NUM_CANDIDATES = 32
"""Candidates of a positive pair's anchor, its own positive included."""


def draw_candidates(num_rows: int) -> np.ndarray:
    """Draw the candidates of each row: the rows of its batch, itself first.

    A fixed shuffle deals rows into batches, whatever a job's seed. The last batch is filled up from the one before it,
    so that every row has the same number of candidates.

    Args:
        num_rows: Number of rows.

    Returns:
        (rows, candidates), with NUM_CANDIDATES candidates, or all rows if there are fewer.
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
    """Mark candidates that answer the anchor: its own text, or a positive of the same anchor in any row.

    It is the rule of juzhen.losses.in_batch_negatives.false_negatives, over the whole set. The first candidate, the
    row's own, is never marked.

    Args:
        anchors: Text number of each row's anchor, (rows,).
        positives: Text number of each row's positive, (rows,).
        candidates: Text numbers, (rows, candidates), the row's own first.

    Returns:
        bool (rows, candidates).
    """
    span = 1 + int(positives.max(initial=0))
    pairs = anchors.astype(np.int64) * span + positives
    marked = np.isin(anchors[:, None].astype(np.int64) * span + candidates, pairs)
    marked |= candidates == anchors[:, None]
    marked[:, :1] = False
    return marked


class DrawnDocuments:
    """Draws positives of other rows as further documents of a row.

    Args:
        anchors: Index of each row's anchor text.
        positives: Index of each row's positive text.
    """

    def __init__(self, anchors: np.ndarray, positives: np.ndarray) -> None:
        order = np.argsort(anchors, kind="stable")
        self._anchors, self._sorted, self._positives = anchors, anchors[order], positives[order]
        self._documents = np.unique(positives)

    def draw(self, rows: np.ndarray, count: int, *, seed: tuple[int, ...]) -> np.ndarray:
        """Return `count` documents for each of some rows, int64 (len(rows), count).

        The draw of a row depends on the seed and the row alone, not on the rows next to it. Known answers of its anchor
        (`known_answers`) are never drawn. If the set has too few documents, some are drawn twice.

        Args:
            rows: Rows of the set.
            count: Documents for each row.
            seed: Numbers from 0, such as the job's seed and the batch index.

        Returns:
            Text numbers.

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
"""Kinds with classes."""


def judged_split(splits: Mapping[str, Sized]) -> tuple[str, bool]:
    """Choose the split on which a classifier is evaluated.

    With a train split it is test, otherwise dev, which then is not used to choose the penalty. With one side alone it
    is the largest split, in folds: no row is evaluated by a classifier that was fitted on it.

    Args:
        splits: Split → its rows.

    Returns:
        The split, and True if it is evaluated in folds.
    """
    held_out = [name for name in ("test", "dev") if name in splits]
    if "train" in splits and held_out:
        return held_out[0], False
    return max(splits, key=lambda name: len(splits[name])), True


def too_few(labels: Mapping[str, np.ndarray]) -> str | None:
    """Return the reason why no classifier can be fitted on splits with these classes, or None.

    Args:
        labels: Split → class of each row.

    Returns:
        One sentence, or None.
    """
    name, in_folds = judged_split(labels)
    fitted_on = labels[name if in_folds else "train"]
    _, counts = np.unique(fitted_on, return_counts=True)
    if len(counts) < 2:
        return f"{counted(len(fitted_on), 'rows')} to learn from, of one class alone"
    if in_folds and counts.min() < 2:
        return "a class has only 1 row, and a classifier needs 2 of each"
    return None
