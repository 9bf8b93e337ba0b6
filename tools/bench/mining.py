"""Hard negatives beside mine_hard_negatives of sentence-transformers: the same weights, texts and rules."""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import juzhen
from juzhen.core.places import BUILTIN
from juzhen.core.whole import write_json
from juzhen.data.rankings import RankingSet
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.encoders.pooling import unit
from juzhen.mining.options import MiningOptions
from tools.bench.child import in_child
from tools.bench.device import held_mib
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare
from tools.bench.work import has_real_data

ENCODER = BUILTIN / "mini_zh"
OURS, THEIRS = "ours", "theirs"
DEPTH, NEGATIVES, SHARE = 100, 5, 0.95
RULES: dict[str, Any] = {"depth": DEPTH, "negatives": NEGATIVES, "share": SHARE, "hard_share": 1.0}
SAMPLE = 2000
"""Texts by which the speed of encoding is told."""
UNSHARED = ("near_copy", "positive_cluster")
"""Reasons that the other side does not know."""

NOTES = [
    f"a query has one positive and gets the {NEGATIVES} nearest of the first {DEPTH} that score below {SHARE} of it",
    "cpu_seconds: processor time from texts and embeddings on disk to rows. Encoding is the same work for both and "
    "has a benchmark of its own. Ours also finds near copies and paraphrase clusters, and writes all candidates",
    "ratio: processor time of theirs / of this one, each turn a process of its own; median over rounds, lowest, "
    "highest",
    "peak_mib: of that process. before_mib: what it held before it mined: libraries, texts, the encoder",
    f"same_share: queries with the same {NEGATIVES} negatives on both sides, of those in which no near copy or "
    "paraphrase cluster was refused, which theirs does not look for",
    "encoding_texts_per_second: of ours, processor time, on texts of the corpus",
]


def measure(*, documents: Sequence[int], queries: int, rounds: int, cache: str) -> dict[str, Any]:
    """Rows, checks and notes of a Report; `cache`: folder where embeddings stay for the next time, or nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        work = write_work(folder, max(documents), queries)
        kept = Path(cache) if cache else folder
        speed = encode(work, folder, kept)
        sizes = dict.fromkeys(min(count, len(work["corpus"])) for count in documents)
        rows = [row for count in sizes for row in one_size(folder, kept, count, rounds)]
    return {"rows": rows, "checks": {"encoding_texts_per_second": speed}, "notes": NOTES}


def write_work(folder: Path, documents: int, queries: int) -> dict[str, Any]:
    """Questions with a duplicate each, and a corpus that begins with the duplicates: of lcqmc, else the demo set."""
    name = "lcqmc_retrieval" if has_real_data() else "demo_retrieval"
    ranking = juzhen.load_ranking(name, "train", data_dir=os.environ.get("JUZHEN_DATA", "data"))
    assert ranking.own is not None  # as_ranking fills it in
    own = ranking.own
    drawn = np.random.default_rng(0).permutation(len(ranking.queries))
    pairs: dict[int, int] = {}
    used: set[int] = set()
    for query in drawn.tolist():
        answer = min(ranking.relevant[query])
        if len(pairs) < queries and not used & {answer, int(own[query])}:
            pairs[query] = answer
            used |= {answer, int(own[query])}
    hidden = {int(own[query]) for query in pairs}
    first = dict.fromkeys(pairs.values())
    others = (one for one in range(len(ranking.corpus)) if one not in first and one not in hidden)
    order = [*first, *others][:documents]
    work = {
        "queries": [ranking.queries[query] for query in pairs],
        "corpus": [ranking.corpus[one] for one in order],
    }
    write_json(folder / "work.json", work)
    return work


def encode(work: Mapping[str, list[str]], folder: Path, cache: Path) -> float:
    """Embeds all texts, as both sides read them; gives texts per second of processor time."""
    encoder = juzhen.SentenceEncoder.load(ENCODER)
    started, sample = time.process_time(), work["corpus"][:SAMPLE]
    encoder.encode(sample, progress=False)
    speed = len(sample) / (time.process_time() - started)
    texts = [*work["queries"], *work["corpus"]]
    np.save(folder / "vectors.npy", unit(encoder.encode(texts, progress=False, cache=EmbeddingCache(cache))))
    return speed


def one_size(folder: Path, cache: Path, count: int, rounds: int) -> list[dict[str, Value]]:
    """One row per side for the first `count` documents."""
    given = {"folder": str(folder), "cache": str(cache), "count": count}

    def turn(side: str, number: int) -> dict[str, float]:
        return in_child(f"tools.bench.mining:mine_{side}_here", **given)

    found = alternate({side: partial(turn, side) for side in (OURS, THEIRS)}, rounds=rounds)
    seconds = {side: [one["cpu_seconds"] for one in turns] for side, turns in found.items()}
    same = same_share(folder)
    return [
        {
            "side": side,
            "documents": count,
            "cpu_seconds": statistics.median(seconds[side]),
            **compare(seconds[THEIRS], seconds[side]).columns(),
            "peak_mib": statistics.median(one["peak_mib"] for one in turns),
            "before_mib": statistics.median(one["before_mib"] for one in turns),
            "same_share": same,
        }
        for side, turns in found.items()
    ]


def same_share(folder: Path) -> float:
    """Of the queries that both sides gave negatives, and ours refused nothing by a rule that theirs lacks."""
    ours, theirs = (json.loads((folder / f"{side}.json").read_text()) for side in (OURS, THEIRS))
    apart = set(ours.pop("apart"))
    shared = [query for query in ours if query in theirs and query not in apart]
    return statistics.fmean(sorted(ours[query]) == sorted(theirs[query]) for query in shared)


def mine_ours_here(*, folder: str, cache: str, count: int) -> dict[str, float]:
    """Mines in this process; the caller reads its peak memory."""
    queries, corpus = texts_of(folder, count)
    answers = [{number: 1.0} for number in range(len(queries))]
    ranking = RankingSet("bench", "train", queries, corpus, answers)
    encoder, options, mine = juzhen.SentenceEncoder.load(ENCODER), MiningOptions(**RULES), juzhen.mine

    def work() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as place:
            mined = mine(
                ranking, [encoder], options, folder=place, cache=EmbeddingCache(cache), progress=False
            )
            found: dict[str, Any] = {anchor: negatives for anchor, _, *negatives in mined.rows()}
            kinds = [
                pq.read_table(path, columns=["query_text", "reason"]).to_pylist() for path in mined.portions
            ]
        return found | {
            "apart": [row["query_text"] for part in kinds for row in part if row["reason"] in UNSHARED]
        }

    return timed(work, Path(folder) / f"{OURS}.json")


def mine_theirs_here(*, folder: str, cache: str, count: int) -> dict[str, float]:
    """The same on the other side."""
    import datasets
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    queries, corpus = texts_of(folder, count)

    class Known(SentenceTransformer):
        """Looks embeddings up instead of computing them."""

        def encode_query(self, texts: list[str], **how: Any) -> np.ndarray:
            return np.load(Path(folder) / "vectors.npy", mmap_mode="r")[: len(texts)]

        def encode_document(self, texts: list[str], **how: Any) -> np.ndarray:
            return np.load(Path(folder) / "vectors.npy")[len(queries) : len(queries) + len(texts)]

    model = Known(str(ENCODER), device="cpu")
    pairs = datasets.Dataset.from_dict({"anchor": queries, "positive": corpus[: len(queries)]})

    def work() -> dict[str, Any]:
        rows = mine_hard_negatives(
            pairs, model, corpus=corpus, relative_margin=1 - SHARE, num_negatives=NEGATIVES,
            range_max=DEPTH - 1, output_format="n-tuple", verbose=False,
        )  # fmt: skip
        return {row["anchor"]: [row[f"negative_{number + 1}"] for number in range(NEGATIVES)] for row in rows}

    return timed(work, Path(folder) / f"{THEIRS}.json")


def texts_of(folder: str, count: int) -> tuple[list[str], list[str]]:
    work = json.loads((Path(folder) / "work.json").read_text(encoding="utf-8"))
    return work["queries"], work["corpus"][:count]


def timed(work: Callable[[], dict[str, Any]], path: Path) -> dict[str, float]:
    before, started = held_mib(), time.process_time()
    found = work()
    seconds = time.process_time() - started
    write_json(path, found)
    return {"cpu_seconds": seconds, "before_mib": before}
