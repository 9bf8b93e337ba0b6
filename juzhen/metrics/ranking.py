"""Rankings → the numbers that go into a result: of anchors among a few texts, and of queries in a corpus."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from juzhen.core.examples import Examples, Kind
from juzhen.core.measures import RANKINGS, ranking_measure
from juzhen.core.result import Score
from juzhen.metrics.correlation import bootstrap_mean

COSINE_TEMPERATURE = 0.05
"""Divides cosines in `ranking_loss`, as in training with loss=info_nce."""

QUERIES_AT_ONCE = 16_384
"""Queries whose lists are looked at together: memory stays bounded, however many there are."""


def query_numbers(
    documents: Int[np.ndarray, "queries depth"],
    relevant: Sequence[Mapping[int, float]],
    measures: Sequence[str] = RANKINGS,
) -> dict[str, Float[np.ndarray, "queries"]]:
    """Each of `measures`, such as `ndcg_at_10`, of each query, from the documents that it found, best first.

    ndcg    Σ_r gain_r / log2(1 + r) over ranks r ≤ k, divided by its value for the best order there is
    mrr     1 / rank of the first document that answers the query, 0 where none of the first k does
    recall  share of all documents that answer it which are among the first k
    map     Σ_r hit_r · (hits up to r) / r over ranks r ≤ k, divided by the number of all documents that answer it

    As trec_eval has them: ndcg_cut, recip_rank of k documents, recall and map_cut. A list with fewer than k documents
    counts as it is, so where the corpus has fewer, recall is 1.

    documents  numbers of documents, −1 where a list has ended
    relevant   for each query: number of a document that answers it → its gain, above 0
    """
    wanted = {name: ranking_measure(name) for name in measures}
    parts = [
        _numbers(
            documents[start : start + QUERIES_AT_ONCE], relevant[start : start + QUERIES_AT_ONCE], wanted
        )
        for start in range(0, max(len(relevant), 1), QUERIES_AT_ONCE)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in wanted}


def _numbers(
    documents: Int[np.ndarray, "queries depth"],
    relevant: Sequence[Mapping[int, float]],
    wanted: Mapping[str, tuple[str, int]],
) -> dict[str, Float[np.ndarray, "queries"]]:
    depth = max((cutoff for _, cutoff in wanted.values()), default=0)
    ranks = np.arange(1, depth + 1)
    gains, ideal = np.zeros((2, len(relevant), depth))
    for query, known in enumerate(relevant):
        found = [known.get(document, 0.0) for document in documents[query, :depth].tolist()]
        best = sorted(known.values(), reverse=True)[:depth]
        gains[query, : len(found)], ideal[query, : len(best)] = found, best
    hits, discounts = gains > 0, 1 / np.log2(1 + ranks)
    counts = np.array([len(known) for known in relevant])
    numbers: dict[str, Callable[[int], np.ndarray]] = {
        "ndcg": lambda k: (gains[:, :k] @ discounts[:k]) / (ideal[:, :k] @ discounts[:k]),
        "mrr": lambda k: (hits / ranks)[:, :k].max(axis=1, initial=0.0),
        "recall": lambda k: hits[:, :k].sum(axis=1) / counts,
        "map": lambda k: (hits * hits.cumsum(axis=1) / ranks)[:, :k].sum(axis=1) / counts,
    }
    return {name: numbers[measure](cutoff) for name, (measure, cutoff) in wanted.items()}


def score_ranking(
    scores: Float[np.ndarray, "rows candidates"],
    examples: Examples,
    *,
    temperature: float,
    confidence: float,
    bootstrap_samples: int,
    seed: int,
) -> dict[str, Score]:
    """`ranking_accuracy` and `ranking_loss` of positive pairs or `triplet_accuracy`; mean scores and their gap.

    accuracy  share of rows whose own text has the highest score; where k texts share it, the row counts 1/k
    loss      mean of −log [exp(s_own/τ) / Σ_c exp(s_c/τ)] in nats, τ the temperature: InfoNCE from anchor to positive
    positive_score, negative_score, score_gap  mean score of own texts, of all others, and their difference

    scores  own text first, −inf where a candidate is no wrong answer; a row that has no other does not count

    All are None where no row counts. Raises ValueError naming the first row with a score that is no number.
    """
    broken = np.flatnonzero(np.isnan(scores).any(axis=1) | ~np.isfinite(scores[:, 0]))
    if len(broken):
        raise ValueError(f"row {broken[0]}: a score is not a number ({len(broken)} such rows)")
    scores = scores[np.isfinite(scores[:, 1:]).any(axis=1)].astype(np.float64)
    own, others = scores[:, 0], scores[:, 1:]
    count = len(scores)
    is_ranking = examples.kind is Kind.POSITIVE_PAIR
    if not count:
        names = ("ranking_accuracy", "ranking_loss") if is_ranking else ("triplet_accuracy",)
        return dict.fromkeys((*names, "positive_score", "negative_score", "score_gap"), Score(None))
    best = others.max(axis=1)
    shared = 1 / (1 + (others == own[:, None]).sum(axis=1))
    right = np.where(own > best, 1.0, np.where(own == best, shared, 0.0))
    interval = partial(bootstrap_mean, samples=bootstrap_samples, confidence=confidence, seed=seed)
    found = {}
    if is_ranking:
        losses = logsumexp(scores / temperature, axis=1) - own / temperature
        found["ranking_accuracy"] = Score(float(right.mean()), *interval(right), count=count)
        found["ranking_loss"] = Score(float(losses.mean()), *interval(losses), count=count)
    else:
        found["triplet_accuracy"] = Score(float(right.mean()), *interval(right), count=count)
    positive, negative = float(own.mean()), float(others[np.isfinite(others)].mean())
    spacing = {"positive_score": positive, "negative_score": negative, "score_gap": positive - negative}
    return found | {name: Score(value, count=count) for name, value in spacing.items()}
