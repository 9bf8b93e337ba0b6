"""Rules that drop candidates, each with a reason, and the choice of negatives from the rest."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import chain, count

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from juzhen.core.examples import Examples
from juzhen.core.text import fold_lines
from juzhen.data.leaks.matching import NO_WIDTH, letters_only, normalize, used_sentences
from juzhen.data.rankings import RankingSet
from juzhen.mining.candidates import Pool
from juzhen.mining.options import MiningOptions


class Reason(StrEnum):
    """Reason to drop a candidate. If several apply, the first in this order counts."""

    KEPT = "kept"
    IS_POSITIVE = "is_positive"  # it answers the query
    POSITIVE_CLUSTER = "positive_cluster"  # joined with the query by positive pairs, over other texts
    NEAR_COPY = "near_copy"  # the query or one of its positives, but for spaces, punctuation, width and case
    EVALUATION_ROW = "evaluation_row"  # its text, compared in the same way, is evaluated on
    OUTSIDE_WINDOW = "outside_window"  # its rank is before the first that is asked for
    ABOVE_SHARE = "above_share"
    ABOVE_MARGIN = "above_margin"
    ABOVE_THRESHOLD = "above_threshold"
    JUDGED = "judged"  # the cross-encoder's score reaches the threshold
    BELOW_MIN_SCORE = "below_min_score"
    BECOME_EASY = (
        "become_easy"  # in training: what has been learnt makes room for another (`callbacks.mining`)
    )


REASONS = list(Reason)
SUSPECTED = (Reason.ABOVE_SHARE, Reason.ABOVE_MARGIN, Reason.ABOVE_THRESHOLD, Reason.JUDGED)
"""Refused for a score alone: what may answer the query although nobody has said so."""
SUSPECTED_CODES = [REASONS.index(reason) for reason in SUSPECTED]

UNKNOWN = -1

TEXTS_AT_ONCE = 4096

_MARKS = re.compile(r"[^\w\n]|_")

Codes = Int[np.ndarray, "candidates"]


class Known:
    """Facts about queries and documents that need no score.

    Args:
        evaluation: Sets whose sentences must not become negatives.
    """

    def __init__(self, ranking: RankingSet, evaluation: Sequence[Examples] = ()) -> None:
        self._size = len(ranking.corpus)
        counts = [len(gains) for gains in ranking.relevant]
        self.starts = np.cumsum([0, *counts])
        """Where the positives of each query begin in `positives`."""
        self.positives = np.fromiter(chain.from_iterable(ranking.relevant), dtype=np.int64)
        owners = np.repeat(np.arange(len(counts)), counts)
        self._order = np.argsort(owners * self._size + self.positives)
        self._relevant = (owners * self._size + self.positives)[self._order]
        self._irrelevant = _keys(ranking.irrelevant, self._size)
        numbers = defaultdict[str, int](count().__next__)
        self._query_text = _numbered(ranking.queries, numbers)
        self._document_text = _numbered(ranking.corpus, numbers)
        self._span = len(numbers)
        self._copies = np.sort(owners * self._span + self._document_text[self.positives])
        used = {
            numbers.get(letters, UNKNOWN)
            for examples in evaluation
            for letters in _letters([*used_sentences(examples)])
        }
        self._evaluated = np.isin(self._document_text, list(used))
        # Texts are the nodes, so that a query which is a document too is one of them.
        edges = self._query_text[owners], self._document_text[self.positives]
        graph = coo_array((np.ones(len(owners), dtype=bool), edges), shape=(self._span, self._span))
        self._cluster = connected_components(graph, directed=False)[1]

    def place(self, query: np.ndarray, document: np.ndarray) -> Int[np.ndarray, "pairs"]:
        """Return positions of documents in `positives` of their queries, UNKNOWN if a document is not a positive."""
        keys = query * self._size + document
        positions = np.minimum(np.searchsorted(self._relevant, keys), len(self._relevant) - 1)
        return np.where(self._relevant[positions] == keys, self._order[positions], UNKNOWN)

    def labels(self, query: np.ndarray, document: np.ndarray) -> Codes:
        """Return int8 labels: 1 answers the query or shares a positive pair, 0 does not, else UNKNOWN."""
        keys = query * self._size + document
        answers = _among(keys, self._relevant)
        apart = _among(keys, self._irrelevant) & ~answers
        answers |= self._joined(query, document) & ~apart & ~self.own_copies(query, document)
        return np.where(answers, 1, np.where(apart, 0, UNKNOWN)).astype(np.int8)

    def own_copies(self, query: np.ndarray, document: np.ndarray) -> Bool[np.ndarray, "candidates"]:
        return self._query_text[query] == self._document_text[document]

    def reasons(self, query: np.ndarray, document: np.ndarray) -> Iterable[tuple[Reason, np.ndarray]]:
        """Return reasons that need no score, with the candidates of each."""
        texts = self._document_text[document]
        yield Reason.IS_POSITIVE, _among(query * self._size + document, self._relevant)
        is_copy = self.own_copies(query, document) | _among(query * self._span + texts, self._copies)
        yield Reason.POSITIVE_CLUSTER, self._joined(query, document) & ~is_copy
        yield Reason.NEAR_COPY, is_copy
        yield Reason.EVALUATION_ROW, self._evaluated[document]

    def _joined(self, query: np.ndarray, document: np.ndarray) -> Bool[np.ndarray, "candidates"]:
        return self._cluster[self._query_text[query]] == self._cluster[self._document_text[document]]


def refused(
    pool: Pool,
    answers: Known,
    lowest: Float[np.ndarray, "candidates"],
    options: MiningOptions,
    *,
    by_judge: bool,
) -> Codes:
    """Return the reason of each candidate as its position in REASONS, int8. The cross-encoder is applied later.

    Args:
        lowest: Lowest score of a positive of the query.
        by_judge: max_score applies to the cross-encoder, not to these scores.
    """
    rules = [*answers.reasons(pool.query, pool.document)]
    rules.append((Reason.OUTSIDE_WINDOW, (pool.rank > 0) & (pool.rank <= options.range_min)))
    rules += above(pool.score, lowest, options, by_judge=by_judge)
    if options.min_score is not None:
        rules.append((Reason.BELOW_MIN_SCORE, (pool.rank > 0) & (pool.score < options.min_score)))
    reasons, applies = zip(*rules, strict=True)
    return np.select(applies, [REASONS.index(reason) for reason in reasons], default=0).astype(np.int8)


def above(
    scores: Float[np.ndarray, "candidates"],
    lowest: Float[np.ndarray, "candidates"],
    options: MiningOptions,
    *,
    by_judge: bool,
) -> list[tuple[Reason, Bool[np.ndarray, "candidates"]]]:
    """Return the score rules of `MiningOptions`: each reason with the candidates it drops."""
    rules = []
    if options.relative_margin is not None:
        # Below 0 a part of the score would be more than the score.
        rules.append((Reason.ABOVE_SHARE, scores > lowest - options.relative_margin * np.abs(lowest)))
    if options.absolute_margin is not None:
        rules.append((Reason.ABOVE_MARGIN, scores > lowest - options.absolute_margin))
    if options.max_score is not None and not by_judge:
        rules.append((Reason.ABOVE_THRESHOLD, scores >= options.max_score))
    return rules


def _numbered(texts: Sequence[str], numbers: defaultdict[str, int]) -> Int[np.ndarray, "texts"]:
    """Give equal numbers to texts that differ in spaces, punctuation, width and case only."""
    letters = chain.from_iterable(
        _letters(texts[start : start + TEXTS_AT_ONCE]) for start in range(0, len(texts), TEXTS_AT_ONCE)
    )
    return np.fromiter(map(numbers.__getitem__, letters), dtype=np.int64)


def _letters(texts: Sequence[str]) -> list[str]:
    """Return `letters_only(normalize(text))` of each text, computed for all at once."""
    together = _MARKS.sub("", fold_lines(NO_WIDTH.sub("", "\n".join(texts)))).split("\n")
    if len(together) != len(texts):  # a text has line breaks
        together = [""] * len(texts)
    return [letters or letters_only(normalize(text)) for letters, text in zip(together, texts, strict=True)]


def _keys(lists: Sequence[np.ndarray] | None, size: int) -> np.ndarray:
    """Encode each pair of a query and a document as one number, sorted."""
    if not lists:
        return np.empty(0, dtype=np.int64)
    owners = np.repeat(np.arange(len(lists)), [len(documents) for documents in lists])
    return np.sort(owners * size + np.concatenate(lists).astype(np.int64))


def _among(keys: np.ndarray, sorted_keys: np.ndarray) -> Bool[np.ndarray, "keys"]:
    """True for keys in `sorted_keys`."""
    if not len(sorted_keys):
        return np.zeros(len(keys), dtype=bool)
    return sorted_keys[np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)] == keys


def chosen(
    pool: Pool,
    codes: Codes,
    options: MiningOptions,
    *,
    staying: Bool[np.ndarray, "candidates"] | None = None,
) -> Bool[np.ndarray, "candidates"]:
    """Choose at most `options.num_negatives` candidates of each query. A masked candidate counts.

    Draws depend on the seed and the queries of the pool alone. Weights are exp(score / temperature) without
    replacement. The draw takes the largest values of score / temperature + Gumbel noise (Kool et al. 2019,
    https://arxiv.org/abs/1903.06059).

    Args:
        codes: Reasons as positions in REASONS. 0 means usable.
        staying: Hard candidates to prefer to all others.
    """
    if not len(pool.query):
        return np.zeros(0, dtype=bool)
    draw = np.random.default_rng([options.seed, int(pool.query[0]), 1])
    usable = codes == 0
    if options.false_negatives == "mask":
        usable |= np.isin(codes, SUSPECTED_CODES)
    wish = -pool.score.astype(np.float64)
    if options.temperature is not None:
        wish = wish / options.temperature - draw.gumbel(size=len(wish))
    if staying is not None:
        wish[staying] = -np.inf
    is_hard = pool.rank > 0
    wish = np.where(is_hard, wish, draw.random(len(wish)))
    queries = pool.query - pool.query[0]
    counts = [np.bincount(queries[usable & kind], minlength=queries[-1] + 1) for kind in (is_hard, ~is_hard)]
    hard, random = (_places(queries, wish, usable & kind) for kind in (is_hard, ~is_hard))
    num_hard = int(options.num_negatives * options.hard_share + 0.5)
    from_random = np.minimum(options.num_negatives - np.minimum(num_hard, counts[0]), counts[1])
    from_hard = options.num_negatives - from_random
    return (hard < from_hard[queries]) | (random < from_random[queries])


def _places(queries: np.ndarray, wish: np.ndarray, usable: np.ndarray) -> Int[np.ndarray, "candidates"]:
    """Rank usable candidates of each query by rising wish. Others get the largest integer."""
    positions = np.full(len(queries), np.iinfo(np.int64).max)
    rows = np.flatnonzero(usable)
    wishes = wish[rows]
    is_in_order = (np.diff(queries[rows]) > 0) | (wishes[1:] >= wishes[:-1])
    if not is_in_order.all():  # retrieved candidates are
        rows = rows[np.lexsort((rows, wishes, queries[rows]))]
    ordered = queries[rows]
    positions[rows] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    return positions
