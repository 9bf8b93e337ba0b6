"""BM25 (Robertson and Zaragoza 2009, https://doi.org/10.1561/1500000019), with the weights that `bm25s` computes."""

import re
from collections.abc import Sequence
from types import ModuleType

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from juzhen.core.errors import UserError

K1, B = 1.5, 0.75

# Ideographs with their extensions, and kana.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_RUN = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")


def terms(text: str) -> list[str]:
    """Characters and pairs of neighbouring characters of what is Chinese, other words as they are; lower case.

    >>> terms("Python怎么学")
    ['python', '怎', '么', '学', '怎么', '么学']
    """
    found = []
    for run in _RUN.findall(text.lower()):
        if re.match(f"[{_CJK}]", run):
            found += [*run, *(run[place : place + 2] for place in range(len(run) - 1))]
        else:
            found.append(run)
    return found


def require_bm25s() -> ModuleType:
    """Raises UserError where it is not installed: better before other work than after."""
    try:
        import bm25s
    except ImportError:
        raise UserError("BM25 needs bm25s: pip install 'juzhen-embeddings[search]'") from None
    return bm25s


class BM25:
    """Documents that queries look for by the terms they share.

    A term that occurs f times in a document adds idf · f / (f + k1 · (1 − b + b · length / mean length)) to its score,
    as often as the query holds it; idf = ln(1 + (N − df + ½) / (df + ½)), of N documents of which df hold the term.

    Raises UserError where bm25s is not installed.
    """

    def __init__(self, corpus: Sequence[str], *, k1: float = K1, b: float = B) -> None:
        bm25s = require_bm25s()
        self._numbers: dict[str, int] = {}
        known = [
            [self._numbers.setdefault(term, len(self._numbers)) for term in terms(text)] for text in corpus
        ]
        if not self._numbers:
            raise UserError(
                f"none of {len(corpus)} documents holds a letter or a digit, by which BM25 finds them"
            )
        index = bm25s.BM25(k1=k1, b=b)
        index.index((known, self._numbers), create_empty_token=False, show_progress=False)
        stored, shape = index.scores, (len(self._numbers), len(corpus))
        self._weights = sparse.csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=shape)
        self._by_document = self._weights.T.tocsr()

    def scores(self, query: str) -> Float[np.ndarray, "documents"]:
        """The score of every document, float32; 0 where it shares no term."""
        found = np.zeros(self._weights.shape[1], dtype=np.float32)
        for term in self._known(query):
            places = slice(*self._weights.indptr[term : term + 2])
            found[self._weights.indices[places]] += self._weights.data[places]  # each document is there once
        return found

    def pair_scores(
        self, queries: Sequence[str], documents: Int[np.ndarray, "pairs"]
    ) -> Float[np.ndarray, "pairs"]:
        """The score of each query with the document of that number, as `scores` has it but for rounding."""
        known = [self._known(query) for query in queries]
        starts = np.cumsum([0, *map(len, known)])
        places = np.fromiter((term for one in known for term in one), dtype=np.int64, count=starts[-1])
        shape = len(known), len(self._numbers)
        counts = sparse.csr_array((np.ones(len(places), dtype=np.float32), places, starts), shape=shape)
        return np.asarray((self._by_document[documents] * counts).sum(axis=1), dtype=np.float32).ravel()

    def _known(self, query: str) -> list[int]:
        return [self._numbers[term] for term in terms(query) if term in self._numbers]
