"""Small made-up reports, one per benchmark, with the keys that the benchmarks write."""

from tools.bench.report import Report

MACHINE = {"cpu_cores": 2, "packages": {"torch": "2"}}
RATIO = {"ratio": 2.0, "ratio_low": 1.5, "ratio_high": 2.25}

ROWS = {
    "training": [
        {"size": "S", "side": side, "precision": "fp32", "seconds_per_step": 0.5, **RATIO, "mib_peak": 700.0}
        for side in ("ours", "theirs")
    ],
    "crossencoder": [
        {"size": "S", "side": side, "precision": "fp32", "seconds_per_step": 0.5, **RATIO, "pairs_per_second": 128.0}
        for side in ("ours", "theirs")
    ],
    "distill": [
        {"size": "S", "side": side, "precision": "fp32", "seconds_per_step": 0.5, **RATIO, "sentences_per_second": 99.0}
        for side in ("ours", "theirs")
    ],
    "encoding": [
        {"model": "S", "side": side, "sentences_per_second": 1234.5, **RATIO}
        for side in ("ours torch", "theirs fp32, batch 32")
    ],
    "evaluation": [
        {"size": "S", "side": side, "sets": 9, "pairs": 900, "seconds": 3.0, "spearman_change": change, **RATIO}
        for side, change in (("ours torch", 0.0), ("ours torch_bf16", 0.0002), ("theirs, batch 16", None))
    ],
    "cosent": [
        {"rows": rows, "side": side, "milliseconds": value, "mib": value}
        for rows in (64, 256)
        for side, value in (("ours", 1.0), ("all pairs", None if rows == 256 else 2.0))
    ],
    "memory": [
        {"size": "S", "loss": "cosent", "side": "ours", "cached": cached, "batch_size": batch,
         "seconds_per_step": 1.0, "mib_peak": 500.0 if cached == "yes" else None}
        for cached in ("yes", "no")
        for batch in (64, 256)
    ],
    "spin": [
        {"size": "S", "spins": spins, "alone": 2.0, "ratio": 1.0, "ratio_low": 0.9, "ratio_high": 1.1,
         "busy": 1.0, "busy_share": 0.5}
        for spins in ("libgomp's own", "20000")
    ],
    "mining": [
        {"side": side, "documents": count, "cpu_seconds": 2.0, **RATIO, "peak_mib": 900.0, "same_share": 1.0}
        for count in (300, 600)
        for side in ("ours", "theirs")
    ],
    "search": [
        {"documents": count, "side": side, "milliseconds_per_query": 0.5, **RATIO, "recall_at_100": share}
        for count in (300, 600)
        for side, share in (("ours exact", 1.0), ("theirs", 1.0), ("ours hnsw", 0.9))
    ],
    "overhead": [
        {"size": "S", "overhead_percent": 2.0, "overhead_low": 1.0, "overhead_high": 4.0},
    ],
}  # fmt: skip

CURVES = {"S fp32 ours": [3.0, 2.0], "S fp32 theirs": [3.0, 2.1], "S without dropout ours": [3.0, 1.9]}


def report(benchmark: str) -> Report:
    curves = CURVES if benchmark in ("training", "crossencoder", "distill") else {}
    return Report(
        benchmark, {"rounds": 3}, MACHINE, ROWS[benchmark], {"difference": 1e-7}, curves, ["a note"]
    )
