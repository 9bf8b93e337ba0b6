"""Two stages: an encoder, or BM25, finds documents, and a cross-encoder puts the first of them in order."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.columns import described
from juzhen.core.errors import UserError
from juzhen.core.kinds import RANKINGS, ranking_measure
from juzhen.core.result import Score
from juzhen.core.text_warnings import collected
from juzhen.data.rankings import RankingSet
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.evaluation.run import EvaluationRun
from juzhen.evaluation.scoring import score_ranking_set
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.families.registry import open_encoder
from juzhen.metrics.ranking import RankedLists, order_numbers

DEPTHS = (10, 20, 50, 100)

TIMED = 20
"""Queries, drawn with the seed, of which each is timed alone."""


@dataclass(frozen=True)
class RerankedScores:
    """Scores of two stages, of which the second one reads the first `depth` documents.

    Attributes:
        depth: 0: only the first stage.
        scores: Metric → Score.
        milliseconds: Of each timed query, from its text to the list, (TIMED,) or fewer.
    """

    depth: int
    scores: dict[str, Score]
    milliseconds: Float[np.ndarray, "queries"]


def two_stage(
    retrieve: str | Path | Any,
    rerank: str | Path | CrossEncoder,
    ranking: RankingSet,
    *,
    depths: Sequence[int] = DEPTHS,
    settings: EvaluationSettings | None = None,
    cache_dir: str | None = None,
    progress: bool = False,
) -> list[RerankedScores]:
    """Measure quality and time without a second stage, and for each of `depths`.

    Documents below the depth keep their place from the first stage. Recall at a larger cut-off does therefore
    not change. If the depth would split documents of equal scores, the second stage reads none of them. Their
    order is only the order of the corpus.

    Queries are timed one at a time, in float32. The time covers encoding the query, comparing it with the
    stored embeddings of all documents, and reading it with each of the first documents.

    Args:
        retrieve: The first stage, as `encoder` of `evaluate`.
        rerank: A cross-encoder, or its path.
        ranking: The queries and the corpus.
        depths: Numbers of documents to rerank.
        settings: Seed, intervals and device. Its handling of long texts is that of the first stage.
        cache_dir: Folder for cached token numbers.
        progress: Show progress bars.

    Returns:
        Scores and times, without a second stage first.

    Raises:
        UserError: A second stage that is not a cross-encoder, a set with given candidates, or a depth beyond
            the corpus.
    """
    settings = settings or EvaluationSettings()
    measures = list(dict.fromkeys([*RANKINGS, *settings.evaluation.rankings]))
    check_depths(ranking, depths)
    reader = CrossEncoder.load(rerank) if isinstance(rerank, str | Path) else rerank
    if not isinstance(reader, PairEncoder):
        raise UserError(
            f"rerank: got {described(reader)}, no cross-encoder. Load it with CrossEncoder.load(…)."
        )
    finder = EvaluationRun(open_encoder(retrieve), settings, cache_dir, progress)
    lists, find = finder.lists(
        ranking, depth=max(*depths, *(ranking_measure(measure)[1] for measure in measures))
    )
    counts = _readable(lists, max(depths))
    first = [row[: max(count, 1)] for row, count in zip(lists.documents, counts.tolist(), strict=True)]
    again = EvaluationRun(
        reader, replace(settings, long_texts="cut", chunk_overlap=None), cache_dir, progress
    )
    read, _ = again.lists(replace(ranking, candidates=first), depth=max(depths))
    timed = np.random.default_rng(settings.seed).permutation(len(first))[:TIMED].tolist()

    def scores(lists: RankedLists) -> dict[str, Score]:
        sampling = {"bootstrap_samples": settings.evaluation.bootstrap_samples, "seed": settings.seed}
        scored = score_ranking_set(ranking, order_numbers(lists, ranking.judged, measures), None, **sampling)
        return {key.rpartition("/")[2]: score for key, score in scored.items()}

    def seconds(query: int, depth: int) -> float:
        documents = [ranking.corpus[document] for document in first[query][:depth]]
        since = time.perf_counter()
        with collected():  # the pass has counted them
            reader.rank(ranking.queries[query], documents, show_progress=False)
        return time.perf_counter() - since

    find(timed[0]), seconds(timed[0], min(depths))  # what is slow for being the first does not count
    finding = np.array([find(query) for query in timed])
    stages = [RerankedScores(0, scores(lists), 1000 * finding)]
    for depth in depths:
        reading = np.array([seconds(query, depth) for query in timed])
        stages.append(
            RerankedScores(depth, scores(_reordered(lists, read, depth)), 1000 * (finding + reading))
        )
    return stages


def check_depths(ranking: RankingSet, depths: Sequence[int]) -> None:
    """Raise UserError for a set that does not suit two stages.

    Args:
        ranking: The set.
        depths: Numbers of documents to rerank.

    Raises:
        UserError: The set has candidates already, or a depth is not from 1 to the size of the corpus.
    """
    if ranking.candidates is not None:
        raise UserError(f"{ranking.column}: its queries have candidates already. Choose a retrieval set")
    if not depths or min(depths) < 1 or max(depths) > len(ranking.corpus):
        raise UserError(
            f"{ranking.column}: the second stage reads the first {', '.join(map(str, depths))} documents. "
            f"Expected 1 to {len(ranking.corpus):,}, the size of the corpus"
        )


def some_queries(ranking: RankingSet, limit: int | None, *, seed: int) -> RankingSet:
    """Draw `limit` queries of the set with the seed. The corpus stays the same. None: all queries.

    Args:
        ranking: The set.
        limit: Number of queries.
        seed: Seed of the draws.

    Returns:
        The smaller set.
    """
    if limit is None or limit >= len(ranking.queries):
        return ranking
    rows = np.sort(np.random.default_rng(seed).permutation(len(ranking.queries))[:limit])
    return ranking.some(rows)


def _readable(lists: RankedLists, depth: int) -> Int[np.ndarray, "queries"]:
    """Number of documents of each list for the second stage: the first `depth`, without splitting ties.

    The order of the corpus would decide which documents of a tie to read.
    """
    ends = np.where(lists.documents >= 0, lists.starts + lists.sizes, 0)
    return np.where(ends <= depth, ends, 0).max(axis=1)


def _reordered(lists: RankedLists, read: RankedLists, depth: int) -> RankedLists:
    """The documents within this depth in the order of `read`, then the others."""
    documents, starts = lists.documents.copy(), np.array(lists.starts)
    for query, count in enumerate(_readable(lists, depth).tolist()):
        chosen = np.isin(read.documents[query], documents[query, :count]) & (read.documents[query] >= 0)
        documents[query, :count] = read.documents[query, chosen]
        _, firsts, groups = np.unique(read.starts[query, chosen], return_index=True, return_inverse=True)
        starts[query, :count] = firsts[groups]
    return replace(lists, documents=documents, starts=starts)
