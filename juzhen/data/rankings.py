"""A set that is ranked: queries, documents, and which documents answer which query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind


@dataclass(frozen=True)
class RankingSet:
    """Queries and the documents that they are to find. Documents are numbered from 0, in the order of `corpus`.

    relevant    for each query: number of a document that answers it → how well, above 0
    candidates  for each query the numbers of the documents that are put in order (reranking); None: all (retrieval)

    Raises UserError for a query that nothing answers, and for a document that is not there.
    """

    name: str
    split: str
    queries: Sequence[str]
    corpus: Sequence[str]
    relevant: Sequence[Mapping[int, float]]
    candidates: Sequence[np.ndarray] | None = None

    def __post_init__(self) -> None:
        for what in (self.relevant, self.candidates):
            if what is not None and len(what) != len(self.queries):
                raise UserError(f"{self.column}: {len(self.queries)} queries, but answers of {len(what)}")
        for query, gains in enumerate(self.relevant):
            named = [*gains, *([] if self.candidates is None else self.candidates[query])]
            if not gains or min(gains.values()) <= 0:
                raise UserError(
                    f"{self.column}: query {query} needs a document that answers it, with a gain above 0"
                )
            if not 0 <= min(named) <= max(named) < len(self.corpus):
                raise UserError(
                    f"{self.column}: query {query} names a document that is not there; expected 0 to "
                    f"{len(self.corpus) - 1}"
                )

    @property
    def column(self) -> str:
        """`split/dataset`, as the names of its metrics begin."""
        return f"{self.split}/{self.name}"

    @property
    def texts(self) -> Examples:
        """All queries and then all documents, as sentences."""
        texts = {"text": [*self.queries, *self.corpus]}
        return Examples.from_texts(self.name, self.split, kind=Kind.SENTENCE, texts=texts)
