"""Rankings → the numbers that go into a result: of anchors among a few texts, and of queries in a corpus."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Score
from juzhen.metrics.correlation import bootstrap_mean

COSINE_TEMPERATURE = 0.05
"""Divides cosines in `ranking_loss`, as in training with loss=info_nce."""

CUTOFF = 10
"""Documents of a query's list that `query_numbers` looks at."""


def query_numbers(
    documents: Int[np.ndarray, "queries depth"], relevant: Sequence[Mapping[int, float]]
) -> dict[str, Float[np.ndarray, "queries"]]:
    """`ndcg_at_10`, `mrr_at_10` and `recall_at_10` of each query, from the documents that it found, best first.

    ndcg    Σ_r gain_r / log2(1 + r) over ranks r ≤ 10, divided by its value for the best order there is
    mrr     1 / rank of the first document that answers the query, 0 where none of the ten does
    recall  share of all documents that answer it which are among the ten

    As torchmetrics has them for positive scores; it takes a document with a score of 0 or less for one not found,
    and cosines may be negative.

    documents  numbers of documents, −1 where a list has ended
    relevant   for each query: number of a document that answers it → its gain, above 0
    """
    ranks = np.arange(1, CUTOFF + 1)
    gains, ideal = np.zeros((2, len(relevant), CUTOFF))
    for query, known in enumerate(relevant):
        found = [known.get(document, 0.0) for document in documents[query, :CUTOFF].tolist()]
        best = sorted(known.values(), reverse=True)[:CUTOFF]
        gains[query, : len(found)], ideal[query, : len(best)] = found, best
    discounts, counts = 1 / np.log2(1 + ranks), np.array([len(known) for known in relevant])
    return {
        "ndcg_at_10": (gains @ discounts) / (ideal @ discounts),
        "mrr_at_10": ((gains > 0) / ranks).max(axis=1, initial=0.0),
        "recall_at_10": (gains > 0).sum(axis=1) / counts,
    }


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
