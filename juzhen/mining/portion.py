"""The candidates of some queries: found, refused or kept, chosen, and counted."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from juzhen.data.rankings import RankingSet
from juzhen.mining.candidates import Advance, Pool, Source, pooled
from juzhen.mining.choose import chosen
from juzhen.mining.filters import REASONS, UNKNOWN, Codes, Known, Reason, above, refused
from juzhen.mining.options import MiningOptions

Judge = Callable[[Sequence[str], Sequence[str]], Float[np.ndarray, "pairs"]]
"""Queries and documents, pair by pair → scores."""

COUNTS = b"juzhen.counts"
"""Key of a portion's metadata: candidates by reason, and the four numbers of `_known_counts`."""

RANDOM_DRAWN = 2
"""Documents drawn at random for each negative that is asked for: some will be refused."""


@dataclass(frozen=True)
class Lowest:
    """The least score of a positive of each query, the document that has it, and the next; NaN where there is one."""

    score: Float[np.ndarray, "queries"]
    document: Int[np.ndarray, "queries"]
    next: Float[np.ndarray, "queries"]


@dataclass(frozen=True)
class Miner:
    """Mines the queries of a set, some at a time; the first source scores.

    judge  a cross-encoder's scores, to which the threshold applies then; None: there is none
    """

    ranking: RankingSet
    sources: Sequence[Source]
    known: Known
    options: MiningOptions
    judge: Judge | None

    def candidates(self, queries: Int[np.ndarray, "queries"], advance: Advance) -> tuple[Pool, Codes, Lowest]:
        """Candidates of these queries, which are neighbours, and why each is refused (`refused`) before any judge."""
        options = self.options
        pool = pooled(
            self.sources,
            queries,
            depth=options.depth,
            num_documents=len(self.ranking.corpus),
            num_random=RANDOM_DRAWN * options.negatives if options.hard_share < 1 else 0,
            seed=options.seed,
            advance=advance,
        )
        lowest = self._lowest(queries)
        positive = lowest.score[pool.query - queries[0]]
        return pool, refused(pool, self.known, positive, options, by_judge=self.judge is not None), lowest

    def portion(self, queries: Int[np.ndarray, "queries"], advance: Advance) -> pa.Table:
        """A row for each candidate of these queries, which are neighbours. Columns: see `Mined`."""
        options = self.options
        pool, codes, lowest = self.candidates(queries, advance)
        labels = self.known.labels(pool.query, pool.document)
        counted, is_seen_through = self._blind(pool, labels, lowest)
        judged = self._judged(pool, (codes == 0) | (counted & ~is_seen_through))
        if options.threshold is not None:
            too_high = judged >= options.threshold
            codes[(codes == 0) & too_high] = REASONS.index(Reason.JUDGED)
            is_seen_through |= too_high
        counts = {
            "reasons": Counter(REASONS[code] for code in codes.tolist()),
            "known": _known_counts(labels, counted, counted & ~is_seen_through),
        }
        positive = lowest.score[pool.query - queries[0]]
        table = self._table(pool, codes, labels, positive, judged)
        return table.replace_schema_metadata({COUNTS: json.dumps(counts, sort_keys=True)})

    def _lowest(self, queries: Int[np.ndarray, "queries"]) -> Lowest:
        starts = self.known.starts[queries[0] : queries[-1] + 2]
        documents, counts = self.known.positives[starts[0] : starts[-1]], np.diff(starts)
        owners = np.repeat(queries, counts)
        scores = self.sources[0].score(owners, documents)
        order = np.lexsort((documents, scores, owners))
        first = order[starts[:-1] - starts[0]]
        second = order[np.minimum(starts[:-1] - starts[0] + 1, len(order) - 1)]
        return Lowest(scores[first], documents[first], np.where(counts > 1, scores[second], np.nan))

    def _blind(
        self, pool: Pool, labels: np.ndarray, lowest: Lowest
    ) -> tuple[Bool[np.ndarray, "candidates"], Bool[np.ndarray, "candidates"]]:
        """Candidates whose label is known, and which of all the rules refuse that know no label.

        A positive is compared with the other positives of its query as if it were none, so that queries with one alone
        have nothing to tell and are not counted, nor are their known negatives.
        """
        place = pool.query - pool.query[:1]
        others = np.where(pool.document == lowest.document[place], lowest.next[place], lowest.score[place])
        rules = above(pool.score, others, self.options, by_judge=self.judge is not None)
        in_window = pool.rank >= self.options.first_rank
        counted = (labels != UNKNOWN) & in_window & ~np.isnan(lowest.next[place])
        copies = self.known.own_copies(pool.query, pool.document)
        return counted & ~copies, np.logical_or.reduce([copies, *(applies for _, applies in rules)])

    def _judged(self, pool: Pool, wanted: np.ndarray) -> Float[np.ndarray, "candidates"]:
        scores = np.full(len(wanted), np.nan)
        rows = np.flatnonzero(wanted)
        if self.judge is not None and len(rows):
            queries = [self.ranking.queries[one] for one in pool.query[rows]]
            scores[rows] = self.judge(queries, [self.ranking.corpus[one] for one in pool.document[rows]])
        return scores

    def _table(
        self, pool: Pool, codes: np.ndarray, labels: np.ndarray, positive: np.ndarray, judged: np.ndarray
    ) -> pa.Table:
        taken = chosen(pool, codes, self.options)
        columns = {
            "query": pa.array(pool.query, pa.int32()),
            "document": pa.array(pool.document, pa.int32()),
            "query_text": pa.array([self.ranking.queries[one] for one in pool.query], pa.string()),
            "document_text": pa.array([self.ranking.corpus[one] for one in pool.document], pa.string()),
            "source": pa.array(pool.source, pa.string()),
            "rank": pa.array(pool.rank, pa.int32(), mask=pool.rank == 0),
            "score": pa.array(pool.score, pa.float32()),
            "positive_score": pa.array(positive, pa.float32()),
            "judge_score": pa.array(judged, pa.float32(), mask=np.isnan(judged)),
            "label": pa.array(labels, pa.int8(), mask=labels == UNKNOWN),
            "reason": pa.array([REASONS[code] for code in codes.tolist()], pa.string()),
            "kept": pa.array(codes == 0),
            "chosen": pa.array(taken & (codes == 0)),
            "masked": pa.array(taken & (codes != 0)),
        }
        return pa.table(columns)


def _known_counts(labels: np.ndarray, before: np.ndarray, after: np.ndarray) -> list[int]:
    """Candidates whose label is known, and how many of them answer, before and after the rules that know no label."""
    return [int(one) for some in (before, after) for one in (some.sum(), (labels[some] == 1).sum())]
