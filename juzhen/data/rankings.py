"""Ranking sets: queries, documents, and judgements. Pairs can be read as rankings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int

from juzhen.core.columns import as_column
from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, TEXT_COLUMNS, Examples, Kind
from juzhen.core.text import counted


@dataclass(frozen=True)
class RankingSet:
    """Queries, and the documents to find. Documents are numbered from 0, in the order of `corpus`.

    Args:
        name: Name of the set.
        split: train, dev or test.
        queries: Texts that ask.
        corpus: Texts to find.
        relevant: For each query: index of a document that answers it → gain, above 0.
        candidates: For each query the indices of its documents to rank (reranking). None: all (retrieval).
        own: For each query the index of the document that is the query itself, which is never found. −1:
            none.
        irrelevant: For each query the indices of documents known not to answer it. Others may still be
            answers.
        unreachable: For each query the gains of judged answers that are not in the corpus. Nothing finds
            them, and metrics count them nevertheless, as trec_eval does.
        symmetric: True: documents are of the same type as queries, and encoders read both alike. False: they
            are not, and encoders with prompts for queries and documents use them. None: encoders use the
            prompt of every sentence.

    Raises:
        UserError: A query without an answer, a missing document, or a document that both answers a query and is known
            not to.
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
            if values is not None and not isinstance(
                values, list | np.ndarray
            ):  # by position, whatever the labels
                object.__setattr__(self, name, as_column(values, f"{self.column}: {name}"))
        for column in (self.relevant, self.candidates, self.own, self.irrelevant, self.unreachable):
            if column is not None and len(column) != len(self.queries):
                raise UserError(
                    f"{self.column}: {counted(len(self.queries), 'queries')}, but answers of {len(column)}"
                )
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
                    f"{self.column}: query {query} names a document that is not there. Expected 0 to "
                    f"{len(self.corpus) - 1}"
                )
            if both := wrong & gains.keys():
                raise UserError(
                    f"{self.column}: query {query} is answered by document {min(both)}, which is its own text or is "
                    "known not to answer it. Expected one or the other"
                )

    def never_answers(self, query: int) -> set[int]:
        """Return the documents known not to answer a query: its own text and the irrelevant ones.

        Args:
            query: Number of the query.

        Returns:
            Numbers of documents.
        """
        wrong = set() if self.irrelevant is None else set(map(int, self.irrelevant[query]))
        return wrong if self.own is None or self.own[query] < 0 else wrong | {int(self.own[query])}

    def some(self, rows: Sequence[int] | Int[np.ndarray, "some"]) -> "RankingSet":
        """Return some queries over the same corpus.

        Args:
            rows: Numbers of the queries.

        Returns:
            A set with these queries.
        """
        cut: dict[str, Any] = {}
        for name in ("queries", "relevant", "candidates", "irrelevant", "unreachable"):
            values = getattr(self, name)
            cut[name] = None if values is None else [values[row] for row in rows]
        own = None if self.own is None else self.own[np.asarray(rows, dtype=np.intp)]
        return replace(self, **cut, own=own)

    @property
    def judged(self) -> list[dict[int, float]]:
        """`relevant` with the unreachable answers, which have indices beyond the corpus."""
        if self.unreachable is None:
            return [dict(gains) for gains in self.relevant]
        return [
            dict(gains) | dict(enumerate(beyond, len(self.corpus)))
            for gains, beyond in zip(self.relevant, self.unreachable, strict=True)
        ]

    @property
    def column(self) -> str:
        """`split/dataset`, the prefix of its metric keys."""
        return f"{self.split}/{self.name}"


Judgements = tuple[Int[np.ndarray, "rows"], Int[np.ndarray, "rows"], Int[np.ndarray, "rows"]]
"""Indices of queries, indices of documents, and 1 for an answer, 0 for a document known not to be one."""


Sliced = TypeVar("Sliced", list[Any], np.ndarray)


def as_ranking(examples: Examples) -> RankingSet:
    """Return a set as queries, documents and answers. Pairs and triplets are read by `as_retrieval`.

    A query that is a document itself, by its index in the table of sentences or by `own`, never finds it. Judgements
    without `symmetric` are not symmetric.

    Args:
        examples: Judgements, pairs or triplets.

    Returns:
        The ranking set.
    """
    symmetric = False if examples.kind in JUDGED and examples.symmetric is None else examples.symmetric
    examples = as_judgements(replace(examples, symmetric=symmetric))
    assert examples.targets is not None  # judgements always have gains, see TARGET_COLUMN
    order = np.lexsort((examples.columns["document"], examples.columns["query"]))
    queries, documents = (examples.columns[name][order] for name in TEXT_COLUMNS[examples.kind])
    gains = examples.targets[order]
    corpus = np.unique(documents) if examples.documents is None else examples.documents
    beyond = examples.unreachable
    query_numbers = np.union1d(queries, np.fromiter(beyond, np.int32, len(beyond)))
    positions, answers = np.searchsorted(corpus, documents), gains > 0
    answer, gain = (
        _by_query(values[answers].tolist(), queries[answers], query_numbers) for values in (positions, gains)
    )
    own = np.fromiter(
        (examples.own.get(query, query) for query in query_numbers.tolist()), np.int64, len(query_numbers)
    )
    return RankingSet(
        examples.name,
        examples.split,
        queries=[examples.sentences[number] for number in query_numbers.tolist()],
        corpus=[examples.sentences[number] for number in corpus.tolist()],
        relevant=[
            dict(zip(*answers_of_query, strict=True)) for answers_of_query in zip(answer, gain, strict=True)
        ],
        candidates=_by_query(positions, queries, query_numbers) if examples.documents is None else None,
        own=np.where(np.isin(own, corpus), np.searchsorted(corpus, own), -1),
        irrelevant=_by_query(positions[~answers], queries[~answers], query_numbers),
        symmetric=examples.symmetric,
        unreachable=[beyond.get(query, ()) for query in query_numbers.tolist()] if beyond else None,
    )


LONGER = 1.5
"""Positives this many times longer than the anchors are answers, not variants of a question."""


@dataclass(frozen=True)
class StandardQuestions:
    """Positive pairs as questions that search their standard question among all of the split.

    Args:
        ranking: Each distinct question once, and each distinct standard question. Its answers are the texts
            that any row pairs it with, and a standard question of the same text.
        queries: Index of the question of each row of the set.
    """

    ranking: RankingSet
    queries: Int[np.ndarray, "rows"]


def as_standard_questions(examples: Examples) -> StandardQuestions:
    """Read the column with fewer distinct texts as the standard questions.

    A file of standard questions and their variants may have either of them first. With equal counts the anchors are the
    standard questions, unless the positives are LONGER: then these are answers to find. Rows with `symmetric=False` are
    read as written: the anchor is the question, and the positive is the document that answers it.

    Args:
        examples: Positive pairs.

    Returns:
        Standard questions and the rows that ask them.
    """
    asked, standard = (examples.columns[name] for name in TEXT_COLUMNS[Kind.POSITIVE_PAIR])
    if examples.symmetric is not False and anchors_are_standard(examples):
        asked, standard = standard, asked
    texts, queries = np.unique(asked, return_inverse=True)
    corpus, documents = np.unique(standard, return_inverse=True)
    relevant: list[dict[int, float]] = [{} for _ in texts]
    for query, document in zip(queries.tolist(), documents.tolist(), strict=True):
        relevant[query][document] = 1.0
    _, equal_queries, equal_documents = np.intersect1d(texts, corpus, return_indices=True)
    for query, document in zip(equal_queries.tolist(), equal_documents.tolist(), strict=True):
        relevant[query][document] = 1.0
    sentences = examples.sentences
    ranking = RankingSet(
        examples.name,
        examples.split,
        queries=[sentences[number] for number in texts.tolist()],
        corpus=[sentences[number] for number in corpus.tolist()],
        relevant=relevant,
        symmetric=examples.symmetric,
    )
    return StandardQuestions(ranking, queries)


def anchors_are_standard(examples: Examples) -> bool:
    """Return whether the anchors of positive pairs are searched, as `as_standard_questions` documents.

    Args:
        examples: Positive pairs.

    Returns:
        False if the positives are searched.
    """
    anchors, positives = (np.unique(column) for column in examples.columns.values())
    if len(anchors) != len(positives):
        return len(anchors) < len(positives)
    lengths = [
        sum(len(examples.sentences[number]) for number in column.tolist()) for column in (anchors, positives)
    ]
    return lengths[1] <= LONGER * lengths[0]


def as_judgements(examples: Examples) -> Examples:
    """Return judgements unchanged, and pairs and triplets by `as_retrieval`.

    Args:
        examples: Judgements, pairs or triplets.

    Returns:
        Judgements.

    Raises:
        UserError: Rows that have no queries with answers.
    """
    return examples if examples.kind in JUDGED else as_retrieval(examples)


def as_retrieval(examples: Examples) -> Examples:
    """Read pairs or triplets as judgements over the same sentences, with gains 1 or 0. No query finds its own text.

    Labelled pairs: the corpus is all distinct sentences. Sentences joined by label 1, directly or through others, form
    a group of duplicates, and each is a query for the others. A sentence without a duplicate is not a query and stays
    in the corpus. Two sentences with label 0 are known not to answer one another. If label 0 contradicts a group, the
    group counts. The judgements are symmetric, unless the pairs are not.

    Positive pairs and triplets: the corpus is all distinct positives and negatives, with the documents of the retrieval
    set that the pairs were made from. The queries are all distinct anchors. An anchor's positives answer it. Its
    negatives are known not to, unless they are its positives too.

    Args:
        examples: Pairs or triplets.

    Returns:
        Judgements.

    Raises:
        UserError: No text has an answer, or rows of another kind.
    """
    column, symmetric = f"{examples.split}/{examples.name}", examples.symmetric
    if examples.kind is Kind.LABELLED_PAIR:
        corpus, judgements = _duplicates(examples)
        symmetric = True if symmetric is None else symmetric
    elif examples.kind in (Kind.POSITIVE_PAIR, Kind.TRIPLET):
        corpus, judgements = _answers(examples)
    else:
        raise UserError(
            f"{column}: rows of kind {examples.kind} have no queries with answers. Choose a retrieval set, or rows of "
            "kind labelled_pair, positive_pair or triplet"
        )
    queries, documents, gains = _believed(*judgements, size=len(examples.sentences))
    if not len(queries):
        raise UserError(f"{column}: no text has a positive text. Give pairs with label 1")
    return replace(
        examples,
        kind=Kind.RETRIEVAL,
        columns={"query": queries, "document": documents},
        targets=gains.astype(np.float32),
        lines=None,
        num_classes=0,
        documents=corpus,
        symmetric=symmetric,
    )


def _duplicates(examples: Examples) -> tuple[Int[np.ndarray, "documents"], Judgements]:
    from scipy.sparse import coo_array  # a training without rankings need not wait for it
    from scipy.sparse.csgraph import connected_components

    first, second = (examples.columns[name] for name in TEXT_COLUMNS[examples.kind])
    same, size = np.flatnonzero(examples.targets == 1), len(examples.sentences)
    joined = coo_array((np.ones(len(same)), (first[same], second[same])), shape=(size, size))
    _, groups = connected_components(joined, directed=False)
    order, counts = np.argsort(groups, kind="stable"), np.bincount(groups)
    # Each sentence next to each of its group: as often as the group is large, and then all positions of the group.
    queries = np.repeat(np.arange(size), counts[groups])
    starts = np.cumsum(counts[groups]) - counts[groups]
    positions = (np.cumsum(counts) - counts)[groups[queries]] + np.arange(len(queries)) - starts[queries]
    apart = groups[first] != groups[second]
    query = np.concatenate([queries, first[apart], second[apart]])
    document = np.concatenate([order[positions], second[apart], first[apart]])
    gains = (np.arange(len(query)) < len(queries)).astype(np.int64)
    return np.unique([first, second]).astype(np.int32), (query, document, gains)


def _answers(examples: Examples) -> tuple[Int[np.ndarray, "documents"], Judgements]:
    anchors, *further = examples.columns.values()
    documents = np.concatenate(further)
    gains = (np.arange(len(documents)) < len(examples)).astype(np.int64)  # positives come first
    corpus = np.unique(documents)
    if examples.documents is not None:
        corpus = np.union1d(corpus, examples.documents)
    return corpus, (np.tile(anchors, len(further)), documents, gains)


def _believed(
    queries: Int[np.ndarray, "rows"],
    documents: Int[np.ndarray, "rows"],
    gains: Int[np.ndarray, "rows"],
    *,
    size: int,
) -> Judgements:
    """Each query and document once, with the higher gain, for queries with an answer other than their own text."""
    order = np.lexsort((-gains, documents, queries))
    queries, documents, gains = queries[order], documents[order], gains[order]
    is_first = np.diff(queries.astype(np.int64) * size + documents, prepend=-1) != 0
    is_first &= queries != documents
    is_first &= np.isin(queries, queries[is_first & (gains > 0)])
    return queries[is_first].astype(np.int32), documents[is_first].astype(np.int32), gains[is_first]


def _by_query(
    values: Sliced, queries: Int[np.ndarray, "rows"], query_numbers: Int[np.ndarray, "queries"]
) -> list[Sliced]:
    """The values of each query's rows. Rows are in order of queries."""
    ends = [0, *np.searchsorted(queries, query_numbers, side="right").tolist()]
    return [values[start:end] for start, end in pairwise(ends)]
