"""Search of the nearest documents beside semantic_search of sentence-transformers: exact, and by indexes of FAISS."""

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from juzhen.encoders.search import LEAST_CODED, ApproximateIndex, exact_search, recall
from juzhen.mining.options import INDEXES
from tools.bench.mining import encode, write_work
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare, seconds_of

DEPTH = 100
EXACT, THEIRS = "ours exact", "theirs"

NOTES = [
    f"the {DEPTH} nearest documents of each query, by embeddings of the encoder in the box; texts of lcqmc where they "
    "are at hand, else of the demo set. Embeddings are known; indexes are built by one thread",
    "recall: share of the 10 and of the 100 nearest documents by the exact product that are found",
    "index_mib: the index as FAISS writes it, without the embeddings that ours keeps for exact scores",
    "ratio: seconds of theirs / of this one; median over rounds, lowest, highest",
]


def measure(*, documents: Sequence[int], queries: int, rounds: int, cache: str) -> dict[str, Any]:
    """Rows, checks and notes of a Report; `cache`: folder where embeddings stay for the next time, or nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        work = write_work(folder, max(documents), queries)
        encode(work, folder, Path(cache) if cache else folder)
        vectors = np.load(folder / "vectors.npy")
    asked, corpus = np.split(vectors, [len(work["queries"])])
    sizes = dict.fromkeys(min(count, len(corpus)) for count in documents)
    rows = [row for count in sizes for row in one_size(asked, corpus[:count], rounds)]
    exact = [row["recall_at_100"] for row in rows if row["side"] in (THEIRS, "ours flat")]
    return {"rows": rows, "checks": {"least_recall_of_exact_sides": min(exact)}, "notes": NOTES}


def one_size(queries: np.ndarray, documents: np.ndarray, rounds: int) -> list[dict[str, Value]]:
    """One row per way to search."""
    import faiss
    from sentence_transformers.util import semantic_search

    faiss.omp_set_num_threads(torch.get_num_threads())
    first, second = torch.from_numpy(queries), torch.from_numpy(documents)
    ways: dict[str, Callable[[], Any]] = {
        EXACT: partial(exact_search, queries, documents, DEPTH),
        THEIRS: partial(semantic_search, first, second, top_k=DEPTH),
    }
    built: dict[str, dict[str, Value]] = {}
    for kind in INDEXES:
        if kind == "exact" or (kind == "ivf_pq" and len(documents) < LEAST_CODED):
            continue
        started = time.perf_counter()
        index = ApproximateIndex(documents, kind)
        built[f"ours {kind}"] = {
            "build_seconds": time.perf_counter() - started,
            "index_mib": index.size_in_bytes / 2**20,
        }
        ways[f"ours {kind}"] = partial(index.search, queries, DEPTH)
    found = {side: way() for side, way in ways.items()}
    lists = {side: one[0] for side, one in found.items() if side != THEIRS}
    lists[THEIRS] = np.array([[hit["corpus_id"] for hit in hits] for hits in found[THEIRS]])
    seconds = alternate({side: partial(seconds_of, way) for side, way in ways.items()}, rounds=rounds)
    nothing: dict[str, Value] = {"build_seconds": None, "index_mib": None}
    return [
        {
            "documents": len(documents),
            "side": side,
            "milliseconds_per_query": 1000 * float(np.median(seconds[side])) / len(queries),
            **compare(seconds[THEIRS], seconds[side]).columns(),
            **{
                f"recall_at_{k}": recall(
                    queries, documents, found=lists[side][:, :k], exact=lists[EXACT][:, :k]
                )
                for k in (10, DEPTH)
            },
            **built.get(side, nothing),
        }
        for side in ways
    ]
