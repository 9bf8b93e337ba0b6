"""Sets of pairs as rankings: from "which pairs are alike" to "find it among all"."""

import numpy as np
from jaxtyping import Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from juzhen.core.errors import UserError
from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
from juzhen.data.rankings import RankingSet


def as_ranking(examples: Examples) -> RankingSet:
    """A set of pairs or triplets as a ranking, every gain 1. No query finds its own text.

    Of labelled pairs the corpus is all distinct sentences. What label 1 joins, directly or through others, is one group
    of duplicates, and each sentence of a group is a query for the others. A sentence without a duplicate is no query
    and stays in the corpus. Two sentences with label 0 are known not to answer one another. Where label 0 contradicts
    a group, the group is believed.

    Of positive pairs and triplets the corpus is all distinct positives and negatives, and the queries are all distinct
    anchors. An anchor's positives answer it. Its negatives are known not to, except where they are its positives too.

    Raises UserError for a set in which nothing answers anything, and for rows of other kinds.
    """
    if examples.kind is Kind.LABELLED_PAIR:
        ranking = _duplicates(examples)
    elif examples.kind in (Kind.POSITIVE_PAIR, Kind.TRIPLET):
        ranking = _answers(examples)
    else:
        raise UserError(
            f"{examples.split}/{examples.name}: rows of kind {examples.kind} do not say what answers what; "
            "expected labelled_pair, positive_pair or triplet"
        )
    if not ranking.queries:
        raise UserError(f"{ranking.column}: no text is paired with another one that answers it")
    return ranking


def _duplicates(examples: Examples) -> RankingSet:
    names = TEXT_COLUMNS[examples.kind]
    used, places = np.unique([examples.columns[name] for name in names], return_inverse=True)
    first, second = places.reshape(len(names), -1)
    same = np.flatnonzero(examples.targets == 1)
    joined = coo_array((np.ones(len(same)), (first[same], second[same])), shape=(len(used), len(used)))
    _, groups = connected_components(joined, directed=False)
    members = _lists(groups, np.arange(len(used)), num_lists=len(used))
    apart = groups[first] != groups[second]
    ends = first[apart], second[apart]
    irrelevant = _lists(np.concatenate(ends), np.concatenate(ends[::-1]), num_lists=len(used))
    own = np.flatnonzero(np.bincount(groups)[groups] > 1)  # those with a duplicate
    corpus = [examples.sentences[number] for number in used]
    return RankingSet(
        examples.name,
        examples.split,
        queries=[corpus[document] for document in own.tolist()],
        corpus=corpus,
        relevant=[_gains(members[groups[document]], own=document) for document in own.tolist()],
        own=own,
        irrelevant=[irrelevant[document] for document in own.tolist()],
    )


def _answers(examples: Examples) -> RankingSet:
    (anchors, positives, *negatives), rows = examples.columns.values(), len(examples)
    corpus, places = np.unique(np.concatenate([positives, *negatives]), return_inverse=True)
    texts, queries = np.unique(anchors, return_inverse=True)
    relevant = _lists(queries, places[:rows], num_lists=len(texts))
    refused = _lists(np.tile(queries, len(negatives)), places[rows:], num_lists=len(texts))
    own = np.where(np.isin(texts, corpus), np.searchsorted(corpus, texts), -1)
    answers = [
        _gains(documents, own=itself) for documents, itself in zip(relevant, own.tolist(), strict=True)
    ]
    asked = [query for query, gains in enumerate(answers) if gains]
    return RankingSet(
        examples.name,
        examples.split,
        queries=[examples.sentences[texts[query]] for query in asked],
        corpus=[examples.sentences[number] for number in corpus],
        relevant=[answers[query] for query in asked],
        own=own[asked],
        irrelevant=[np.setdiff1d(refused[query], [*answers[query], own[query]]) for query in asked],
    )


def _gains(documents: Int[np.ndarray, "documents"], *, own: int) -> dict[int, float]:
    return {document: 1.0 for document in documents.tolist() if document != own}


def _lists(
    owners: Int[np.ndarray, "pairs"], members: Int[np.ndarray, "pairs"], *, num_lists: int
) -> list[Int[np.ndarray, "members"]]:
    """For each owner from 0 its distinct members in order."""
    span = 1 + int(members.max(initial=0))
    owners, members = np.divmod(np.unique(owners.astype(np.int64) * span + members), span)
    return np.split(members, np.searchsorted(owners, np.arange(1, num_lists)))
