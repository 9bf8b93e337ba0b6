"""Scores of anchors with several texts, of which the first is their own → the numbers that go into a result."""

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Score
from juzhen.metrics.correlation import bootstrap_mean

COSINE_TEMPERATURE = 0.05
"""Divides cosines in `ranking_loss`, as in training with loss=info_nce."""


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
    how = {"samples": bootstrap_samples, "confidence": confidence, "seed": seed}
    found = {}
    if is_ranking:
        losses = logsumexp(scores / temperature, axis=1) - own / temperature
        found["ranking_accuracy"] = Score(float(right.mean()), *bootstrap_mean(right, **how), count=count)
        found["ranking_loss"] = Score(float(losses.mean()), *bootstrap_mean(losses, **how), count=count)
    else:
        found["triplet_accuracy"] = Score(float(right.mean()), *bootstrap_mean(right, **how), count=count)
    positive, negative = float(own.mean()), float(others[np.isfinite(others)].mean())
    spacing = {"positive_score": positive, "negative_score": negative, "score_gap": positive - negative}
    return found | {name: Score(value, count=count) for name, value in spacing.items()}
