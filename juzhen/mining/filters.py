"""Candidates of a shard of queries: found, dropped by rules, each with a reason, and negatives chosen from the rest."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from typing_extensions import TypedDict

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.safe_open import require_file
from juzhen.core.schema import Whole, require_form
from juzhen.core.text import fold_lines, short
from juzhen.data.leaks.matching import NO_WIDTH, letters_only, normalize, used_sentences
from juzhen.data.rankings import RankingSet
from juzhen.mining import OWN, MiningOptions
from juzhen.mining.candidates import Advance, Pool, Retriever, pooled


class Reason(StrEnum):
    """Reason to drop a candidate. If several apply, the first in this order counts."""

    KEPT = "kept"
    IS_POSITIVE = "is_positive"  # it answers the query
    POSITIVE_CLUSTER = "positive_cluster"  # joined with the query by positive pairs, over other texts
    NEAR_COPY = "near_copy"  # the query or one of its positives, but for spaces, punctuation, width and case
    EVALUATION_ROW = "evaluation_row"  # its text, compared in the same way, is evaluated on
    OUTSIDE_WINDOW = "outside_window"  # its rank is before the first that is asked for
    ABOVE_SHARE = "above_share"
    ABOVE_MARGIN = "above_margin"
    ABOVE_THRESHOLD = "above_threshold"
    JUDGED = "judged"  # the cross-encoder's score reaches the threshold
    BELOW_MIN_SCORE = "below_min_score"
    BECOME_EASY = (
        "become_easy"  # in training: what has been learnt makes room for another (`callbacks.mining`)
    )


REASONS = list(Reason)
SUSPECTED = (Reason.ABOVE_SHARE, Reason.ABOVE_MARGIN, Reason.ABOVE_THRESHOLD, Reason.JUDGED)
"""Refused for a score alone: what may answer the query although nobody has said so."""
SUSPECTED_CODES = [REASONS.index(reason) for reason in SUSPECTED]

UNKNOWN = -1

TEXTS_AT_ONCE = 4096

_MARKS = re.compile(r"[^\w\n]|_")

Codes = Int[np.ndarray, "candidates"]


class Known:
    """Facts about queries and documents that need no score.

    Args:
        ranking: Queries, documents and answers.
        evaluation: Sets whose sentences must not become negatives.
    """

    def __init__(self, ranking: RankingSet, evaluation: Sequence[Examples] = ()) -> None:
        self._size = len(ranking.corpus)
        counts = [len(gains) for gains in ranking.relevant]
        self.starts = np.cumsum([0, *counts])
        """Where the positives of each query begin in `positives`."""
        self.positives = np.fromiter(chain.from_iterable(ranking.relevant), dtype=np.int64)
        owners = np.repeat(np.arange(len(counts)), counts)
        self._order = np.argsort(owners * self._size + self.positives)
        self._relevant = (owners * self._size + self.positives)[self._order]
        self._irrelevant = _keys(ranking.irrelevant, self._size)
        numbers = defaultdict[str, int](count().__next__)
        self._query_text = _numbered(ranking.queries, numbers)
        self._document_text = _numbered(ranking.corpus, numbers)
        self._span = len(numbers)
        self._copies = np.sort(owners * self._span + self._document_text[self.positives])
        used = {
            numbers.get(letters, UNKNOWN)
            for examples in evaluation
            for letters in _letters([*used_sentences(examples)])
        }
        self._evaluated = np.isin(self._document_text, list(used))
        # Texts are the nodes, so that a query which is a document too is one of them.
        edges = self._query_text[owners], self._document_text[self.positives]
        graph = coo_array((np.ones(len(owners), dtype=bool), edges), shape=(self._span, self._span))
        self._cluster = connected_components(graph, directed=False)[1]

    def place(self, query: np.ndarray, document: np.ndarray) -> Int[np.ndarray, "pairs"]:
        """Find documents among the positives of their queries.

        Args:
            query: Number of the query of each pair.
            document: Number of the document of each pair.

        Returns:
            Positions in `positives`. UNKNOWN if a document is not a positive.
        """
        keys = query * self._size + document
        positions = np.minimum(np.searchsorted(self._relevant, keys), len(self._relevant) - 1)
        return np.where(self._relevant[positions] == keys, self._order[positions], UNKNOWN)

    def labels(self, query: np.ndarray, document: np.ndarray) -> Codes:
        """Look up the labels of pairs.

        Args:
            query: Number of the query of each pair.
            document: Number of the document of each pair.

        Returns:
            int8: 1 answers the query or shares a positive pair, 0 does not, else UNKNOWN.
        """
        keys = query * self._size + document
        answers = _among(keys, self._relevant)
        apart = _among(keys, self._irrelevant) & ~answers
        answers |= self._joined(query, document) & ~apart & ~self.own_copies(query, document)
        return np.where(answers, 1, np.where(apart, 0, UNKNOWN)).astype(np.int8)

    def own_copies(self, query: np.ndarray, document: np.ndarray) -> Bool[np.ndarray, "candidates"]:
        """Find documents with the text of their query.

        Args:
            query: Number of the query of each pair.
            document: Number of the document of each pair.

        Returns:
            True where the texts differ at most in spaces, punctuation, width and case.
        """
        return self._query_text[query] == self._document_text[document]

    def reasons(self, query: np.ndarray, document: np.ndarray) -> Iterable[tuple[Reason, np.ndarray]]:
        """Apply the rules that need no score.

        Args:
            query: Number of the query of each candidate.
            document: Number of the document of each candidate.

        Yields:
            Reason and the candidates it drops, bool (candidates,). Earlier reasons come first.
        """
        texts = self._document_text[document]
        yield Reason.IS_POSITIVE, _among(query * self._size + document, self._relevant)
        is_copy = self.own_copies(query, document) | _among(query * self._span + texts, self._copies)
        yield Reason.POSITIVE_CLUSTER, self._joined(query, document) & ~is_copy
        yield Reason.NEAR_COPY, is_copy
        yield Reason.EVALUATION_ROW, self._evaluated[document]

    def _joined(self, query: np.ndarray, document: np.ndarray) -> Bool[np.ndarray, "candidates"]:
        return self._cluster[self._query_text[query]] == self._cluster[self._document_text[document]]


def refused(
    pool: Pool,
    answers: Known,
    lowest: Float[np.ndarray, "candidates"],
    options: MiningOptions,
    *,
    by_judge: bool,
) -> Codes:
    """Return the reason to drop each candidate. The cross-encoder is applied later.

    Args:
        pool: Candidates.
        answers: Facts about their queries and documents.
        lowest: Lowest score of a positive of the query.
        options: Options of the mining.
        by_judge: max_score applies to the cross-encoder, not to these scores.

    Returns:
        int8 (candidates,): position in REASONS.
    """
    rules = [*answers.reasons(pool.query, pool.document)]
    rules.append((Reason.OUTSIDE_WINDOW, (pool.rank > 0) & (pool.rank <= options.range_min)))
    rules += above(pool.score, lowest, options, by_judge=by_judge)
    if options.min_score is not None:
        rules.append((Reason.BELOW_MIN_SCORE, (pool.rank > 0) & (pool.score < options.min_score)))
    reasons, applies = zip(*rules, strict=True)
    return np.select(applies, [REASONS.index(reason) for reason in reasons], default=0).astype(np.int8)


def above(
    scores: Float[np.ndarray, "candidates"],
    lowest: Float[np.ndarray, "candidates"],
    options: MiningOptions,
    *,
    by_judge: bool,
) -> list[tuple[Reason, Bool[np.ndarray, "candidates"]]]:
    """Apply the score rules of `MiningOptions`.

    Args:
        scores: Of the first source.
        lowest: Score of the positive that each candidate is compared with.
        options: Margins and thresholds. None leaves a rule out.
        by_judge: max_score applies to the cross-encoder, not to these scores.

    Returns:
        Each reason with the candidates it drops.
    """
    rules = []
    if options.relative_margin is not None:
        # Below 0 a part of the score would be more than the score.
        rules.append((Reason.ABOVE_SHARE, scores > lowest - options.relative_margin * np.abs(lowest)))
    if options.absolute_margin is not None:
        rules.append((Reason.ABOVE_MARGIN, scores > lowest - options.absolute_margin))
    if options.max_score is not None and not by_judge:
        rules.append((Reason.ABOVE_THRESHOLD, scores >= options.max_score))
    return rules


def _numbered(texts: Sequence[str], numbers: defaultdict[str, int]) -> Int[np.ndarray, "texts"]:
    """Give equal numbers to texts that differ in spaces, punctuation, width and case only."""
    letters = chain.from_iterable(
        _letters(texts[start : start + TEXTS_AT_ONCE]) for start in range(0, len(texts), TEXTS_AT_ONCE)
    )
    return np.fromiter(map(numbers.__getitem__, letters), dtype=np.int64)


def _letters(texts: Sequence[str]) -> list[str]:
    """Return `letters_only(normalize(text))` of each text, computed for all at once."""
    together = _MARKS.sub("", fold_lines(NO_WIDTH.sub("", "\n".join(texts)))).split("\n")
    if len(together) != len(texts):  # a text has line breaks
        together = [""] * len(texts)
    return [letters or letters_only(normalize(text)) for letters, text in zip(together, texts, strict=True)]


def _keys(lists: Sequence[np.ndarray] | None, size: int) -> np.ndarray:
    """Encode each pair of a query and a document as one number, sorted."""
    if not lists:
        return np.empty(0, dtype=np.int64)
    owners = np.repeat(np.arange(len(lists)), [len(documents) for documents in lists])
    return np.sort(owners * size + np.concatenate(lists).astype(np.int64))


def _among(keys: np.ndarray, sorted_keys: np.ndarray) -> Bool[np.ndarray, "keys"]:
    if not len(sorted_keys):
        return np.zeros(len(keys), dtype=bool)
    return sorted_keys[np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)] == keys


def chosen(
    pool: Pool,
    codes: Codes,
    options: MiningOptions,
    *,
    staying: Bool[np.ndarray, "candidates"] | None = None,
) -> Bool[np.ndarray, "candidates"]:
    """Choose at most `options.num_negatives` candidates of each query. A masked candidate counts.

    Draws depend on the seed and the queries of the pool alone. Weights are exp(score / temperature) without
    replacement. The draw takes the largest values of score / temperature + Gumbel noise (Kool et al. 2019,
    https://arxiv.org/abs/1903.06059).

    Args:
        pool: Candidates of neighbouring queries, rising.
        codes: Reasons as positions in REASONS. 0 means usable.
        options: Options of the mining.
        staying: Hard candidates to prefer to all others. None: none.

    Returns:
        bool (candidates,): True for a chosen one.
    """
    if not len(pool.query):
        return np.zeros(0, dtype=bool)
    draw = np.random.default_rng([options.seed, int(pool.query[0]), 1])
    usable = codes == 0
    if options.false_negatives == "mask":
        usable |= np.isin(codes, SUSPECTED_CODES)
    wish = -pool.score.astype(np.float64)
    if options.temperature is not None:
        wish = wish / options.temperature - draw.gumbel(size=len(wish))
    if staying is not None:
        wish[staying] = -np.inf
    is_hard = pool.rank > 0
    wish = np.where(is_hard, wish, draw.random(len(wish)))
    queries = pool.query - pool.query[0]
    counts = [np.bincount(queries[usable & kind], minlength=queries[-1] + 1) for kind in (is_hard, ~is_hard)]
    hard, random = (_places(queries, wish, usable & kind) for kind in (is_hard, ~is_hard))
    num_hard = int(options.num_negatives * options.hard_share + 0.5)
    from_random = np.minimum(options.num_negatives - np.minimum(num_hard, counts[0]), counts[1])
    from_hard = options.num_negatives - from_random
    return (hard < from_hard[queries]) | (random < from_random[queries])


def _places(queries: np.ndarray, wish: np.ndarray, usable: np.ndarray) -> Int[np.ndarray, "candidates"]:
    """Rank usable candidates of each query by rising wish. Others get the largest integer."""
    positions = np.full(len(queries), np.iinfo(np.int64).max)
    rows = np.flatnonzero(usable)
    wishes = wish[rows]
    is_in_order = (np.diff(queries[rows]) > 0) | (wishes[1:] >= wishes[:-1])
    if not is_in_order.all():  # retrieved candidates are
        rows = rows[np.lexsort((rows, wishes, queries[rows]))]
    ordered = queries[rows]
    positions[rows] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    return positions


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
        score: The score.
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
        ranking: Queries and corpus.
        sources: Sources of candidates.
        known: Facts about queries and documents.
        options: Numbers of candidates and limits of scores.
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
        """Find candidates and the reasons to drop them (`refused`), without a judge.

        With `positive_reference=own` the reason is the one shared by all rows, see `by_row`.

        Args:
            queries: Numbers of neighbouring queries, rising.
            advance: Called with the number of finished queries.

        Returns:
            Candidates, their reasons, and the score of the positive of each query.
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
        """Repeat the candidates of each query for each of its positives, with the score of that positive.

        Args:
            pool: Candidates of the queries.
            queries: Numbers of neighbouring queries, rising.

        Returns:
            Pairs in the order of the positives.
        """
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
        """Repeat the candidates of a query for each of its rows.

        Args:
            pool: Candidates by query.
            codes: Their reasons.
            rows: Output of `rows`.

        Returns:
            Candidates whose `query` is the position of the row, and why each is dropped there.
        """
        index = rows.candidate
        by_row = replace(pool, **{field.name: getattr(pool, field.name)[index] for field in fields(pool)})
        codes = codes[index]
        is_open = (codes == 0) | np.isin(codes, BY_THRESHOLD)
        rules = above(by_row.score, rows.own, replace(self.options, max_score=None), by_judge=False)
        for reason, applies in reversed(rules):
            codes = np.where(is_open & applies, REASONS.index(reason), codes).astype(np.int8)
        return replace(by_row, query=rows.row), codes

    def shard(self, queries: Int[np.ndarray, "queries"], advance: Advance) -> pa.Table:
        """Mine neighbouring queries.

        Args:
            queries: Numbers of neighbouring queries, rising.
            advance: Called with the number of finished queries.

        Returns:
            A row for each candidate. Columns: see `MiningResult`.
        """
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
    """Check that a file holds the complete candidates of some queries.

    Args:
        path: The file.
        queries: Numbers of the queries.
        num_documents: Size of the corpus.
        positive_reference: That of the options.

    Raises:
        UserError: Other contents, or a damaged file.
    """
    try:
        table = pq.read_table(require_file(path))
        counts = json.loads((table.schema.metadata or {})[COUNTS])
        named = {*COLUMNS, *(("chosen_for", "masked_for") if positive_reference == OWN else ())}
        is_known = bool({*table.column_names} == named and len(table))
        require_form(counts, Counts, "its counts")
        is_known = is_known and bool(np.isin(table["query"].to_numpy(), queries).all())
        is_known = is_known and sum(counts["reasons"].values()) == len(table)
        is_known = is_known and bool(np.isfinite(table["score"].to_numpy()).all())
        if not is_known or not np.isin(table["document"].to_numpy(), np.arange(num_documents)).all():
            raise ValueError("other columns, queries, documents or scores")
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
