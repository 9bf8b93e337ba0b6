"""The lexical baselines: how far shared characters and words alone go, without any model."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import scipy.sparse
from jaxtyping import Float
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from juzhen.core.columns import as_text_list
from juzhen.core.errors import require_choice
from juzhen.core.text import fold
from juzhen.metrics.bm25 import CHARACTERS, cut_of, terms

TF_IDF, JACCARD, DICE = "tf_idf", "jaccard", "dice"
METHODS = (TF_IDF, JACCARD, DICE)

Shared = Float[np.ndarray, "*pairs"]
Overlap = Callable[[Shared, np.ndarray, np.ndarray], Shared]


def lexical_vectors(texts: Sequence[str], *, counted: Sequence[str]) -> scipy.sparse.csr_array:
    """TF-IDF vectors of length 1, (texts, terms); terms and their weights are counted over the texts `counted`.

    Terms are characters and pairs of neighbouring characters of folded texts (`juzhen.core.text.fold`). A term that
    occurs t times weighs (1 + ln t) · (1 + ln((1 + N) / (1 + df))), with N texts of which df hold it.
    """
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True, preprocessor=fold)
    vectorizer.fit(counted)
    return scipy.sparse.csr_array(vectorizer.transform(texts))


def similarities(
    vectors: scipy.sparse.csr_array, first: np.ndarray | slice, second: np.ndarray | slice
) -> np.ndarray:
    """Products of some rows with others, float32: cosines, as the vectors have length 1."""
    return np.asarray((vectors[first] * vectors[second]).sum(axis=1), dtype=np.float32).ravel()


def term_sets(
    texts: Sequence[str], *, counted: Sequence[str], tokens: str = CHARACTERS
) -> scipy.sparse.csr_array:
    """Which terms of the texts `counted` each text has, 0 or 1, (texts, terms).

    tokens  of Chinese: characters and pairs of neighbouring ones, or the words that jieba finds (`juzhen.metrics.bm25`)
    """
    vectorizer = CountVectorizer(analyzer=partial(terms, cut=cut_of(tokens)), binary=True, dtype=np.float32)
    if not any(map(vectorizer.build_analyzer(), counted)):
        return scipy.sparse.csr_array((len(texts), 1), dtype=np.float32)
    return scipy.sparse.csr_array(vectorizer.fit(counted).transform(texts))


def overlap(shared: Shared, first: np.ndarray, second: np.ndarray, *, method: str) -> Shared:
    """Of terms that two texts share and that each has: shared of all (Jaccard), or of their mean number (Dice).

    0 where neither has any. Dice puts pairs in the order of Jaccard: D = 2J / (1 + J); their Pearson differs.
    """
    sizes = first + second
    of = sizes - shared if method == JACCARD else sizes / 2
    return np.divide(shared, of, out=np.zeros(np.shape(shared), np.float32), where=np.asarray(of) > 0)


def overlaps(
    sets: scipy.sparse.csr_array, first: np.ndarray | slice, second: np.ndarray | slice, *, method: str
) -> Float[np.ndarray, "rows"]:
    """`overlap` of some rows of `term_sets` with others, float32."""
    sizes = np.asarray(sets.sum(axis=1)).ravel()
    shared = np.asarray((sets[first] * sets[second]).sum(axis=1), dtype=np.float32).ravel()
    return overlap(shared, sizes[first], sizes[second], method=method)


def lexical_scores(
    texts_a: Sequence[str], texts_b: Sequence[str], *, method: str = TF_IDF, tokens: str = CHARACTERS
) -> Float[np.ndarray, "rows"]:
    """How alike two columns of texts are by their characters and words, float32 (rows,) in [0, 1].

    method  tf_idf: cosine of `lexical_vectors`, counted over the rows given, a sentence once for every row it is in: no
            outside corpus, hence no training, and scores of two splits are not on one scale · jaccard, dice: `overlap`
            of their sets of terms, which looks at the two texts alone
    tokens  of jaccard and dice, as `term_sets` takes them

    >>> lexical_scores(["今天天气好", "你好"], ["今天天气好", "再见"]).tolist()
    [1.0, 0.0]
    >>> lexical_scores(["a cat sat"], ["a cat ran"], method="jaccard").tolist()
    [0.5]
    """
    require_choice("method", method, METHODS)
    columns = {"texts_a": texts_a, "texts_b": texts_b}
    first, second = (as_text_list(column, name, may_be_empty=True) for name, column in columns.items())
    texts, rows = [*first, *second], len(first)
    sides = slice(rows), slice(rows, None)
    if method == TF_IDF:
        return similarities(lexical_vectors(texts, counted=texts), *sides)
    return overlaps(term_sets(texts, counted=texts, tokens=tokens), *sides, method=method)
