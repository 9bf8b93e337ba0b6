"""A set that is ranked: queries, documents, and which documents answer which query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from juzhen.core.columns import as_column
from juzhen.core.errors import UserError


@dataclass(frozen=True)
class RankingSet:
    """Queries and the documents that they are to find. Documents are numbered from 0, in the order of `corpus`.

    relevant    for each query: number of a document that answers it → how well, above 0
    candidates  for each query the numbers of the documents that are put in order (reranking); None: all (retrieval)
    own         for each query the number of the document that is the query itself, which it never finds; −1: none
    irrelevant  for each query the numbers of documents that are known not to answer it; others may yet do so
    unreachable  for each query the gains of answers that are judged and are not in the corpus: nothing finds them, and
                measures count them all the same, as trec_eval does
    symmetric   True: documents are of the same sort as queries, and encoders read them alike · False: they are not, and
                encoders that have prompts for queries and for documents read each behind its own · None: encoders read
                all texts behind the prompt that stands before every sentence

    Raises UserError for a query that nothing answers, for a document that is not there, and for one that answers a
    query and is known not to.
    """

    name: str
    split: str
    queries: Sequence[str]
    corpus: Sequence[str]
    relevant: Sequence[Mapping[int, float]]
    candidates: Sequence[Int[np.ndarray, "documents"]] | None = None
    own: Int[np.ndarray, "queries"] | None = None
    irrelevant: Sequence[Int[np.ndarray, "documents"]] | None = None
    symmetric: bool | None = False
    unreachable: Sequence[Sequence[float]] | None = None

    def __post_init__(self) -> None:
        for name in ("queries", "corpus", "relevant", "candidates", "irrelevant", "own"):
            values = getattr(self, name)
            if values is not None and not isinstance(values, list | np.ndarray):  # by position, not by labels
                object.__setattr__(self, name, as_column(values, f"{self.column}: {name}"))
        for what in (self.relevant, self.candidates, self.own, self.irrelevant, self.unreachable):
            if what is not None and len(what) != len(self.queries):
                raise UserError(f"{self.column}: {len(self.queries)} queries, but answers of {len(what)}")
        for query, gains in enumerate(self.relevant):
            beyond = [] if self.unreachable is None else self.unreachable[query]
            if not (gains or beyond) or min([*gains.values(), *beyond]) <= 0:
                raise UserError(
                    f"{self.column}: query {query} needs a document that answers it, with a gain above 0"
                )
            candidates: Sequence[int] | np.ndarray = [] if self.candidates is None else self.candidates[query]
            wrong = self.never_answers(query)
            named = [*gains, *candidates, *wrong]
            if named and not 0 <= min(named) <= max(named) < len(self.corpus):
                raise UserError(
                    f"{self.column}: query {query} names a document that is not there; expected 0 to "
                    f"{len(self.corpus) - 1}"
                )
            if both := wrong & gains.keys():
                raise UserError(
                    f"{self.column}: query {query} is answered by document {min(both)}, which is its own text or is "
                    "known not to answer it; expected one or the other"
                )

    def never_answers(self, query: int) -> set[int]:
        """Numbers of the documents that are known not to answer a query: its own text and the irrelevant ones."""
        wrong = set() if self.irrelevant is None else set(map(int, self.irrelevant[query]))
        return wrong if self.own is None or self.own[query] < 0 else wrong | {int(self.own[query])}

    def some(self, rows: Sequence[int] | Int[np.ndarray, "some"]) -> "RankingSet":
        """The queries with these numbers, over the same corpus."""
        cut: dict[str, Any] = {}
        for name in ("queries", "relevant", "candidates", "irrelevant", "unreachable"):
            values = getattr(self, name)
            cut[name] = None if values is None else [values[row] for row in rows]
        own = None if self.own is None else self.own[np.asarray(rows, dtype=np.intp)]
        return replace(self, **cut, own=own)

    @property
    def judged(self) -> list[dict[int, float]]:
        """`relevant` with what is unreachable, which has numbers beyond those of the corpus."""
        if self.unreachable is None:
            return [dict(gains) for gains in self.relevant]
        return [
            dict(gains) | dict(enumerate(beyond, len(self.corpus)))
            for gains, beyond in zip(self.relevant, self.unreachable, strict=True)
        ]

    @property
    def column(self) -> str:
        """`split/dataset`, as the names of its metrics begin."""
        return f"{self.split}/{self.name}"
