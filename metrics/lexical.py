"""The lexical baseline: how far shared characters alone go, without any model."""

from collections.abc import Sequence

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer


def lexical_scores(texts_a: Sequence[str], texts_b: Sequence[str]) -> np.ndarray:
    """Cosine of the TF-IDF vectors of two columns of texts, float32 (rows,) in [0, 1].

    Terms are characters and pairs of neighbouring characters, lower case; a term that occurs t times weighs
    (1 + ln t) · (1 + ln((1 + N) / (1 + df))), with N texts of which df hold it. Both are counted over the
    rows given, a sentence once for every row it is in: no outside corpus, hence no training, and scores of
    two splits are not on one scale.

    >>> lexical_scores(["今天天气好", "你好"], ["今天天气好", "再见"]).tolist()
    [1.0, 0.0]
    """
    texts = [*texts_a, *texts_b]
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True).fit_transform(texts)
    rows = len(texts_a)
    products = vectors[:rows].multiply(vectors[rows:]).sum(axis=1)
    return np.asarray(products, dtype=np.float32).ravel()
