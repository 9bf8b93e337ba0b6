"""Lexical baselines: BM25, TF-IDF, and overlap of characters or words.

BM25 (Robertson and Zaragoza 2009, https://doi.org/10.1561/1500000019) has the weights of Lucene and of bm25s.
"""

import logging
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int
from scipy import sparse

from juzhen.core.columns import as_text, as_text_list
from juzhen.core.errors import UserError, require_choice, require_number, require_packages
from juzhen.core.text import fold

K1, B = 1.5, 0.75
CHARACTERS, JIEBA = "characters", "jieba"
TOKENS = (CHARACTERS, JIEBA)
FOLDS, FOLDS_WITHIN_SCRIPT = 1, 2
FOLDINGS: Mapping[int, Callable[[str], str]] = {FOLDS: fold, FOLDS_WITHIN_SCRIPT: partial(fold, script=False)}
"""Folding of texts, by its number in stored arrays."""

# Ideographs with their extensions, and kana.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_RUN = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")


def character_pairs(run: str) -> list[str]:
    """The characters of a text, and its pairs of neighbouring ones.

    Args:
        run: Chinese text without spaces.

    Returns:
        The terms.
    """
    return [*run, *(run[start : start + 2] for start in range(len(run) - 1))]


def terms(
    text: str, cut: Callable[[str], list[str]] = character_pairs, folding: Callable[[str], str] = fold
) -> list[str]:
    """Split the Chinese of a folded text by `cut`. The other words stay whole.

    Args:
        text: The text.
        cut: Splits a run of Chinese characters.
        folding: Folds width, case and script of the text.

    Returns:
        The terms, in order.

    >>> terms("Ｐｙｔｈｏｎ怎麼学")
    ['python', '怎', '么', '学', '怎么', '么学']
    """
    cut_terms: list[str] = []
    for run in _RUN.findall(folding(text)):
        cut_terms += cut(run) if re.match(f"[{_CJK}]", run) else [run]
    return cut_terms


def cut_of(tokens: str) -> Callable[[str], list[str]]:
    """Find the splitter of Chinese terms by name.

    Args:
        tokens: "characters" or "jieba".

    Returns:
        The splitter.

    Raises:
        UserError: An unknown name, or jieba is not installed.
    """
    require_choice("tokens", tokens, TOKENS)
    if tokens == CHARACTERS:
        return character_pairs
    require_packages("tokens=jieba", "jieba", extra="search", otherwise=", or tokens=characters")
    import jieba

    jieba.setLogLevel(logging.WARNING)  # it tells of its dictionary
    return jieba.lcut


class BM25:
    """Search for documents by the terms that they share with a query.

    A term that occurs f times in a document adds idf · f / (f + k1 · (1 − b + b · length / mean length)) to
    its score, as often as the query holds it. idf = ln(1 + (N − df + ½) / (df + ½)), of N documents of which
    df hold the term.

    Args:
        corpus: The documents.
        tokens: Terms of Chinese: characters and their pairs, or the words of jieba.
        script: Treat traditional and simplified characters as the same (`juzhen.core.text.fold`).
        k1: Of the equation.
        b: Of the equation.

    Raises:
        UserError: tokens=jieba without the package jieba.
    """

    _by_document: Any = None

    def __init__(
        self,
        corpus: Sequence[str],
        *,
        tokens: str = CHARACTERS,
        script: bool = True,
        k1: float = K1,
        b: float = B,
    ) -> None:
        texts = as_text_list(corpus, "corpus", may_be_empty=True)
        require_number("k1", k1, 0)
        require_number("b", b, 0, 1)
        self._folding = FOLDS if script else FOLDS_WITHIN_SCRIPT
        self._terms = partial(terms, cut=cut_of(tokens), folding=FOLDINGS[self._folding])
        self._numbers: dict[str, int] = {}
        counts, lengths = self._counted(texts)
        mean_length = lengths.mean() if len(texts) else 0
        self._statistics = np.array([len(texts), mean_length, k1, b], dtype=np.float32)
        self._weights = self._weighed(counts, lengths, frequency=np.diff(counts.indptr))

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], *, tokens: str = CHARACTERS) -> "BM25":
        """Rebuild from the output of `arrays`, with the same `tokens`.

        Args:
            arrays: Output of `arrays`.
            tokens: "characters" or "jieba".

        Returns:
            The index.
        """
        bm25 = cls.__new__(cls)
        bm25._folding = int(arrays["folding"][0])
        bm25._terms = partial(terms, cut=cut_of(tokens), folding=FOLDINGS[bm25._folding])
        names = arrays["terms"].tobytes().decode().split("\n") if arrays["terms"].size else []
        bm25._numbers = {term: number for number, term in enumerate(names)}
        bm25._statistics = arrays["statistics"]
        parts = arrays["weights"], arrays["documents"], arrays["starts"]
        bm25._weights = sparse.csr_array(parts, shape=(len(names), int(arrays["count"][0])))
        return bm25

    def arrays(self) -> dict[str, np.ndarray]:
        """All that it holds, to be kept.

        Returns:
            Name → array.
        """
        return {
            "weights": self._weights.data.astype("<f4"),
            "documents": self._weights.indices.astype("<i4"),
            "starts": self._weights.indptr.astype("<i8"),
            "terms": np.frombuffer("\n".join(self._numbers).encode(), dtype=np.uint8),
            "statistics": self._statistics,
            "count": np.array([self._weights.shape[1]], dtype="<i8"),
            "folding": np.array([self._folding], dtype=np.uint8),
        }

    def extended(self, texts: Sequence[str]) -> "BM25":
        """With further documents, whose terms weigh as they do among the first ones: idf and mean length stay.

        Args:
            texts: The further documents.

        Returns:
            The larger index.
        """
        bm25 = copy(self)
        bm25._numbers, bm25._by_document = dict(self._numbers), None
        counts, lengths = bm25._counted(texts)
        num_new = counts.shape[0] - len(self._numbers)
        frequency = np.pad(np.diff(self._weights.indptr), (0, num_new))
        starts = np.pad(self._weights.indptr, (0, num_new), mode="edge")
        before = sparse.csr_array(
            (self._weights.data, self._weights.indices, starts), shape=(counts.shape[0], len(self))
        )
        weights = self._weighed(counts, lengths, frequency=frequency)
        bm25._weights = sparse.hstack([before, weights], format="csr")
        return bm25

    def _counted(
        self, texts: Sequence[str]
    ) -> tuple[Float[sparse.csr_array, "terms documents"], Int[np.ndarray, "documents"]]:
        """Count each term in each text, and the terms of each text. New terms get numbers."""
        numbers, lengths, rows = self._numbers, np.empty(len(texts), dtype=np.int64), array("i")
        for place, text in enumerate(texts):
            row_numbers = [numbers.setdefault(term, len(numbers)) for term in self._terms(text)]
            lengths[place] = len(row_numbers)
            rows.extend(row_numbers)
        columns = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
        ones = np.ones(len(rows), dtype=np.float32)
        return sparse.coo_array((ones, (rows, columns)), shape=(len(numbers), len(texts))).tocsr(), lengths

    def _weighed(
        self,
        counts: Float[sparse.csr_array, "terms documents"],
        lengths: Int[np.ndarray, "documents"],
        *,
        frequency: Int[np.ndarray, "terms"],
    ) -> Float[sparse.csr_array, "terms documents"]:
        """Turn counts into weights, in place.

        Args:
            counts: Of each term in each document.
            lengths: Number of terms of each document.
            frequency: Number of documents with each term, among those of the idf.
        """
        number, mean_length, k1, b = self._statistics.tolist()
        idf = np.log1p((number - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)
        damping = (k1 * (1 - b + b * lengths / (mean_length or 1))).astype(np.float32)
        counts.data /= counts.data + damping[counts.indices]
        counts.data *= np.repeat(idf, np.diff(counts.indptr))
        return counts

    def __len__(self) -> int:
        return int(self._weights.shape[1])

    def scores(self, query: str) -> Float[np.ndarray, "documents"]:
        """Score every document, float32. 0 without a shared term.

        Args:
            query: The query.

        Returns:
            float32 array (documents,).
        """
        scores = np.zeros(self._weights.shape[1], dtype=np.float32)
        for term in self._known(as_text(query, "query", may_be_empty=True)):
            entries = slice(*self._weights.indptr[term : term + 2])
            scores[self._weights.indices[entries]] += self._weights.data[
                entries
            ]  # each document is there once
        return scores

    def pair_scores(
        self, queries: Sequence[str], documents: Int[np.ndarray, "pairs"]
    ) -> Float[np.ndarray, "pairs"]:
        """The score of each query with the document of that number, as `scores` has it but for rounding.

        Args:
            queries: The query of each pair.
            documents: The document number of each pair.

        Returns:
            float32 array (pairs,).
        """
        numbered = [self._known(query) for query in as_text_list(queries, "queries", may_be_empty=True)]
        starts = np.cumsum([0, *map(len, numbered)])
        columns = np.fromiter(
            (term for query_terms in numbered for term in query_terms), dtype=np.int64, count=starts[-1]
        )
        shape = len(numbered), len(self._numbers)
        counts = sparse.csr_array((np.ones(len(columns), dtype=np.float32), columns, starts), shape=shape)
        if self._by_document is None:
            self._by_document = self._weights.T.tocsr()
        return np.asarray((self._by_document[documents] * counts).sum(axis=1), dtype=np.float32).ravel()

    def _known(self, query: str) -> list[int]:
        return [self._numbers[term] for term in self._terms(query) if term in self._numbers]


TF_IDF, JACCARD, DICE = "tf_idf", "jaccard", "dice"
METHODS = (TF_IDF, JACCARD, DICE)

Shared = Float[np.ndarray, "*pairs"]
Overlap = Callable[[Shared, np.ndarray, np.ndarray], Shared]


def lexical_vectors(texts: Sequence[str], *, counted: Sequence[str]) -> scipy.sparse.csr_array:
    """Compute TF-IDF vectors of length 1, (texts, terms). The texts `counted` give the terms and weights.

    Terms are characters and pairs of neighbouring characters of folded texts (`juzhen.core.text.fold`). A
    term that occurs t times weighs (1 + ln t) · (1 + ln((1 + N) / (1 + df))), with N texts of which df hold
    it.

    Args:
        texts: The texts.
        counted: Texts that are counted.

    Returns:
        Sparse array (texts, terms).
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # BM25 and an index do without

    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True, preprocessor=fold)
    vectorizer.fit(counted)
    return scipy.sparse.csr_array(vectorizer.transform(texts))


def similarities(
    vectors: scipy.sparse.csr_array, first: np.ndarray | slice, second: np.ndarray | slice
) -> np.ndarray:
    """Products of some rows with others, float32: cosines, as the vectors have length 1.

    Args:
        vectors: Output of `lexical_vectors`.
        first: Row numbers.
        second: Row numbers.

    Returns:
        Array (first, second).
    """
    return np.asarray((vectors[first] * vectors[second]).sum(axis=1), dtype=np.float32).ravel()


def term_sets(
    texts: Sequence[str], *, counted: Sequence[str], tokens: str = CHARACTERS
) -> scipy.sparse.csr_array:
    """Mark the terms of each text by 1, (texts, terms). The texts `counted` give the terms.

    Args:
        texts: The texts.
        counted: Texts whose terms count.
        tokens: Of Chinese: characters and pairs of neighbouring ones, or the words of jieba.

    Returns:
        Sparse array (texts, terms).
    """
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(analyzer=partial(terms, cut=cut_of(tokens)), binary=True, dtype=np.float32)
    if not any(map(vectorizer.build_analyzer(), counted)):
        return scipy.sparse.csr_array((len(texts), 1), dtype=np.float32)
    return scipy.sparse.csr_array(vectorizer.fit(counted).transform(texts))


def overlap(shared: Shared, first: np.ndarray, second: np.ndarray, *, method: str) -> Shared:
    """Compute the overlap of two texts: shared terms by all terms (Jaccard), or by their mean number (Dice).

    0 if neither text has terms. Dice orders pairs as Jaccard does: D = 2J / (1 + J). Their Pearson
    correlations differ. Shared terms by those of the larger text are not offered: they equal Dice if both texts have
    equally many terms.

    Args:
        shared: Number of shared terms.
        first: Number of terms of the first text.
        second: Number of terms of the second text.
        method: "jaccard" or "dice".

    Returns:
        Values from 0 to 1.
    """
    sizes = first + second
    of = sizes - shared if method == JACCARD else sizes / 2
    return np.divide(shared, of, out=np.zeros(np.shape(shared), np.float32), where=np.asarray(of) > 0)


def overlaps(
    sets: scipy.sparse.csr_array, first: np.ndarray | slice, second: np.ndarray | slice, *, method: str
) -> Float[np.ndarray, "rows"]:
    """`overlap` of some rows of `term_sets` with others, float32.

    Args:
        sets: Output of `term_sets`.
        first: Row numbers.
        second: Row numbers.
        method: "jaccard" or "dice".

    Returns:
        Array (first, second).
    """
    sizes = np.asarray(sets.sum(axis=1)).ravel()
    shared = np.asarray((sets[first] * sets[second]).sum(axis=1), dtype=np.float32).ravel()
    return overlap(shared, sizes[first], sizes[second], method=method)


def lexical_scores(
    texts_a: Sequence[str], texts_b: Sequence[str], *, method: str = TF_IDF, tokens: str = CHARACTERS
) -> Float[np.ndarray, "rows"]:
    """Score the lexical similarity of two columns of texts, float32 (rows,) in [0, 1].

    Args:
        texts_a: First text of each row.
        texts_b: Second text of each row.
        method: "tf_idf" is the cosine of `lexical_vectors`, counted over the given rows, a sentence once for
            each of its rows. It needs no other corpus, but scores of two splits have different scales.
            "jaccard" and "dice" are the `overlap` of the term sets of the two texts.
        tokens: Of jaccard and dice, as in `term_sets`.

    Returns:
        float32 array (rows,).

    Raises:
        UserError: An unknown method, a value that is not a text, or columns of different lengths.

    Example:
        >>> lexical_scores(["今天天气好", "你好"], ["今天天气好", "再见"]).tolist()
        [1.0, 0.0]
        >>> lexical_scores(["a cat sat"], ["a cat ran"], method="jaccard").tolist()
        [0.5]
    """
    require_choice("method", method, METHODS)
    columns = {"texts_a": texts_a, "texts_b": texts_b}
    first, second = (as_text_list(column, name, may_be_empty=True) for name, column in columns.items())
    texts, rows = [*first, *second], len(first)
    if rows != len(second):
        raise UserError(
            f"texts_a, texts_b: {rows:,} and {len(second):,} texts form no rows. Give as many of each"
        )
    if not rows:
        return np.empty(0, dtype=np.float32)
    sides = slice(rows), slice(rows, None)
    if method == TF_IDF:
        return similarities(lexical_vectors(texts, counted=texts), *sides)
    return overlaps(term_sets(texts, counted=texts, tokens=tokens), *sides, method=method)
