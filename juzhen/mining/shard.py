"""Candidates of a shard of queries: found, filtered, chosen, and counted."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float, Int
from typing_extensions import TypedDict

from juzhen.core.errors import UserError
from juzhen.core.safe_open import require_file
from juzhen.core.schema import Whole, require_form
from juzhen.core.text import short
from juzhen.data.rankings import RankingSet
from juzhen.mining.candidates import Advance, Pool, Retriever, pooled
from juzhen.mining.filters import (
    REASONS,
    SUSPECTED_CODES,
    UNKNOWN,
    Codes,
    Known,
    Reason,
    above,
    chosen,
    refused,
)
from juzhen.mining.options import OWN, MiningOptions

Judge = Callable[[Sequence[str], Sequence[str]], Float[np.ndarray, "pairs"]]
"""Queries and documents, pair by pair → scores."""

WRITING: dict[str, Any] = {"compression": "zstd", "dictionary_pagesize_limit": 2**26}
"""How candidates are written as Parquet: each text once in a shard, while these have less than 64 MiB. By the
usual limit of 1 MiB passages are written again for each question that finds them."""

COUNTS = b"juzhen.counts"
"""Key of a shard's metadata: candidates by reason, and what `_known_counts`, `_rule_counts`, `_left` count."""


class Counts(TypedDict):
    reasons: dict[str, Whole]
    known: list[Whole]
    rules: dict[str, list[Whole]]
    left: dict[str, Whole]


COLUMNS = (
    "query", "document", "query_text", "document_text", "source", "rank", "score", "positive_score", "judge_score",
    "label", "reason", "kept", "chosen", "masked",
)  # fmt: skip
"""Of a shard; where rows have negatives of their own, `chosen_for` and `masked_for` besides."""

BY_THRESHOLD = [REASONS.index(reason) for reason in (Reason.ABOVE_THRESHOLD, Reason.JUDGED)]

RANDOM_DRAWN = 2
"""Documents drawn at random for each negative that is asked for: some will be refused."""


@dataclass(frozen=True)
class PositiveThreshold:
    """Score of the positive that candidates of each query are compared with: the lowest of its positives.

    With `positive_reference=own` it is the highest. Candidates above the highest are dropped in every row.

    Args:
        document: The positive with this score.
        next: Score of the next positive, NaN if there is only one.
        least: Lowest score of a positive.
    """

    score: Float[np.ndarray, "queries"]
    document: Int[np.ndarray, "queries"]
    next: Float[np.ndarray, "queries"]
    least: Float[np.ndarray, "queries"]


@dataclass(frozen=True)
class RowPairs:
    """Candidates repeated for each row of their query, for `positive_reference=own`.

    Args:
        candidate: Position in the pool.
        row: Position of the row in `Known.positives`.
        own: Score of the row's positive.
    """

    candidate: Int[np.ndarray, "pairs"]
    row: Int[np.ndarray, "pairs"]
    own: Float[np.ndarray, "pairs"]


@dataclass(frozen=True)
class Miner:
    """Mines the queries of a set, shard by shard. The first source scores.

    Args:
        judge: Scores of a cross-encoder, to which max_score then applies.
    """

    ranking: RankingSet
    sources: Sequence[Retriever]
    known: Known
    options: MiningOptions
    judge: Judge | None

    def candidates(
        self, queries: Int[np.ndarray, "queries"], advance: Advance
    ) -> tuple[Pool, Codes, PositiveThreshold]:
        """Return candidates of neighbouring queries with reasons to drop them (`refused`), without a judge.

        With `positive_reference=own` the reason is the one shared by all rows, see `by_row`.
        """
        options = self.options
        pool = pooled(
            self.sources,
            queries,
            depth=options.range_max,
            num_documents=len(self.ranking.corpus),
            num_random=RANDOM_DRAWN * options.num_negatives if options.hard_share < 1 else 0,
            seed=options.seed,
            advance=advance,
        )
        bar = self._bar(queries)
        positive = bar.score[pool.query - queries[0]]
        return pool, refused(pool, self.known, positive, options, by_judge=self.judge is not None), bar

    def rows(self, pool: Pool, queries: Int[np.ndarray, "queries"]) -> RowPairs:
        starts = self.known.starts[queries[0] : queries[-1] + 2]
        owners = np.repeat(queries, np.diff(starts))
        positives = self.known.positives[starts[0] : starts[-1]]
        scores = self.sources[0].score(owners, positives)
        counts = np.bincount(pool.query - queries[0], minlength=len(queries))
        sizes = counts[owners - queries[0]]
        begins = (np.cumsum(counts) - counts)[owners - queries[0]]
        rows = np.repeat(np.arange(len(owners)), sizes)
        index = np.arange(len(rows)) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
        return RowPairs(index, starts[0] + rows, scores[rows])

    def by_row(self, pool: Pool, codes: Codes, rows: RowPairs) -> tuple[Pool, Codes]:
        """Return the pool of the rows, whose `query` is the row's position, and why each candidate is dropped there."""
        index = rows.candidate
        by_row = replace(pool, **{field.name: getattr(pool, field.name)[index] for field in fields(pool)})
        codes = codes[index]
        is_open = (codes == 0) | np.isin(codes, BY_THRESHOLD)
        rules = above(by_row.score, rows.own, replace(self.options, max_score=None), by_judge=False)
        for reason, applies in reversed(rules):
            codes = np.where(is_open & applies, REASONS.index(reason), codes).astype(np.int8)
        return replace(by_row, query=rows.row), codes

    def shard(self, queries: Int[np.ndarray, "queries"], advance: Advance) -> pa.Table:
        """Return one row per candidate of neighbouring queries. Columns: see `MiningResult`."""
        options = self.options
        pool, codes, bar = self.candidates(queries, advance)
        labels = self.known.labels(pool.query, pool.document)
        rows = self.rows(pool, queries) if options.positive_reference == OWN else None
        index = np.arange(len(codes)) if rows is None else rows.candidate
        counted, rules = self._blind(pool, labels, bar, rows)
        is_seen_through = np.logical_or.reduce([np.zeros(len(index), dtype=bool), *rules.values()])
        is_asked = codes == 0
        is_asked[index[counted & ~is_seen_through]] = True
        judged = self._judged(pool, is_asked)
        by_rule = {reason: _rule_counts(labels[index], counted, applies) for reason, applies in rules.items()}
        if options.max_score is not None and self.judge is not None:
            too_high = judged >= options.max_score
            codes[(codes == 0) & too_high] = REASONS.index(Reason.JUDGED)
            unrefused = counted & ~is_seen_through
            by_rule[Reason.JUDGED] = _rule_counts(labels[index], unrefused, too_high[index])
            is_seen_through |= too_high[index]
        of_rows, why = (pool, codes) if rows is None else self.by_row(pool, codes, rows)
        counts = {
            "reasons": {REASONS[code]: int(count) for code, count in enumerate(np.bincount(codes)) if count},
            "known": _known_counts(labels[index], counted, counted & ~is_seen_through),
            "rules": by_rule,
            "left": self._left(of_rows, why),
        }
        table = self._table(pool, codes, labels, bar.least[pool.query - queries[0]], judged)
        taken = chosen(of_rows, why, options)
        for name, are in {"chosen": taken & (why == 0), "masked": taken & (why != 0)}.items():
            is_one = np.zeros(len(codes), dtype=bool)
            is_one[index[are]] = True
            table = table.append_column(name, pa.array(is_one))
            if rows is not None:
                positives = self.known.positives[rows.row[are]]
                table = table.append_column(f"{name}_for", _lists(positives, index[are], size=len(codes)))
        return table.replace_schema_metadata({COUNTS: json.dumps(counts, sort_keys=True)})

    def _left(self, rows: Pool, codes: Codes) -> dict[str, int]:
        """Count the effect of max_score: rows with enough negatives with and without it, and candidates.

        Returns:
            rows, rows_without: Rows with enough negatives, with and without max_score.
            candidates: Retrieved candidates that pass every other rule.
            refused: Candidates that max_score drops.
        """
        usable, by_threshold = codes == 0, np.isin(codes, BY_THRESHOLD)
        if self.options.false_negatives == "mask":
            usable = usable | np.isin(codes, SUSPECTED_CODES)
        is_one = self.options.positive_reference == OWN
        each = np.ones(len(self.known.positives), dtype=np.int64) if is_one else np.diff(self.known.starts)
        is_retrieved, counts = rows.rank > 0, {}
        for name, chosen_ones in {"rows": usable, "rows_without": usable | by_threshold}.items():
            enough = np.bincount(rows.query[chosen_ones]) >= self.options.num_negatives
            counts[name] = int(each[: len(enough)][enough].sum())
        counts["candidates"] = int((is_retrieved & ((codes == 0) | by_threshold)).sum())
        return counts | {"refused": int((is_retrieved & by_threshold).sum())}

    def _bar(self, queries: Int[np.ndarray, "queries"]) -> PositiveThreshold:
        starts = self.known.starts[queries[0] : queries[-1] + 2]
        documents, counts = self.known.positives[starts[0] : starts[-1]], np.diff(starts)
        owners = np.repeat(queries, counts)
        scores = self.sources[0].score(owners, documents)
        order = np.lexsort((documents, -scores if self.options.positive_reference == OWN else scores, owners))
        first = order[starts[:-1] - starts[0]]
        second = order[np.minimum(starts[:-1] - starts[0] + 1, len(order) - 1)]
        least = np.minimum.reduceat(scores, starts[:-1] - starts[0])
        return PositiveThreshold(
            scores[first], documents[first], np.where(counts > 1, scores[second], np.nan), least
        )

    def _blind(
        self, pool: Pool, labels: np.ndarray, bar: PositiveThreshold, rows: RowPairs | None
    ) -> tuple[Bool[np.ndarray, "counted"], dict[Reason, Bool[np.ndarray, "counted"]]]:
        """Return candidates with a known label, and which candidates are dropped by each rule that ignores labels.

        A positive is compared with the other positives of its query as if it were not one. Queries with a single
        positive are therefore not counted, nor are their known negatives.
        """
        query = pool.query - pool.query[:1]
        bars = np.where(pool.document == bar.document[query], bar.next[query], bar.score[query])
        rules = above(pool.score, bars, self.options, by_judge=self.judge is not None)
        in_window = pool.rank > self.options.range_min
        counted = (labels != UNKNOWN) & in_window & ~np.isnan(bar.next[query])
        counted &= ~self.known.own_copies(pool.query, pool.document)
        if rows is not None:
            index = rows.candidate
            rules = above(pool.score[index], rows.own, self.options, by_judge=self.judge is not None)
            counted = counted[index] & (pool.document[index] != self.known.positives[rows.row])
        return counted, dict(rules)

    def _judged(self, pool: Pool, is_asked: np.ndarray) -> Float[np.ndarray, "candidates"]:
        scores = np.full(len(is_asked), np.nan)
        rows = np.flatnonzero(is_asked)
        if self.judge is not None and len(rows):
            queries = [self.ranking.queries[query] for query in pool.query[rows]]
            scores[rows] = self.judge(
                queries, [self.ranking.corpus[document] for document in pool.document[rows]]
            )
        return scores

    def _table(
        self, pool: Pool, codes: np.ndarray, labels: np.ndarray, positive: np.ndarray, judged: np.ndarray
    ) -> pa.Table:
        columns = {
            "query": pa.array(pool.query, pa.int32()),
            "document": pa.array(pool.document, pa.int32()),
            "query_text": _texts(self.ranking.queries, pool.query),
            "document_text": _texts(self.ranking.corpus, pool.document),
            "source": pa.array(pool.source.tolist(), pa.string()),
            "rank": pa.array(pool.rank, pa.int32(), mask=pool.rank == 0),
            "score": pa.array(pool.score, pa.float32()),
            "positive_score": pa.array(positive, pa.float32()),
            "judge_score": pa.array(judged, pa.float32(), mask=np.isnan(judged)),
            "label": pa.array(labels, pa.int8(), mask=labels == UNKNOWN),
            "reason": pa.array([*map(str, REASONS)], pa.string()).take(pa.array(codes)),
            "kept": pa.array(codes == 0),
        }
        return pa.table(columns)


def _texts(texts: Sequence[str], numbers: Int[np.ndarray, "candidates"]) -> pa.Array:
    """Return the text of each candidate. Each different one is converted once."""
    is_used = np.zeros(len(texts), dtype=bool)
    is_used[numbers] = True
    used = pa.array([texts[number] for number in np.flatnonzero(is_used).tolist()], pa.string())
    return used.take(pa.array(np.cumsum(is_used)[numbers] - 1))


def require_shard(
    path: Path, queries: Int[np.ndarray, "queries"], *, num_documents: int, positive_reference: str
) -> None:
    """Raise UserError if a file does not hold the complete candidates of these queries."""
    try:
        table = pq.read_table(require_file(path))
        counts = json.loads((table.schema.metadata or {})[COUNTS])
        named = {*COLUMNS, *(("chosen_for", "masked_for") if positive_reference == OWN else ())}
        is_known = bool({*table.column_names} == named and len(table))
        require_form(counts, Counts, "its counts")
        is_known = is_known and bool(np.isin(table["query"].to_numpy(), queries).all())
        if not is_known or not np.isin(table["document"].to_numpy(), np.arange(num_documents)).all():
            raise ValueError("other columns, queries or documents")
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        pa.ArrowException,
    ) as error:
        reason = getattr(error, "strerror", None) or short(" ".join(str(error).split()), 200)
        raise UserError(
            f"{path}: not a shard of this mining run ({reason}). Delete it and type the same command again"
        ) from error


def _known_counts(labels: np.ndarray, before: np.ndarray, after: np.ndarray) -> list[int]:
    """Count candidates with a known label and how many answer, before and after the rules that ignore labels."""
    return [int(count) for rows in (before, after) for count in (rows.sum(), (labels[rows] == 1).sum())]


def _rule_counts(labels: np.ndarray, counted: np.ndarray, refused: np.ndarray) -> list[int]:
    """Count known answers, answers that a rule keeps, other labels, and others that it drops."""
    answers, non_answers = counted & (labels == 1), counted & (labels == 0)
    return [int(rows.sum()) for rows in (answers, answers & ~refused, non_answers, non_answers & refused)]


def _lists(values: Int[np.ndarray, "pairs"], slots: Int[np.ndarray, "pairs"], *, size: int) -> pa.ListArray:
    """Group values by slot, in order."""
    order = np.argsort(slots, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(slots, minlength=size))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[order], pa.int32()))
