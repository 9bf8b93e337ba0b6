"""Hard negatives beside mine_hard_negatives of sentence-transformers: the same weights, texts and rules."""

import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import juzhen
from benchmarks.measure import Numbers, alternate, apart, medians, memory_mib
from benchmarks.work import DATA, read_set
from juzhen.core.paths import BUILTIN
from juzhen.data.rankings import RankingSet
from juzhen.encoders.embedding_cache import encoder_digest
from juzhen.encoders.pooling import unit
from juzhen.encoders.sentence_encoder import BY_ITSELF
from juzhen.mining.filters import WRITING, Known

ENCODER = BUILTIN / "mini_zh@2"
DEPTH, NEGATIVES, MARGIN = 100, 5, 0.05
COSTS = ("cpu_seconds", "same_work", "seconds")
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
            tables = {cost: medians(results, cost, lambda side: "theirs") for cost in COSTS}
            for side, numbers in tables["cpu_seconds"].items():
                ratios = {
                    f"{cost}_{name}": tables[cost][side][name]
                    for cost in ("same_work", "seconds")
                    for name in ("ratio", "ratio_low", "ratio_high")
                }
                rows.append({"side": side, "documents": count, **numbers, **ratios, "same_share": same})
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
    np.save(folder / "vectors.npy", unit(encoder.encode(texts, show_progress=False)))
    return pairs, corpus


class Embeddings:
    """Embeddings of the queries and of the corpus, in memory, for an encoder that computes nothing.

    Args:
        folder: Holds the file of `write_vectors`.
        queries: Queries in the order of that file. The corpus has none of them.
    """

    def __init__(self, folder: Path, queries: Collection[str]) -> None:
        vectors = np.load(folder / "vectors.npy")
        self.texts = queries
        self.queries, self.corpus = vectors[: len(queries)], vectors[len(queries) :]

    def of(self, texts: Sequence[str]) -> np.ndarray:
        return self.queries if texts[0] in self.texts else self.corpus[: len(texts)]


def mine_ours(folder: Path, pairs: dict[str, str], corpus: list[str], number: int) -> Numbers:
    answers = [{number: 1.0} for number in range(len(pairs))]
    ranking = RankingSet("bench", "train", list(pairs), corpus, answers)
    known = Embeddings(folder, pairs)

    class Precomputed(juzhen.SentenceEncoder):
        """Looks embeddings up instead of computing them."""

        def encode(self, texts: list[str], **_: Any) -> np.ndarray:
            return known.of(texts)

    encoder = Precomputed.load(ENCODER)
    options = juzhen.MiningOptions(
        range_max=DEPTH, num_negatives=NEGATIVES, relative_margin=MARGIN, hard_share=1.0
    )

    def work(output: Path) -> dict[str, list[str]]:
        mined = juzhen.mine(ranking, [encoder], options, folder=output, progress=False)
        return {anchor: texts for anchor, _, *texts in mined.rows()}

    numbers, tables = measured(work)
    start = time.process_time()
    Known(ranking)
    encoder_digest(encoder, BY_ITSELF)
    for table in tables:
        pq.write_table(table, BytesIO(), **WRITING)
    numbers["same_work"] -= time.process_time() - start
    candidates = [row for table in tables for row in table.select(["query_text", "reason"]).to_pylist()]
    numbers["negatives"][""] = [row["query_text"] for row in candidates if row["reason"] in ALONE]
    return numbers


def mine_theirs(folder: Path, pairs: dict[str, str], corpus: list[str], number: int) -> Numbers:
    import datasets
    from sentence_transformers.util import mine_hard_negatives

    from benchmarks.theirs import SentenceTransformer

    known = Embeddings(folder, pairs)

    class Precomputed(SentenceTransformer):
        """Looks embeddings up instead of computing them."""

        def encode(self, texts: list[str], **_: Any) -> np.ndarray:
            return known.of(texts)

        encode_query = encode_document = encode

    model = Precomputed(str(ENCODER), device="cpu")
    table = datasets.Dataset.from_dict({"anchor": list(pairs), "positive": list(pairs.values())})
    rules = {"relative_margin": MARGIN, "num_negatives": NEGATIVES, "range_max": DEPTH - 1}
    rules |= {"output_format": "n-tuple", "verbose": False}

    def work(output: Path) -> dict[str, list[str]]:
        rows = mine_hard_negatives(table, model, corpus=corpus, **rules)
        return {row["anchor"]: [row[f"negative_{number + 1}"] for number in range(NEGATIVES)] for row in rows}

    return measured(work)[0]


def measured(work: Callable[[Path], dict[str, list[str]]]) -> tuple[Numbers, list[pa.Table]]:
    """Numbers of a second turn in the same process, and the tables that it writes into its folder.

    The first turn imports, compiles patterns, and fills the caches of both sides.
    """
    before = memory_mib()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        work(Path(first))
        start, clock = time.process_time(), time.perf_counter()
        negatives = work(Path(second))
        used, seconds = time.process_time() - start, time.perf_counter() - clock
        tables = [pq.read_table(path) for path in sorted(Path(second).glob("*.parquet"))]
    numbers = {"mib_before": round(before, 1), "cpu_seconds": used, "same_work": used, "seconds": seconds}
    return {**numbers, "negatives": negatives}, tables
