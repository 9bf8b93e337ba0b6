"""BM25 (Robertson and Zaragoza 2009, https://doi.org/10.1561/1500000019), with the weights that `bm25s` computes."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from juzhen.core.columns import as_text, as_text_list
from juzhen.core.commands import require_packages
from juzhen.core.errors import require_choice

K1, B = 1.5, 0.75
CHARACTERS, JIEBA = "characters", "jieba"
TOKENS = (CHARACTERS, JIEBA)

# Ideographs with their extensions, and kana.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_RUN = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")


def character_pairs(run: str) -> list[str]:
    """The characters of a text, and its pairs of neighbouring ones."""
    return [*run, *(run[start : start + 2] for start in range(len(run) - 1))]


def terms(text: str, cut: Callable[[str], list[str]] = character_pairs) -> list[str]:
    """What is Chinese as it is `cut`, other words as they are; lower case.

    >>> terms("Python怎么学")
    ['python', '怎', '么', '学', '怎么', '么学']
    """
    cut_terms: list[str] = []
    for run in _RUN.findall(text.lower()):
        cut_terms += cut(run) if re.match(f"[{_CJK}]", run) else [run]
    return cut_terms


def require_bm25s() -> ModuleType:
    """Raises UserError where it is not installed: better before other work than after."""
    require_packages("BM25", "bm25s", extra="search")
    import bm25s

    return bm25s


def cut_of(tokens: str) -> Callable[[str], list[str]]:
    """What cuts Chinese into terms. Raises UserError for a name that is none, and where jieba is not installed."""
    require_choice("tokens", tokens, TOKENS)
    if tokens == CHARACTERS:
        return character_pairs
    require_packages("tokens=jieba", "jieba", extra="search", otherwise=", or tokens=characters")
    import jieba

    jieba.setLogLevel(logging.WARNING)  # it tells of its dictionary
    return jieba.lcut


class BM25:
    """Documents that queries look for by the terms they share.

    A term that occurs f times in a document adds idf · f / (f + k1 · (1 − b + b · length / mean length)) to its score,
    as often as the query holds it; idf = ln(1 + (N − df + ½) / (df + ½)), of N documents of which df hold the term.

    tokens  terms of Chinese: characters and their pairs, or the words that jieba finds

    Raises UserError where bm25s, or jieba, is not installed.
    """

    _by_document: Any = None

    def __init__(
        self, corpus: Sequence[str], *, tokens: str = CHARACTERS, k1: float = K1, b: float = B
    ) -> None:
        bm25s = require_bm25s()
        texts = as_text_list(corpus, "corpus", may_be_empty=True)
        self._terms = partial(terms, cut=cut_of(tokens))
        self._numbers: dict[str, int] = {}
        numbered = [
            [self._numbers.setdefault(term, len(self._numbers)) for term in self._terms(text)]
            for text in texts
        ]
        index = bm25s.BM25(k1=k1, b=b)
        index.index((numbered, self._numbers), create_empty_token=False, show_progress=False)
        stored, shape = index.scores, (len(self._numbers), len(texts))
        self._weights = sparse.csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=shape)
        mean_length = sum(map(len, numbered)) / max(len(texts), 1)
        self._statistics = np.array([len(texts), mean_length, k1, b], dtype=np.float32)

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], *, tokens: str = CHARACTERS) -> "BM25":
        """What `arrays` gave, for the same `tokens`."""
        bm25 = cls.__new__(cls)
        bm25._terms = partial(terms, cut=cut_of(tokens))
        names = arrays["terms"].tobytes().decode().split("\n") if arrays["terms"].size else []
        bm25._numbers = {term: number for number, term in enumerate(names)}
        bm25._statistics = arrays["statistics"]
        parts = arrays["weights"], arrays["documents"], arrays["starts"]
        bm25._weights = sparse.csr_array(parts, shape=(len(names), int(arrays["count"][0])))
        return bm25

    def arrays(self) -> dict[str, np.ndarray]:
        """All that it holds, to be kept."""
        return {
            "weights": self._weights.data.astype("<f4"),
            "documents": self._weights.indices.astype("<i4"),
            "starts": self._weights.indptr.astype("<i8"),
            "terms": np.frombuffer("\n".join(self._numbers).encode(), dtype=np.uint8),
            "statistics": self._statistics,
            "count": np.array([self._weights.shape[1]], dtype="<i8"),
        }

    def extended(self, texts: Sequence[str]) -> "BM25":
        """With further documents, whose terms weigh as they do among the first ones: idf and mean length stay."""
        number, mean_length, k1, b = self._statistics.tolist()
        bm25, numbers = copy(self), dict(self._numbers)
        rows = [[numbers.setdefault(term, len(numbers)) for term in self._terms(text)] for text in texts]
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        columns = np.repeat(np.arange(len(rows)), lengths)
        ones = np.ones(len(columns), dtype=np.float32)
        terms = np.fromiter((term for row in rows for term in row), dtype=np.int64, count=len(columns))
        counts = sparse.coo_array((ones, (terms, columns)), shape=(len(numbers), len(rows))).tocsr()
        frequency = np.zeros(len(numbers))
        frequency[: len(self._numbers)] = np.diff(self._weights.indptr)
        idf = np.log1p((number - frequency + 0.5) / (frequency + 0.5))
        length = 1 - b + b * lengths[counts.indices] / (mean_length or 1)
        shares = counts.data / (counts.data + k1 * length)
        counts.data = (np.repeat(idf, np.diff(counts.indptr)) * shares).astype(np.float32)
        starts = np.pad(self._weights.indptr, (0, len(numbers) - len(self._numbers)), mode="edge")
        before = sparse.csr_array(
            (self._weights.data, self._weights.indices, starts), shape=(len(numbers), self._weights.shape[1])
        )
        bm25._weights, bm25._numbers = sparse.hstack([before, counts], format="csr"), numbers
        return bm25

    def __len__(self) -> int:
        return int(self._weights.shape[1])

    def scores(self, query: str) -> Float[np.ndarray, "documents"]:
        """The score of every document, float32; 0 where it shares no term."""
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
        """The score of each query with the document of that number, as `scores` has it but for rounding."""
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
