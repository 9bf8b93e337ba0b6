"""Two stages: an encoder, or BM25, finds documents, and a cross-encoder puts the first of them in order."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.errors import UserError
from juzhen.core.measures import RANKINGS, ranking_measure
from juzhen.core.result import Score
from juzhen.data.rankings import RankingSet
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.evaluation.run import AnyEncoder, Pass, open_encoder
from juzhen.evaluation.scoring import score_ranking_set
from juzhen.evaluation.settings import Settings
from juzhen.metrics.ranking import query_numbers

DEPTHS = (10, 20, 50, 100)

TIMED = 20
"""Queries, drawn with the seed, of which each is timed alone."""


@dataclass(frozen=True)
class Stage:
    """What two stages reach where the second one reads the first `depth` documents; 0: there is no second one.

    scores        metric → Score
    milliseconds  of each query that was timed, from its text to the list; (TIMED,) or fewer
    """

    depth: int
    scores: dict[str, Score]
    milliseconds: Float[np.ndarray, "queries"]


def two_stage(
    retrieve: str | Path | AnyEncoder,
    rerank: str | Path | CrossEncoder,
    ranking: RankingSet,
    *,
    depths: Sequence[int] = DEPTHS,
    settings: Settings | None = None,
    cache_dir: str | None = None,
    progress: bool = False,
) -> list[Stage]:
    """Quality and time without a second stage, and for each of `depths`.

    Documents below the depth stay where the first stage has put them, so recall at a cut-off beyond it does not change.
    A query is timed as if it came alone, in float32: it is encoded, compared with all documents, whose embeddings are
    there, and read with each of the first documents.

    retrieve  as `encoder` of `evaluate`
    rerank    a cross-encoder, or the path of one
    settings  seed, intervals, device

    Raises UserError for a second stage that is no cross-encoder, a set whose candidates are given, and a depth beyond
    the corpus.
    """
    settings = settings or Settings()
    measures = list(dict.fromkeys([*RANKINGS, *settings.evaluation.rankings]))
    check_depths(ranking, depths)
    reader = CrossEncoder.load(rerank) if isinstance(rerank, str | Path) else rerank
    finder = Pass(open_encoder(retrieve), settings, cache_dir, progress)
    found, find = finder.lists(ranking, depth=max(*depths, *(ranking_measure(one)[1] for one in measures)))
    first = [row[row >= 0][: max(depths)] for row in found]
    again = Pass(reader, settings, cache_dir, progress)
    read, _ = again.lists(replace(ranking, candidates=first), depth=max(depths))
    drawn = np.random.default_rng(settings.seed).permutation(len(found))[:TIMED].tolist()

    def scores(lists: Int[np.ndarray, "queries documents"]) -> dict[str, Score]:
        how = {"bootstrap_samples": settings.evaluation.bootstrap_samples, "seed": settings.seed}
        scored = score_ranking_set(ranking, query_numbers(lists, ranking.relevant, measures), None, **how)
        return {key.rpartition("/")[2]: score for key, score in scored.items()}

    def seconds(query: int, depth: int) -> float:
        documents = [ranking.corpus[document] for document in first[query][:depth]]
        since = time.perf_counter()
        reader.rank(ranking.queries[query], documents, progress=False)
        return time.perf_counter() - since

    find(drawn[0]), seconds(drawn[0], min(depths))  # what is slow for being the first does not count
    finding = np.array([find(query) for query in drawn])
    stages = [Stage(0, scores(found), 1000 * finding)]
    for depth in depths:
        reading = np.array([seconds(query, depth) for query in drawn])
        stages.append(Stage(depth, scores(_reordered(found, read, depth)), 1000 * (finding + reading)))
    return stages


def check_depths(ranking: RankingSet, depths: Sequence[int]) -> None:
    """Raises UserError for a set that two stages cannot be measured on."""
    if ranking.candidates is not None:
        raise UserError(
            f"{ranking.column}: its queries have candidates, and nothing is to be found; expected a retrieval set"
        )
    if not depths or min(depths) < 1 or max(depths) > len(ranking.corpus):
        raise UserError(
            f"{ranking.column}: the second stage is to read the first {', '.join(map(str, depths))} documents; "
            f"expected 1 to {len(ranking.corpus):,}, which the corpus has"
        )


def some_queries(ranking: RankingSet, limit: int | None, *, seed: int) -> RankingSet:
    """The set with `limit` of its queries, drawn with the seed, and the same corpus; None: all."""
    if limit is None or limit >= len(ranking.queries):
        return ranking
    rows = np.sort(np.random.default_rng(seed).permutation(len(ranking.queries))[:limit])
    return replace(
        ranking,
        queries=[ranking.queries[row] for row in rows],
        relevant=[ranking.relevant[row] for row in rows],
        own=None if ranking.own is None else ranking.own[rows],
        irrelevant=None if ranking.irrelevant is None else [ranking.irrelevant[row] for row in rows],
    )


def _reordered(
    found: Int[np.ndarray, "queries documents"], read: Int[np.ndarray, "queries some"], depth: int
) -> Int[np.ndarray, "queries documents"]:
    """The first `depth` documents of each list in the order in which they stand in `read`, then the others."""
    lists = found.copy()
    for query, row in enumerate(read):
        head = row[np.isin(row, found[query, :depth]) & (row >= 0)]
        lists[query, : len(head)] = head
    return lists
