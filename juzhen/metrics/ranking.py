"""Rankings → the numbers that go into a result: of anchors among a few texts, and of queries in a corpus."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import scipy
from jaxtyping import Float, Int

from juzhen.core.examples import Examples, Kind
from juzhen.core.kinds import RANKINGS, STANDARD_RANKS, ranking_measure
from juzhen.core.result import Score
from juzhen.metrics.correlation import mean_interval
from juzhen.metrics.metric_support import NO_OTHERS

COSINE_TEMPERATURE = 0.05
"""Divides cosines in `ranking_loss`, as in training with loss=info_nce."""

CELLS_AT_ONCE = 2**21
"""Places of lists that are looked at together: memory stays bounded, however many queries there are."""

PerQuery = Float[np.ndarray, "queries"]


@dataclass(frozen=True)
class RankedLists:
    """The documents of each query, best first, with the places of equal scores.

    Attributes:
        documents: Numbers, −1 after the end of a list.
        starts: Number of documents with a higher score: equal scores have the same number.
        beyond: For each query, number of omitted documents with the score of the last listed one.
        answers: Listed documents that answer their query: numbers of queries, and of documents.
    """

    documents: Int[np.ndarray, "queries depth"]
    starts: Int[np.ndarray, "queries depth"]
    beyond: Int[np.ndarray, "queries"]
    answers: Int[np.ndarray, "two answers"]

    @classmethod
    def of(
        cls,
        documents: Int[np.ndarray, "queries depth"],
        scores: Float[np.ndarray, "queries depth"] | None = None,
        beyond: Int[np.ndarray, "queries"] | None = None,
        answers: Int[np.ndarray, "two answers"] | None = None,
    ) -> "RankedLists":
        """Lists by their scores, best first. Without scores no two documents are equal.

        Args:
            documents: Document numbers of each query.
            scores: Their scores, higher = closer. None: already in order.
            beyond: Number of answers that each list lacks.
            answers: Pairs of query and answer that are searched for, (2, answers).

        Returns:
            The lists.
        """
        starts = np.broadcast_to(np.arange(documents.shape[1]), documents.shape)
        if scores is not None:
            is_next = np.ones(documents.shape, dtype=bool)
            is_next[:, 1:] = scores[:, 1:] != scores[:, :-1]
            starts = np.maximum.accumulate(np.where(is_next, starts, 0), axis=1)
        beyond = np.zeros(len(documents), dtype=np.int64) if beyond is None else beyond
        return cls(
            documents, starts, beyond, np.empty((2, 0), dtype=np.int64) if answers is None else answers
        )

    @property
    def sizes(self) -> Int[np.ndarray, "queries depth"]:
        """Number of documents with the score of the one in that place, including itself and omitted ones."""
        depth = self.documents.shape[1]
        lengths = (self.documents >= 0).sum(axis=1, keepdims=True)
        is_last = np.ones(self.documents.shape, dtype=bool)
        is_last[:, :-1] = self.starts[:, 1:] != self.starts[:, :-1]
        ends = np.where(is_last, np.arange(1, depth + 1), depth)
        ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        ends = np.where(ends >= lengths, lengths + self.beyond[:, None], ends)
        return np.maximum(ends - self.starts, 1)

    def some(self, queries: slice) -> "RankedLists":
        """Return the lists of some queries.

        Args:
            queries: The queries.

        Returns:
            Their lists.
        """
        inside = (self.answers[0] >= queries.start) & (self.answers[0] < queries.stop)
        answers = self.answers[:, inside] - [[queries.start], [0]]
        return RankedLists(self.documents[queries], self.starts[queries], self.beyond[queries], answers)


def query_numbers(
    lists: RankedLists | Int[np.ndarray, "queries depth"],
    relevant: Sequence[Mapping[int, float]],
    measures: Sequence[str] = RANKINGS,
) -> dict[str, PerQuery]:
    """Compute each of `measures`, such as `ndcg_at_10`, for each query from its documents, best first.

    As in trec_eval: ndcg_cut, recip_rank of k documents, recall, map_cut, P and success. A list with fewer
    than k documents is not filled up, so recall is 1 for a corpus with fewer documents. For equal scores it
    is the expected value over all orders of the tied documents, in closed form (McSherry and Najork 2008,
    https://doi.org/10.1007/978-3-540-78646-7_38). The order of the file has no influence.

    Args:
        lists: Ranked lists with ties. Or document numbers without ties, −1 after the end of a list.
        relevant: For each query: number of a document that answers it → its gain, above 0.
        measures: Names of metrics.

    Returns:
        ndcg: Σ_r gain_r / log2(1 + r) over ranks r ≤ k, divided by its value for the best possible order
        mrr: 1 / rank of the first document that answers the query, 0 if none of the first k does
        recall: share of all documents that answer it which are among the first k
        map: Σ_r hit_r · (hits up to r) / r over ranks r ≤ k, divided by the number of all documents that
            answer it
        precision: share of the first k that answer the query, a place without a document counting as a miss
        hit_rate: 1 if one of the first k answers it, else 0
    """
    return {name: values[0] for name, values in order_numbers(lists, relevant, measures).items()}


def order_numbers(
    lists: RankedLists | Int[np.ndarray, "queries depth"],
    relevant: Sequence[Mapping[int, float]],
    measures: Sequence[str] = RANKINGS,
) -> dict[str, Float[np.ndarray, "three queries"]]:
    """`query_numbers`, and the same in the worst and in the best order of documents with equal scores.

    Args:
        lists: Documents of each query, best first.
        relevant: Document → gain, for each query.
        measures: Names of metrics.

    Returns:
        Metric → array (3, queries): expected, worst, best.
    """
    cutoffs = {name: ranking_measure(name) for name in measures}
    lists = lists if isinstance(lists, RankedLists) else RankedLists.of(lists)
    depth = max((cutoff for _, cutoff in cutoffs.values()), default=1)
    size = max(1, CELLS_AT_ONCE // max(depth, lists.documents.shape[1]))
    parts = [
        _numbers(lists.some(slice(start, start + size)), relevant[start : start + size], cutoffs, depth)
        for start in range(0, max(len(relevant), 1), size)
    ]
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in cutoffs}


def _numbers(
    lists: RankedLists,
    relevant: Sequence[Mapping[int, float]],
    cutoffs: Mapping[str, tuple[str, int]],
    depth: int,
) -> dict[str, Float[np.ndarray, "three queries"]]:
    counts = np.array([len(gains_of_query) for gains_of_query in relevant], dtype=np.int64)
    owners = np.repeat(np.arange(len(counts)), counts)
    gains = np.fromiter(chain.from_iterable(gained.values() for gained in relevant), np.float64, len(owners))
    answers = np.fromiter(chain.from_iterable(relevant), np.int64, len(owners))
    order = np.lexsort((-gains, owners))
    turns = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    ideal = _placed(owners, turns, gains[order], (len(counts), depth))
    hits = _Found.of(lists, owners, answers, gains)
    best = hits.in_order(best=True, depth=depth)
    result = {name: np.tile(values, (3, 1)) for name, values in _plain(best, ideal, counts, cutoffs).items()}
    if len(tied := np.unique(hits.query[hits.size > 1])):
        worst = hits.in_order(best=False, depth=depth)[tied]
        least = _plain(worst, ideal[tied], counts[tied], cutoffs)
        mean = _expected(lists, hits, ideal, counts, cutoffs, tied)
        for name, values in result.items():
            values[0, tied], values[1, tied] = mean[name], least[name]
    return result


@dataclass(frozen=True)
class _Found:
    """Documents that answer their query and are in its list, or have the score of its last one.

    Attributes:
        start, size: Of the documents with its score: number with a higher score, and their number.
    """

    query: Int[np.ndarray, "answers"]
    start: Int[np.ndarray, "answers"]
    size: Int[np.ndarray, "answers"]
    gain: Float[np.ndarray, "answers"]
    queries: int

    @classmethod
    def of(cls, lists: RankedLists, owners: np.ndarray, answers: np.ndarray, gains: np.ndarray) -> "_Found":
        documents, sizes = lists.documents, lists.sizes
        last = np.maximum((documents >= 0).sum(axis=1) - 1, 0)
        span = 1 + max(int(documents.max(initial=0)), int(answers.max(initial=0)))
        keys, rows = owners * span + answers, np.arange(len(documents))[:, None]
        order = np.argsort(keys)
        listed_keys = np.where(documents < 0, -1, rows * span + documents)
        positions = np.minimum(np.searchsorted(keys[order], listed_keys), max(len(keys) - 1, 0))
        is_there = (
            keys[order][positions] == listed_keys if len(keys) else np.zeros(documents.shape, dtype=bool)
        )
        query, rank = np.nonzero(is_there)
        queries, beyond = lists.answers
        of_others = order[np.searchsorted(keys[order], queries * span + beyond)]
        return cls(
            np.concatenate([query, queries]),
            np.concatenate([lists.starts[query, rank], lists.starts[queries, last[queries]]]),
            np.concatenate([sizes[query, rank], sizes[queries, last[queries]]]),
            np.concatenate([gains[order[positions[query, rank]]], gains[of_others]]),
            len(documents),
        )

    def in_order(self, *, best: bool, depth: int) -> Float[np.ndarray, "queries depth"]:
        """Gain at each rank. Tied documents that answer come first, the best of them leading, or last."""
        order = np.lexsort((-self.gain, self.start, self.query))
        query, start, size = self.query[order], self.start[order], self.size[order]
        is_first = np.ones(len(query), dtype=bool)
        is_first[1:] = (query[1:] != query[:-1]) | (start[1:] != start[:-1])
        turn = np.arange(len(query)) - np.maximum.accumulate(np.where(is_first, np.arange(len(query)), 0))
        position = start + (turn if best else size - 1 - turn)
        return _placed(query, position, self.gain[order], (self.queries, depth))


def _placed(
    rows: np.ndarray, positions: np.ndarray, values: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Zeros but for `values`, where their places are within the shape."""
    table, inside = np.zeros(shape), positions < shape[1]
    table[rows[inside], positions[inside]] = values[inside]
    return table


def _plain(
    gains: Float[np.ndarray, "queries depth"],
    ideal: Float[np.ndarray, "queries depth"],
    counts: Int[np.ndarray, "queries"],
    cutoffs: Mapping[str, tuple[str, int]],
) -> dict[str, PerQuery]:
    """Metrics of one order of the documents."""
    ranks = np.arange(1, gains.shape[1] + 1)
    hits, discounts = gains > 0, 1 / np.log2(1 + ranks)
    numbers: dict[str, Callable[[int], PerQuery]] = {
        "ndcg": lambda k: (gains[:, :k] @ discounts[:k]) / (ideal[:, :k] @ discounts[:k]),
        "mrr": lambda k: (hits / ranks)[:, :k].max(axis=1, initial=0.0),
        "recall": lambda k: hits[:, :k].sum(axis=1) / counts,
        "map": lambda k: (hits * hits.cumsum(axis=1) / ranks)[:, :k].sum(axis=1) / counts,
        "precision": lambda k: hits[:, :k].mean(axis=1) * (min(k, hits.shape[1]) / k),
        "hit_rate": lambda k: hits[:, :k].max(axis=1, initial=False).astype(np.float64),
    }
    return {name: numbers[measure](cutoff) for name, (measure, cutoff) in cutoffs.items()}


def _expected(
    lists: RankedLists,
    answers_in_lists: _Found,
    ideal: Float[np.ndarray, "queries depth"],
    counts: Int[np.ndarray, "queries"],
    cutoffs: Mapping[str, tuple[str, int]],
    queries: Int[np.ndarray, "some"],
) -> dict[str, PerQuery]:
    """Mean of the metrics over all orders of equal scores, for some queries.

    Of n tied documents, r answer. The t-th of their places, from 0, is an answer with the probability r / n.
    Its gain is their mean, and the number of answers before it among them is t (r − 1) / (n − 1). It is the
    first that answers with the probability Π_{u < t} (1 − r / (n − u)) · r / (n − t), if no answer ranks
    before the tie.
    """
    depth = ideal.shape[1]
    width = min(depth, lists.documents.shape[1])
    starts, sizes = lists.starts[queries, :width], lists.sizes[queries, :width]
    shape = len(lists.documents), lists.documents.shape[1]
    cells = answers_in_lists.query * shape[1] + answers_in_lists.start

    def of_group(weights: np.ndarray | None) -> np.ndarray:
        return np.bincount(cells, weights=weights, minlength=shape[0] * shape[1]).reshape(shape)[queries]

    at_start = of_group(None)
    before = np.take_along_axis(at_start.cumsum(axis=1) - at_start, starts, axis=1)
    answers = np.take_along_axis(at_start, starts, axis=1)
    gains = np.take_along_axis(of_group(answers_in_lists.gain), starts, axis=1) / sizes
    ranks = np.arange(1, width + 1)
    turn, hits = ranks - 1 - starts, answers / sizes
    remaining = np.maximum(sizes - turn, 1)
    is_answer = np.minimum(answers / remaining, 1.0)
    none_yet = np.cumprod(np.pad(1 - is_answer, ((0, 0), (1, 0)), constant_values=1.0), axis=1)[:, :-1]
    among = turn * np.maximum(answers - 1, 0) / np.maximum(sizes - 1, 1)
    discounts = 1 / np.log2(2 + np.arange(depth))
    numbers: dict[str, Callable[[int], PerQuery]] = {
        "ndcg": lambda k: (gains[:, :k] @ discounts[: min(k, width)]) / (ideal[queries, :k] @ discounts[:k]),
        "mrr": lambda k: (none_yet * is_answer / ranks)[:, :k].sum(axis=1),
        "recall": lambda k: hits[:, :k].sum(axis=1) / counts[queries],
        "map": lambda k: (hits * (before + 1 + among) / ranks)[:, :k].sum(axis=1) / counts[queries],
        "precision": lambda k: hits[:, :k].sum(axis=1) / k,
        "hit_rate": lambda k: (none_yet * is_answer)[:, :k].sum(axis=1),
    }
    return {name: numbers[measure](cutoff) for name, (measure, cutoff) in cutoffs.items()}


@dataclass(frozen=True)
class FirstAnswers:
    """Rank of the first document that answers each query, among all of a corpus.

    Attributes:
        right: Highest score of a document that answers it.
        other: Highest score of the other documents. NaN if all answer.
        above: Number of other documents that score higher than `right`.
        equal_right, equal_other: Number of documents of either sort with the score `right`, including itself.
    """

    right: PerQuery
    other: PerQuery
    above: Int[np.ndarray, "queries"]
    equal_right: Int[np.ndarray, "queries"]
    equal_other: Int[np.ndarray, "queries"]


def first_answer_numbers(first: FirstAnswers) -> dict[str, Float[np.ndarray, "three queries"]]:
    """Compute STANDARD_RANKS of each query: the expected value over the orders of ties, the worst, the best.

    Of a + b equals, a answer. The first that answers follows j others with the probability Π_{u < j} (1 − a /
    (a + b − u)) · a / (a + b − j).

    Args:
        first: First answer of each query and its ties.

    Returns:
        recall: 1 if the first document that answers is among the first k. This is recall, because a question
            has one standard question. With several it is enough to find one.
        mrr: 1 / rank of the first document that answers, over the whole corpus
    """
    best = first.above + 1
    ranks = np.stack([best, best + first.equal_other, best])

    def of_ranks(name: str, ranks: np.ndarray) -> np.ndarray:
        return 1 / ranks if name == "mrr" else (ranks <= ranking_measure(name)[1]).astype(np.float64)

    numbers = {name: of_ranks(name, ranks) for name in STANDARD_RANKS}
    for query in np.flatnonzero(first.equal_other).tolist():
        right, other = int(first.equal_right[query]), int(first.equal_other[query])
        follows = np.arange(other + 1)
        answers = right / (right + other - follows)
        chances = np.cumprod(np.append(1.0, 1 - answers[:-1])) * answers
        for name, values in numbers.items():
            values[0, query] = chances @ of_ranks(name, best[query] + follows)
    return numbers


def score_ranking(
    scores: Float[np.ndarray, "rows candidates"],
    examples: Examples,
    *,
    temperature: float,
    confidence: float,
    bootstrap_samples: int,
    seed: int,
) -> dict[str, Score]:
    """Score positive pairs or triplets: accuracy, loss, mean scores and their gap.

    Positive pairs have `ranking_accuracy` and `ranking_loss`. Triplets have `triplet_accuracy`.

    Args:
        scores: The positive first, −inf for candidates that are not wrong answers. A row without other
            candidates does not count.
        examples: The rows.
        temperature: τ of the loss.
        confidence: Of the intervals.
        bootstrap_samples: Number of resamples of the intervals.
        seed: Of the resamples.

    Returns:
        ranking_accuracy, triplet_accuracy: share of rows whose positive has the highest score, counting 1/k
            if k texts share it
        ranking_loss: mean of −log [exp(s_own/τ) / Σ_c exp(s_c/τ)] in nats, τ the temperature: InfoNCE from
            anchor to positive
        positive_score, negative_score, score_gap: mean score of positives, of all others, and their
            difference

        All are None if no row counts.

    Raises:
        ValueError: A score that is not a number. The message names the first such row.
    """
    broken = np.flatnonzero(np.isnan(scores).any(axis=1) | ~np.isfinite(scores[:, 0]))
    if len(broken):
        raise ValueError(f"row {broken[0]}: a score is not a number ({len(broken)} such rows)")
    scores = scores[np.isfinite(scores[:, 1:]).any(axis=1)].astype(np.float64)
    positives, candidates = scores[:, 0], scores[:, 1:]
    count = len(scores)
    is_ranking = examples.kind is Kind.POSITIVE_PAIR
    if not count:
        names = ("ranking_accuracy", "ranking_loss") if is_ranking else ("triplet_accuracy",)
        return dict.fromkeys(
            (*names, "positive_score", "negative_score", "score_gap"), Score(None, why=NO_OTHERS)
        )
    _, right = right_answers(scores)
    interval = partial(mean_interval, samples=bootstrap_samples, confidence=confidence, seed=seed)
    measures = {}
    if is_ranking:
        losses = scipy.special.logsumexp(scores / temperature, axis=1) - positives / temperature
        measures["ranking_accuracy"] = Score(float(right.mean()), *interval(right), count=count)
        measures["ranking_loss"] = Score(float(losses.mean()), *interval(losses, bounds=None), count=count)
    else:
        measures["triplet_accuracy"] = Score(float(right.mean()), *interval(right), count=count)
    positive, negative = float(positives.mean()), float(candidates[np.isfinite(candidates)].mean())
    spacing = {"positive_score": positive, "negative_score": negative, "score_gap": positive - negative}
    return measures | {name: Score(value, count=count) for name, value in spacing.items()}


def right_answers(
    scores: Float[np.ndarray, "rows candidates"],
) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows"]]:
    """Highest score of another candidate, and 1 if the own text has a higher one, 1/k if k texts share it.

    Args:
        scores: As in `score_ranking`. NaN for both of a row without another candidate.

    Returns:
        Two arrays (rows,).
    """
    positives, candidates = scores[:, 0].astype(np.float64), scores[:, 1:].astype(np.float64)
    best = candidates.max(axis=1, initial=-np.inf)
    shared = 1 / (1 + (candidates == positives[:, None]).sum(axis=1))
    right = np.where(positives > best, 1.0, np.where(positives == best, shared, 0.0))
    is_alone = np.isneginf(best)
    return np.where(is_alone, np.nan, best), np.where(is_alone, np.nan, right)
