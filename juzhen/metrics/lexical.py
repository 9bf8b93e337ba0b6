"""The lexical baseline: how far shared characters alone go, without any model."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from juzhen.core.columns import as_text_list
from juzhen.core.errors import UserError


def lexical_vectors(texts: Sequence[str], *, counted: Sequence[str]) -> scipy.sparse.csr_array:
    """TF-IDF vectors of length 1, (texts, terms); terms and their weights are counted over the texts `counted`.

    Terms are characters and pairs of neighbouring characters, lower case; a term that occurs t times weighs
    (1 + ln t) · (1 + ln((1 + N) / (1 + df))), with N texts of which df hold it.
    """
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True).fit(counted)
    return scipy.sparse.csr_array(vectorizer.transform(texts))


def similarities(
    vectors: scipy.sparse.csr_array, first: np.ndarray | slice, second: np.ndarray | slice
) -> np.ndarray:
    """Products of some rows with others, float32: cosines, as the vectors have length 1."""
    return np.asarray((vectors[first] * vectors[second]).sum(axis=1), dtype=np.float32).ravel()


def lexical_scores(texts_a: Sequence[str], texts_b: Sequence[str]) -> np.ndarray:
    """Cosine of the `lexical_vectors` of two columns of texts, float32 (rows,) in [0, 1].

    Both are counted over the rows given, a sentence once for every row it is in: no outside corpus, hence no training,
    and scores of two splits are not on one scale.

    >>> lexical_scores(["今天天气好", "你好"], ["今天天气好", "再见"]).tolist()
    [1.0, 0.0]
    """
    columns = {"texts_a": texts_a, "texts_b": texts_b}
    first, second = (as_text_list(one, name, may_be_empty=True) for name, one in columns.items())
    if len(first) != len(second):
        raise UserError(f"{len(first)} texts_a and {len(second)} texts_b: expected as many of each")
    texts, rows = [*first, *second], len(first)
    return similarities(lexical_vectors(texts, counted=texts), slice(rows), slice(rows, None))
