"""Hard negatives, mined in shards of queries, and the files of the result: all candidates with reasons, a training set.

A killed run continues with the finished shards.
"""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float

from juzhen.core.aliases import accept_renamed
from juzhen.core.atomic_write import atomic_write, remove_folder, write_json
from juzhen.core.columns import as_list_of, as_numbers
from juzhen.core.errors import UserError, require_number
from juzhen.core.examples import Examples, Kind, negative_columns
from juzhen.core.file_guard import claim_dir, require_writable
from juzhen.core.progress import progress_bar
from juzhen.core.result import RESULT_FILE
from juzhen.core.safe_open import read_shaped
from juzhen.core.text import counted, percent
from juzhen.core.text_warnings import reported
from juzhen.data.leaks.matching import used_sentences
from juzhen.data.rankings import RankingSet
from juzhen.data.spec import DatasetConfig, made_from
from juzhen.encoders.asymmetric import AsymmetricEncoder
from juzhen.encoders.embedding_cache import SEGMENT, EmbeddingCache, encoder_digest, unchanged_weights
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.thresholds import require_reachable
from juzhen.encoders.tokens import BATCH_TOKENS
from juzhen.mining import IDENTITY, OWN, MiningOptions
from juzhen.mining.candidates import AsymmetricRetriever, BM25Retriever, DenseRetriever, Retriever
from juzhen.mining.filters import (
    COUNTS,
    REASONS,
    SUSPECTED,
    WRITING,
    Judge,
    Known,
    Miner,
    Reason,
    require_shard,
)
from juzhen.mining.sets import write_description


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Format the report of a mining run, one line per topic.

    Args:
        report: Output of `MiningResult.report`.

    Returns:
        Lines without a full stop.
    """
    sentences = [
        "candidates: " + ", ".join(f"{count:,} {reason}" for reason, count in report["reasons"].items())
    ]
    sentences += [*filter(None, [fewer_line(report)])]
    sentences += [
        f"recall of the index of {name}: {100 * value:.2f} %"
        for name, value in report["index_recall"].items()
    ]
    sentences += [
        f"{name} reads queries behind {query!r} and documents behind {document!r}"
        for name, (query, document) in report.get("prompts", {}).items()
    ]
    if (fitted := report.get("threshold")) is not None:
        sentences.append(
            f"threshold {fitted['value']:.4f}, fitted on {counted(fitted['positives'], 'pairs')} with label 1, of "
            f"which {100 * fitted['kept_positives']:.1f} % lie below, and {fitted['negatives']:,} with label 0, of "
            f"which {100 * fitted['refused_negatives']:.1f} % do not"
        )
    before, after = report["known_before"], report["known_after"]
    wrong, wrong_after = report["false_negatives_before"], report["false_negatives_after"]
    if not before:
        return [*sentences, "false negatives: no candidate of a query with two positives has a known label"]
    right = before - wrong
    rules = {"all rules": [wrong, wrong_after, right, right - (after - wrong_after)]}
    if len(report["rules"]) < 2:
        rules = {}
    rules = report["rules"] | rules or {"no rule": [wrong, wrong_after, right, 0]}
    sentences += [
        f"where labels are known, {name}: {share_of(through, answers)} answers kept by mistake, "
        f"{share_of(refused, negatives)} true negatives refused"
        for name, (answers, through, negatives, refused) in rules.items()
    ]
    rate = f"{100 * wrong_after / after:.1f} % ({wrong_after:,} of {after:,})" if after else "none is kept"
    return [
        *sentences,
        f"false negatives among candidates whose label is known: {100 * wrong / before:.1f} % ({wrong:,} of "
        f"{before:,}) before these rules, {rate} after",
    ]


def fewer_line(report: Mapping[str, Any]) -> str:
    """Count rows with fewer negatives than requested and positives without a row.

    Args:
        report: Output of `MiningResult.report`.

    Returns:
        A sentence with the commonest reason. "" if all rows are full.
    """
    rows, reasons = report["rows"], report["reasons"]
    parts = []
    if rows["fewer"]:
        have = counted(rows["fewer"], "rows have", "row has")
        parts.append(f"{have} fewer than {counted(rows['negatives'], 'negatives')}")
    if rows["none"]:
        parts.append(f"{counted(rows['none'], 'positives have', 'positive has')} none and no row")
    if not parts:
        return ""
    why, count = max(
        ((name, count) for name, count in reasons.items() if name != "kept"),
        key=lambda reason: reason[1],
        default=("", 0),
    )
    why = f"most candidates are refused as {why} ({count:,})" if why else "there are no more candidates"
    return f"{', '.join(parts)}: {why}; a larger range_max or milder rules leave more"


def share_of(part: int, total: int) -> str:
    """Format a part and its share, such as 967 of 1,086 (89.0 %).

    Args:
        part: At most `total`.
        total: 0 gives no share.

    Returns:
        Text with thousands separators.
    """
    return f"{part:,} of {total:,}" + (f" ({percent(part, total)})" if total else "")


METADATA = b"juzhen"


class MiningReport(dict[str, Any]):
    """Counts of `MiningResult.report`. `str` and `print` format them as sentences."""

    def __str__(self) -> str:
        return "\n".join(report_lines(self))


class NoNegativesError(UserError):
    """No query has a negative by the rules of a mining."""


@dataclass(frozen=True)
class MiningResult:
    """A finished mining run.

    Columns of the candidates, one row each: `query`, `document` (numbers in the ranking), `query_text`,
    `document_text`, `source`, `rank` (best rank of any source, from 1, or null for random ones), `score`,
    `positive_score` (lowest of the query's positives), `judge_score`, `label` (1 answers, 0 does not, null
    unknown), `reason`, `kept` (usable), `chosen` (is a negative), `masked` (replaced by the positive). With
    `positive_reference=own` also `chosen_for` and `masked_for`: the positives of these rows.

    Args:
        ranking: Queries and corpus.
        options: Options of the run.
        shards: Files of candidates, in query order.
        identity: Settings that decide them: options, seed, digests of weights, texts and labels.
        measured: Further measurements: fitted threshold, recall of indexes.
    """

    ranking: RankingSet
    options: MiningOptions
    shards: list[Path]
    identity: Mapping[str, Any]
    measured: Mapping[str, Any]

    def report(self) -> MiningReport:
        """Count candidates by reason, and the rate of false negatives among known labels.

        Keys:
            known_before, known_after: Candidates in the window with a known label, of queries with two
                positives or more: all, and those kept by rules that know no label. With
                `positive_reference=own`, counted in each row except its own.
            false_negatives_before, false_negatives_after: How many of them answer the query.
            rules: Reason → [answers, answers that this rule alone keeps, others, others that it drops]. The
                cross-encoder is counted on candidates that other rules keep.
            left: Rows with enough negatives (`rows`), the same without max_score (`rows_without`), candidates
                that no other rule drops (`candidates`), and how many max_score drops (`refused`).
            rows: Pairs of a query and a positive by their number of negatives: `enough`, `fewer` than
                requested, `none`.

        Returns:
            Counts by key.
        """
        counts = [json.loads(pq.read_schema(path).metadata[COUNTS]) for path in self.shards]
        reasons, usable = Counter[str](), Counter[str]()
        for shard in counts:
            reasons.update(shard["reasons"])
            usable.update(shard["left"])
        names = ("known_before", "false_negatives_before", "known_after", "false_negatives_after")
        counted = {
            "reasons": dict(sorted(reasons.items())),
            **dict(zip(names, _sums(shard["known"] for shard in counts), strict=True)),
            "rules": {
                reason: _sums(shard["rules"][reason] for shard in counts)
                for reason in REASONS
                if reason in counts[0]["rules"]
            },
            "left": dict(usable),
            "rows": self._sizes | {"negatives": self.options.num_negatives},
            **self.measured,
        }
        return MiningReport(counted)

    def rows(self) -> Iterator[list[str]]:
        """Yield anchor, positive and at most `options.num_negatives` negatives.

        A query has a row for each of its positives, relabelled ones last. With `positive_reference=own` it has a row
        for each positive with negatives. Pairs without a negative have no row.

        Yields:
            Texts of one row.
        """
        for query, *documents in self._rows():
            yield [self.ranking.queries[query], *(self.ranking.corpus[number] for number in documents)]

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """Count pairs of a query and its positive by their negatives, see `report`."""
        sizes, num_found = Counter[str](), 0
        for query, positive, *documents in self._rows():
            sizes["enough" if len(documents) == self.options.num_negatives else "fewer"] += 1
            num_found += positive in self.ranking.relevant[query]
        sizes["none"] = sum(map(len, self.ranking.relevant)) - num_found
        return {name: sizes[name] for name in ("enough", "fewer", "none")}

    def _rows(self) -> Iterator[list[int]]:
        """Return the rows as numbers: a query, and documents with the positive first."""
        is_per_row = self.options.positive_reference == OWN
        chosen, masked = ("chosen_for", "masked_for") if is_per_row else ("chosen", "masked")
        for path in self.shards:
            relabels = self.options.false_negatives == "relabel"
            columns = ["query", "document", chosen, masked, *(["reason"] if relabels else [])]
            table = pq.read_table(path, columns=columns)
            if not is_per_row and not relabels:  # most candidates are neither
                table = table.filter(pc.or_(table[chosen], table[masked]))
            # Query and positive, None: all of its positives → documents, None: the positive itself.
            negatives: dict[tuple[int, int | None], list[int | None]] = {}
            relabelled: dict[int, list[int]] = {}
            reasons = table["reason"].to_pylist() if relabels else repeat(None)
            values = (table[name].to_pylist() for name in columns[:4])
            for query, document, is_chosen, is_masked, reason in zip(*values, reasons, strict=False):
                for negative, positives in ((document, is_chosen), (None, is_masked)):
                    for key in positives if is_per_row else [None] if positives else []:
                        negatives.setdefault((query, key), []).append(negative)
                if reason in SUSPECTED:
                    relabelled.setdefault(query, []).append(document)
            for query in dict.fromkeys(query for query, _ in negatives):
                for positive in [*self.ranking.relevant[query], *relabelled.get(query, [])]:
                    documents = negatives.get((query, positive if is_per_row else None), [])
                    if documents:
                        filled = (positive if number is None else number for number in documents)
                        yield [query, positive, *filled]

    def write(self, path: str | Path, *, like: DatasetConfig) -> tuple[Path, int]:
        """Write the training table, its configuration, and all candidates as <name>.parquet.

        Args:
            path: The table (.tsv). Cells are empty if a row has fewer negatives.
            like: Configuration of the mined set.

        Returns:
            Path of the configuration, and the number of rows.

        Raises:
            NoNegativesError: No query has a negative. The candidates are written all the same.
        """
        names = ["anchor", "positive", *negative_columns(self.options.num_negatives)]
        count, path = 0, Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write_candidates(path.with_suffix(".parquet"))
        with atomic_write(path) as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(names)
            for row in self.rows():
                writer.writerow(row + [""] * (len(names) - len(row)))
                count += 1
            if not count:
                raise NoNegativesError(self._nothing(path))
        source = f"{self.ranking.name}/{self.ranking.split}"
        most = "up to " * bool(self._sizes["fewer"])
        yaml = write_description(
            path,
            Kind.TRIPLET,
            dict(zip(names, names, strict=True)),
            like=like,
            about=f"{most}{self.options.num_negatives} mined negatives for the positives of {source}",
            origin=made_from("mine", source, like.origin),
            rows=count,
            symmetric=self.ranking.symmetric,
        )
        return yaml, count

    def _nothing(self, path: Path) -> str:
        refused = {name: count for name, count in self.report()["reasons"].items() if name != Reason.KEPT}
        reason = max(refused, key=lambda name: refused[name])
        is_fitted = "threshold" in self.measured
        fitted = ", or pairs of the same kind and field to calibrate on" if is_fitted else ""
        return (
            f"{path}: no query has a negative, so there is no set to write; most candidates "
            f"are refused as {reason} ({refused[reason]:,}), see {path.with_suffix('.parquet')}. Ask for a "
            f"larger range_max or milder rules{fitted}"
        )

    def write_candidates(self, path: str | Path) -> None:
        """Write all candidates as one file. Its metadata hold the identity and the report.

        Args:
            path: A parquet file. An existing one is replaced.
        """
        metadata = json.dumps({**self.identity, "report": self.report()}, ensure_ascii=False, sort_keys=True)
        schema = pq.read_schema(self.shards[0]).with_metadata({METADATA: metadata})
        with atomic_write(path, "wb") as file, pq.ParquetWriter(file, schema, **WRITING) as writer:
            for shard in self.shards:
                table = pq.read_table(shard).replace_schema_metadata(schema.metadata)
                writer.write_table(table, row_group_size=max(table.num_rows, 1))


def _sums(lists: Iterable[list[int]]) -> list[int]:
    return [sum(column) for column in zip(*lists, strict=True)]


BM25 = "bm25"

SHARD_QUERIES = 2048
"""Queries that are mined before their candidates are written."""

FALSE_NEGATIVE_RATE = 0.05
"""Default of `mine`."""

UNDECIDED = 0.0
"""Logit from which on a judge says that a candidate answers, where no threshold is given or fitted."""


@dataclass(frozen=True)
class FittedThreshold:
    """Effect of a threshold on the pairs it was fitted on.

    Args:
        value: Candidates scoring this much or more are dropped.
        positives, negatives: Number of pairs with label 1 and label 0.
        kept_positives: Share of label 1 below it: false negatives that would be kept.
        refused_negatives: Share of label 0 at or above it: negatives that would be lost.
    """

    value: float
    positives: int
    negatives: int
    kept_positives: float
    refused_negatives: float


def fit_false_negatives(
    scores: Float[np.ndarray, "pairs"], labels: Float[np.ndarray, "pairs"], *, rate: float
) -> FittedThreshold:
    """Fit the highest threshold that keeps at most the share `rate` of pairs with label 1 below it.

    Args:
        scores: Score of each pair, higher is closer.
        labels: 1 for equal meaning, 0 for another one.
        rate: Share of the pairs with label 1 that may be kept as negatives by mistake, from 0 to below 1.

    Returns:
        The threshold, and its shares of both labels.

    Raises:
        UserError: A rate outside [0, 1), or a missing label.
    """
    require_number("false_negative_rate", rate, 0, 1, open_high=True)
    scores, labels = as_numbers(scores=scores, labels=labels)
    answers, negatives = np.sort(scores[labels == 1]), scores[labels == 0]
    if not len(answers) or not len(negatives):
        raise UserError(
            "a threshold is fitted on pairs with label 1 and with label 0, and one of them is missing. Choose "
            "another set"
        )
    value = answers[int(rate * len(answers))]
    return FittedThreshold(
        float(value),
        len(answers),
        len(negatives),
        float(np.mean(answers < value)),
        float(np.mean(negatives >= value)),
    )


@accept_renamed({"judge": "cross_encoder", "evaluation": "exclude_from"})
@reported()
@unchanged_weights()
@takes_peer_options
def mine(
    ranking: RankingSet,
    sources: Sequence[SentenceEncoder | AsymmetricEncoder | str],
    options: MiningOptions | None = None,
    *,
    folder: str | Path,
    cross_encoder: PairEncoder | None = None,
    exclude_from: Sequence[Examples] = (),
    calibrate_on: Examples | None = None,
    false_negative_rate: float = FALSE_NEGATIVE_RATE,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    cache: EmbeddingCache | None = None,
    progress: bool | None = None,
) -> MiningResult:
    """Mine hard negatives for the queries of a ranking.

    It takes (queries + documents) × dim × 4 bytes of memory, plus less than 1 GiB. The same arguments give the same
    files, byte for byte.

    Args:
        ranking: Queries, documents and the relevant documents of each query.
        sources: Encoders, and "bm25". Each finds candidates, the first scores all of them.
        options: Rules and numbers, see `MiningOptions`.
        folder: New folder, or the folder of the same killed run. It holds shards, and embeddings without
            `cache`.
        cross_encoder: Scores every candidate that cheaper rules keep. Candidates with a logit of
            `options.max_score` or more are dropped. Default: 0.
        exclude_from: Sets whose sentences must not become negatives.
        calibrate_on: Labelled pairs from which `max_score` is computed. `options` must then have none.
        false_negative_rate: Largest share of these pairs with label 1 that may score below `max_score`. The highest
            such score is taken.
        query_prompt: Name of the encoders' prompt for queries. Default: their prompt for queries of such a ranking
            (`RankingSet.symmetric`), else their default prompt.
        document_prompt: The same for documents.
        batch_tokens: Tokens in a batch of an encoder.
        cache: Keeps the embeddings of texts. Default: in `folder`.
        progress: Show progress bars. None: on a terminal.

    Returns:
        The result, with a report, which `MiningResult.write` turns into a data set.

    Raises:
        UserError: range_max beyond the corpus, the folder of another run, or options that exclude each other.

    Example:
        >>> from juzhen import MiningOptions, SentenceEncoder, mine
        >>> from juzhen.data.rankings import RankingSet
        >>> corpus = ["东西想退掉", "什么时候能寄出", "运费由谁付", "怎么退款", "多久到货"]
        >>> ranking = RankingSet("faq", "train", ["怎么退货", "几天发货"], corpus, relevant=[{0: 1.0}, {1: 1.0}])
        >>> options = MiningOptions(num_negatives=1, range_max=4, relative_margin=None)
        >>> mined = mine(ranking, [SentenceEncoder.load("builtin/mini_zh")], options, folder="mined")
        >>> [row[2] for row in mined.rows()]
        ['怎么退款', '多久到货']
    """
    require_number("false_negative_rate", false_negative_rate, 0, 1, open_high=True)
    if calibrate_on is None and false_negative_rate != FALSE_NEGATIVE_RATE:
        raise UserError(
            f"false_negative_rate={false_negative_rate:g}: is read with calibrate_on. Give both, or leave it out"
        )
    folder, options = Path(folder), options or MiningOptions()
    kinds = (str, SentenceEncoder, AsymmetricEncoder)
    sources = as_list_of(sources, "sources", *kinds, way="Give loaded encoders, or 'bm25'")
    evaluation = as_list_of(
        exclude_from, "exclude_from", Examples, way="Read rows with juzhen.data.rows.as_examples"
    )
    ranking = ranking.some([row for row, gains in enumerate(ranking.relevant) if gains])  # others have no row
    _check(ranking, sources, options, calibrate_on, is_judged=cross_encoder is not None)
    if cache is not None and not any(isinstance(source, SentenceEncoder) for source in sources):
        raise UserError("cache: stores vectors of texts, and no source computes any. Leave it out")
    if (prompt := query_prompt or document_prompt) and {*map(type, sources)} == {str}:
        name = "query_prompt" if query_prompt else "document_prompt"
        raise UserError(f"{name}={prompt}: is for encoders, and {BM25} is none. Leave it out")
    cache, judge = cache or EmbeddingCache(folder), cross_encoder
    options_of_encoders: dict[str, Any] = {
        "index": options.index,
        "query_prompt": query_prompt,
        "document_prompt": document_prompt,
        "batch_tokens": batch_tokens,
        "cache": cache,
        "progress": progress,
    }
    retrievers = [
        _source(source, ranking, number, options_of_encoders)
        for number, source in enumerate(sources, start=1)
    ]
    if len({retriever.digest for retriever in retrievers}) < len(retrievers):
        raise UserError(
            "sources: two of them have the same weights and would find the same candidates. Name each once"
        )
    if (folder / RESULT_FILE).is_file():  # it is marked as ours, and the shards would be part of the run
        raise UserError(f"{folder}: the folder of a run. Choose a new folder, such as {folder}-mined")
    require_writable(folder)
    claim_dir(folder)
    if judge is not None:
        judge.require_order(ranking.column, None, ranking.symmetric)
    judged = None if judge is None else _judge(judge, batch_tokens)
    measured: dict[str, Any] = {}
    if calibrate_on is not None:
        first, rate, symmetric = sources[0], false_negative_rate, ranking.symmetric
        fitted = _fitted(calibrate_on, judged, first, options_of_encoders, rate=rate, symmetric=symmetric)
        options, measured["threshold"] = replace(options, max_score=fitted.value), asdict(fitted)
    elif judge is not None and options.max_score is None:
        options = replace(options, max_score=UNDECIDED)
    identity = {
        "set": ranking.column,
        "data": ranking_digest(ranking),
        "sources": {retriever.name: retriever.digest for retriever in retrievers},
        "judge": None if judge is None else encoder_digest(judge.inner, _digest(judge.facts)),
        "evaluation": _digest(sorted({text for examples in evaluation for text in used_sentences(examples)})),
        "options": asdict(options),
    }
    embedding = [retriever for retriever in retrievers if isinstance(retriever, DenseRetriever)]
    if prompts := {retriever.name: retriever.prompts for retriever in embedding if any(retriever.prompts)}:
        measured["prompts"] = prompts
    _claim(folder, identity)
    miner = Miner(ranking, retrievers, Known(ranking, evaluation), options, judged)
    shards = _mined(miner, folder, progress)
    measured["index_recall"] = {
        retriever.name: retriever.recall(options.range_max, seed=options.seed)
        for retriever in retrievers
        if isinstance(retriever, DenseRetriever) and retriever.indexed
    }
    return MiningResult(ranking, options, shards, identity, measured)


def _mined(miner: Miner, folder: Path, progress: bool | None) -> list[Path]:
    """Return the files of all shards. Finished shards are kept."""
    number, paths = len(miner.ranking.queries), []
    with progress_bar("mining", number * len(miner.sources), shown=progress) as advance:
        for start in range(0, number, SHARD_QUERIES):
            queries = np.arange(start, min(start + SHARD_QUERIES, number))
            path = folder / f"{start // SHARD_QUERIES:06}.parquet"
            if path.exists():
                require_shard(
                    path,
                    queries,
                    num_documents=len(miner.ranking.corpus),
                    positive_reference=miner.options.positive_reference,
                )
                advance(len(queries) * len(miner.sources))
            else:
                table = miner.shard(queries, advance)
                with atomic_write(path, "wb", in_own_folder=True) as file:
                    pq.write_table(table, file, **WRITING)
            paths.append(path)
    return paths


def clear_shards(folder: Path) -> None:
    """Remove the files of `mine` from its folder.

    Args:
        folder: Other files in it stay.
    """
    remove_folder(folder, rf"mining\.json|\d{{6}}\.parquet|embeddings/[0-9a-f]+/{SEGMENT}")


def _check(
    ranking: RankingSet,
    sources: Sequence[SentenceEncoder | AsymmetricEncoder | str],
    options: MiningOptions,
    calibrate_on: Examples | None,
    *,
    is_judged: bool,
) -> None:
    require_number("range_max", options.range_max, 1, len(ranking.corpus))
    names = [source for source in sources if isinstance(source, str)]
    if names not in ([], [BM25]) or not sources:
        raise UserError(
            f"sources: {', '.join(names) or 'none'}: expected loaded encoders, {BM25} once, or both"
        )
    if options.index != "exact" and len(names) == len(sources):
        raise UserError(f"index={options.index}: is for embeddings, and {BM25} has none. Add an encoder")
    for name, widest in (("absolute_margin", 2.0), ("min_score", 1.0), ("max_score", 1.0)):
        value, by_judge = getattr(options, name), is_judged and name == "max_score"
        if value is not None and not by_judge:
            require_reachable(name, value, sources[0], widest)
    if calibrate_on is None:
        return
    if options.max_score is not None:
        raise UserError(
            "max_score and calibrate_on: the one is given, the other fits it. Leave out one of them"
        )
    if calibrate_on.kind is not Kind.LABELLED_PAIR:
        raise UserError(
            f"calibrate_on={calibrate_on.name}: has rows of kind {calibrate_on.kind}. Expected labelled_pair"
        )
    if isinstance(sources[0], str) and not is_judged:
        raise UserError(
            f"calibrate_on: scores of {BM25} depend on the corpus. Name an encoder first, or a cross_encoder"
        )


def _source(
    source: SentenceEncoder | AsymmetricEncoder | str,
    ranking: RankingSet,
    number: int,
    settings: dict[str, Any],
) -> Retriever:
    if isinstance(source, str):
        return BM25Retriever(ranking)
    name = "encoder" if number == 1 else f"encoder_{number}"
    if isinstance(source, AsymmetricEncoder):
        return AsymmetricRetriever(source, ranking, name=name, **settings)
    return DenseRetriever(source, ranking, name=name, **settings)


def _judge(encoder: PairEncoder, batch_tokens: int) -> Judge:
    def score(first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        return encoder.score(
            list(zip(first, second, strict=True)), batch_tokens=batch_tokens, show_progress=False
        )

    return score


def _fitted(
    pairs: Examples,
    judge: Judge | None,
    scorer: SentenceEncoder | str,
    settings: dict[str, Any],
    *,
    rate: float,
    symmetric: bool | None,
) -> FittedThreshold:
    first, second = (pairs.texts(column) for column in ("text_a", "text_b"))
    assert pairs.targets is not None  # labelled pairs have labels
    if judge is not None:
        return fit_false_negatives(judge(first, second), pairs.targets, rate=rate)
    rows = np.arange(len(pairs))
    relevant = [{row: 1.0} for row in rows.tolist()]
    ranking = RankingSet(pairs.name, pairs.split, first, second, relevant, symmetric=symmetric)
    kind: Any = AsymmetricRetriever if isinstance(scorer, AsymmetricEncoder) else DenseRetriever
    scores = kind(scorer, ranking, **settings | {"index": "exact"}).score(rows, rows)
    return fit_false_negatives(scores, pairs.targets, rate=rate)


def _claim(folder: Path, identity: dict[str, Any]) -> None:
    """Record the settings of a run in its folder. Raises UserError if the folder holds shards of another run."""
    path = folder / IDENTITY
    claim_dir(folder)
    if not path.exists():
        write_json(path, identity, in_own_folder=True)
    before = read_shaped(path, dict[str, Any], f"Delete {folder}, and mine again")
    if differs := [name for name, value in identity.items() if before.get(name) != value]:
        raise UserError(
            f"{folder}: holds shards of a mining with other {', '.join(differs)}. Give these as before, or "
            "delete the folder"
        )


def ranking_digest(ranking: RankingSet) -> str:
    """Compute a digest of queries, documents and judgements.

    Args:
        ranking: The set.

    Returns:
        32 hex digits.
    """
    sizes = [str(len(ranking.queries)), str(len(ranking.corpus))]
    answers = [str(sorted(gains.items())) for gains in ranking.relevant]
    irrelevant = [str(documents.tolist()) for documents in ranking.irrelevant or ()]
    return _digest([*sizes, *ranking.queries, *ranking.corpus, *answers, *irrelevant])


def _digest(texts: Sequence[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for start in range(0, len(texts), SHARD_QUERIES):
        together = "".join([f"{len(text)} {text}" for text in texts[start : start + SHARD_QUERIES]])
        digest.update(together.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
