"""Hard negatives beside mine_hard_negatives of sentence-transformers: the same weights, texts and rules."""

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import juzhen
from benchmarks.measure import Numbers, alternate, apart, medians, memory_mib
from benchmarks.work import DATA, read_set
from juzhen.core.paths import BUILTIN
from juzhen.data.rankings import RankingSet
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.encoders.pooling import unit

ENCODER = BUILTIN / "mini_zh@2"
DEPTH, NEGATIVES, MARGIN = 100, 5, 0.05
ALONE = ("near_copy", "positive_cluster")
"""Reasons that the other side does not know."""


def mining(*, rounds: int, documents: Sequence[int], queries: int) -> dict[str, Any]:
    """Rows of a Report."""
    rows: list[Numbers] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        pairs, corpus = write_vectors(folder, max(documents), queries)
        for count in dict.fromkeys(min(count, len(corpus)) for count in documents):
            sides = {"ours": mine_ours, "theirs": mine_theirs}
            turns = {side: partial(apart, sides[side], folder, pairs, corpus[:count]) for side in sides}
            results = alternate(turns, rounds)
            ours, theirs = (results[side][-1]["negatives"] for side in sides)
            shared = [query for query in ours if query in theirs and query not in ours[""]]
            same = float(np.mean([sorted(ours[query]) == sorted(theirs[query]) for query in shared]))
            assert same >= 0.9, f"the sides find other negatives: the same for {same:.0%} of the queries"
            for side, numbers in medians(results, "cpu_seconds", lambda side: "theirs").items():
                rows.append({"side": side, "documents": count, **numbers, "same_share": same})
    return {"rows": rows}


def write_vectors(folder: Path, documents: int, queries: int) -> tuple[dict[str, str], list[str]]:
    """Question → duplicate, and a corpus that begins with the duplicates; embeddings of all texts in the folder."""
    examples = read_set("lcqmc" if DATA.is_dir() else "demo_qmc", "train")
    pairs: dict[str, str] = {}
    used: set[str] = set()
    for query, answer, label in zip(*map(examples.texts, examples.columns), examples.targets, strict=True):
        if label and len(pairs) < queries and not {query, answer} & used:
            pairs[query] = answer
            used |= {query, answer}
    unused = [text for text in examples.sentences if text not in used]
    corpus = list(dict.fromkeys([*pairs.values(), *unused]))[:documents]
    encoder, texts = juzhen.SentenceEncoder.load(ENCODER), [*pairs, *corpus]
    np.save(
        folder / "vectors.npy", unit(encoder.encode(texts, show_progress=False, cache=EmbeddingCache(folder)))
    )
    return pairs, corpus


def mine_ours(folder: Path, pairs: dict[str, str], corpus: list[str], number: int) -> Numbers:
    answers = [{number: 1.0} for number in range(len(pairs))]
    ranking = RankingSet("bench", "train", list(pairs), corpus, answers)
    encoder = juzhen.SentenceEncoder.load(ENCODER)
    options = juzhen.MiningOptions(
        range_max=DEPTH, num_negatives=NEGATIVES, relative_margin=MARGIN, hard_share=1.0
    )

    def work() -> dict[str, list[str]]:
        with tempfile.TemporaryDirectory() as output:
            run_options = {"folder": output, "cache": EmbeddingCache(folder), "progress": False}
            mined = juzhen.mine(ranking, [encoder], options, **run_options)
            negatives = {anchor: texts for anchor, _, *texts in mined.rows()}
            tables = [pq.read_table(path).to_pylist() for path in mined.shards]
        refused = [row["query_text"] for table in tables for row in table if row["reason"] in ALONE]
        return negatives | {"": refused}

    return measured(work)


def mine_theirs(folder: Path, pairs: dict[str, str], corpus: list[str], number: int) -> Numbers:
    import datasets
    from sentence_transformers.util import mine_hard_negatives

    from benchmarks.theirs import SentenceTransformer

    class Precomputed(SentenceTransformer):
        """Looks embeddings up instead of computing them."""

        def encode_query(self, texts: list[str], **_: Any) -> np.ndarray:
            return np.load(folder / "vectors.npy", mmap_mode="r")[: len(texts)]

        def encode_document(self, texts: list[str], **_: Any) -> np.ndarray:
            return np.load(folder / "vectors.npy")[len(pairs) : len(pairs) + len(texts)]

    model = Precomputed(str(ENCODER), device="cpu")
    table = datasets.Dataset.from_dict({"anchor": list(pairs), "positive": list(pairs.values())})
    rules = {"relative_margin": MARGIN, "num_negatives": NEGATIVES, "range_max": DEPTH - 1}
    rules["output_format"] = "n-tuple"

    def work() -> dict[str, list[str]]:
        rows = mine_hard_negatives(table, model, corpus=corpus, verbose=False, **rules)
        return {row["anchor"]: [row[f"negative_{number + 1}"] for number in range(NEGATIVES)] for row in rows}

    return measured(work)


def measured(work: Callable[[], dict[str, list[str]]]) -> Numbers:
    before, start = memory_mib(), time.process_time()
    negatives, numbers = work(), {"mib_before": round(before, 1)}
    return numbers | {"cpu_seconds": time.process_time() - start, "negatives": negatives}
