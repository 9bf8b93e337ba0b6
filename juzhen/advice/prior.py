"""The order in which sources are tried: what earlier trainings gained, and how near their words are.

`prior.csv` holds the gains of results/decide over the untrained encoder, in points, mean over seeds.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.feature_extraction.text import TfidfVectorizer

from juzhen.advice.target import Target, TrainingSet
from juzhen.core.examples import Examples
from juzhen.encoders.sentence_encoder import SentenceEncoder

GAINS = Path(__file__).parent / "prior.csv"
MOST_TEXTS, MOST_ENCODED = 2000, 300


@cache
def stored_gains() -> pd.DataFrame:
    """Return measured gains of sources (rows) on targets (columns). Empty if none are shipped."""
    return pd.read_csv(GAINS, index_col=0) if GAINS.is_file() else pd.DataFrame()


def expected_gain(source: str, target: str) -> float:
    """Return the measured gain of a source on a target, in points.

    For a new target it is the mean over all targets. For a new source it is NaN.
    """
    gains = stored_gains()
    if source not in gains.index:
        return np.nan
    of_source = gains.loc[source]
    return (
        float(of_source[target])
        if target in of_source and pd.notna(of_source[target])
        else float(of_source.mean())
    )


def mean_tfidf(sets: Sequence[Examples]) -> np.ndarray:
    """Compute mean TF-IDF vectors over characters and pairs of them, one per set (sets, terms), of length 1."""
    texts = [_texts(each) for each in sets]
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32)
    vectorizer.fit([text for part in texts for text in part])
    means = np.stack([np.asarray(vectorizer.transform(part).mean(axis=0)).ravel() for part in texts])
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9))


def mean_embeddings(encoder: SentenceEncoder, sets: Sequence[Examples]) -> np.ndarray:
    """Compute the mean embedding of at most MOST_ENCODED texts of each set, of length 1, (sets, dim)."""
    means = [np.asarray(encoder.encode(_texts(each)[:MOST_ENCODED])).mean(axis=0) for each in sets]
    return np.stack([mean / max(float(np.linalg.norm(mean)), 1e-9) for mean in means])


def trial_order(sources: Sequence[TrainingSet], target: Target, encoder: SentenceEncoder) -> list[str]:
    """Names of the sources, the most promising first, by the sum of ranks.

    Ranks are by TF-IDF, by mean embeddings, and by earlier gains. In results/decide the first two choose better than
    trainings of some hundred rows do.
    """
    if not sources:
        return []
    sets = [target.scored, *(source.rows for source in sources)]
    ranks = np.zeros(len(sources))
    for of_target, *of_sources in (mean_tfidf(sets), mean_embeddings(encoder, sets)):
        ranks += rankdata([-float(mean @ of_target) for mean in of_sources])
    gains = np.array([expected_gain(source.name, target.name) for source in sources])
    gains = np.where(np.isnan(gains), np.nanmean(gains) if np.isfinite(gains).any() else 0.0, gains)
    ranks += rankdata(-gains)
    return [sources[place].name for place in np.argsort(ranks, kind="stable")]


def _texts(examples: Examples) -> list[str]:
    used = np.unique(np.concatenate([values[:MOST_TEXTS] for values in examples.columns.values()]))[
        :MOST_TEXTS
    ]
    return [examples.sentences[place] for place in used.tolist()]
