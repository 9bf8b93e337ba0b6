"""Hard negatives, mined in shards of queries. A killed run continues with the finished shards."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from jaxtyping import Float

from juzhen.core.aliases import accept_renamed
from juzhen.core.atomic_write import atomic_write, remove_folder, write_json
from juzhen.core.columns import as_column, as_numbers
from juzhen.core.errors import UserError, require_number
from juzhen.core.examples import Examples, Kind
from juzhen.core.file_guard import claim_dir
from juzhen.core.progress import progress_bar
from juzhen.core.safe_open import read_shaped
from juzhen.core.text_warnings import reported
from juzhen.data.leaks.matching import used_sentences
from juzhen.data.rankings import RankingSet
from juzhen.encoders.asymmetric import AsymmetricEncoder
from juzhen.encoders.embedding_cache import SEGMENT, EmbeddingCache, encoder_digest, unchanged_weights
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.thresholds import require_reachable
from juzhen.encoders.tokens import BATCH_TOKENS
from juzhen.mining.candidates import AsymmetricRetriever, BM25Retriever, DenseRetriever, Retriever
from juzhen.mining.filters import WRITING, Judge, Known, Miner, require_shard
from juzhen.mining.options import IDENTITY, MiningOptions
from juzhen.mining.result import MiningResult

BM25 = "bm25"

SHARD_QUERIES = 2048
"""Queries that are mined before their candidates are written."""

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
def mine(
    ranking: RankingSet,
    sources: Sequence[SentenceEncoder | AsymmetricEncoder | str],
    options: MiningOptions | None = None,
    *,
    folder: str | Path,
    cross_encoder: PairEncoder | None = None,
    exclude_from: Sequence[Examples] = (),
    calibrate_on: Examples | None = None,
    false_negative_rate: float = 0.05,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    cache: EmbeddingCache | None = None,
    progress: bool | None = None,
) -> MiningResult:
    """Mine hard negatives for the queries of a ranking.

    It takes queries + documents × dim × 4 bytes, plus less than 1 GiB. Equal arguments give equal bytes.

    Args:
        ranking: Queries, documents and the relevant documents of each query.
        sources: Encoders, and "bm25". Each finds candidates, the first scores all of them.
        options: Rules and numbers, see `MiningOptions`.
        folder: New folder, or the folder of the same killed run. It holds shards, and embeddings without
            `cache`.
        cross_encoder: Scores every candidate that cheaper rules keep. Candidates with a logit of
            `options.max_score` or more are dropped. Default: 0.
        exclude_from: Sets whose sentences must not become negatives.
        calibrate_on: Labelled pairs that fit `max_score` instead.
        false_negative_rate: Largest share of their pairs with label 1 below the threshold, which is the highest
            possible.
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
    """
    require_number("false_negative_rate", false_negative_rate, 0, 1, open_high=True)
    folder, options = Path(folder), options or MiningOptions()
    sources, evaluation = as_column(sources, "sources"), as_column(exclude_from, "exclude_from")
    ranking = ranking.some([row for row, gains in enumerate(ranking.relevant) if gains])  # others have no row
    _check(ranking, sources, options, calibrate_on, is_judged=cross_encoder is not None)
    if cache is not None and not any(isinstance(source, SentenceEncoder) for source in sources):
        raise UserError("cache: stores vectors of texts, and no source computes any. Leave it out")
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
    """Remove the files of `mine` from its folder."""
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
    """Digest of queries, documents and judgements, 32 hex digits."""
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
