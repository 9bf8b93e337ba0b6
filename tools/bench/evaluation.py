"""One row of a transfer matrix: nine sets in one pass of ours, beside nine evaluators of theirs on the same weights."""

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

from callbacks.trainer import build_trainer
from conf.job import JobConfig
from datamodules.datamodule import SentenceDataModule, only_stage
from juzhen.backends.names import BackendName
from juzhen.data.loading import JobData, load_job_data
from tools.bench.device import back_ends
from tools.bench.ours import build_module
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare
from tools.bench.theirs import load_theirs
from tools.bench.work import compose_job, has_real_data, random_bert

REAL = ("suite=zh_matching", "+dataset@evaluate.ocnli=ocnli")
DEFAULT_BATCH = 16
TOLERANCE = 1e-4
BACKENDS = (BackendName.TORCH, BackendName.TORCH_BF16, BackendName.ONNX_INT8)

NOTES = [
    "seconds: from texts in memory to all correlations, tokenising included; reading the files is not",
    "the export to onnx_int8 is part of its seconds",
    "ours also computes accuracy, F1 and average precision of labelled sets; theirs correlations only",
    "ratio: seconds of theirs at its default batch size of 16 / seconds of this row; median over rounds, lowest, "
    "highest. Theirs is in fp32",
    "spearman_change: the largest change of any set's correlation, as a fraction, against ours with torch",
]


def measure(*, sizes: Sequence[str], rows: int, batch_sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """Rows, checks and notes of a Report. Raises AssertionError when the two sides score a set differently."""
    found: list[dict[str, Value]] = []
    largest = 0.0
    for size in sizes:
        with random_bert(size) as folder:
            row = Row(folder, rows)
            found += row.contest(size, sorted({DEFAULT_BATCH, *batch_sizes}), rounds)
            largest = max(largest, row.largest_difference())
    return {"rows": found, "checks": {"largest_difference_of_spearman": largest}, "notes": NOTES}


def _side(backend: BackendName) -> str:
    return f"ours {backend}"


class Row:
    """The sets and weights, and the correlations that each side found."""

    def __init__(self, folder: Path, rows: int) -> None:
        suite = REAL if has_real_data() else ("suite=demo",)
        self.folder = folder
        self.job: JobConfig = compose_job(
            folder, "dataset=[]", *suite, "evaluation.splits=[dev]", f"debug_rows={rows}"
        )
        self.data: JobData = load_job_data(self.job, {})
        self.found: dict[str, dict[str, float]] = {}

    def contest(self, size: str, batch_sizes: Sequence[int], rounds: int) -> list[dict[str, Value]]:
        contestants = {_side(name): lambda _, name=name: self._ours(name) for name in back_ends(BACKENDS)} | {
            f"theirs, batch {batch}": lambda _, batch=batch: self._theirs(batch) for batch in batch_sizes
        }
        seconds = alternate(contestants, rounds=rounds)
        default = seconds[f"theirs, batch {DEFAULT_BATCH}"]
        pairs = sum(len(one) for one in self.data.evaluation)
        rows = []
        for side, took in seconds.items():
            rows.append(
                {
                    "size": size,
                    "side": side,
                    "sets": len(self.data.evaluation),
                    "pairs": pairs,
                    "seconds": statistics.median(took),
                    "pairs_per_second": pairs / statistics.median(took),
                    **compare(default, took).columns(),
                    "spearman_change": self._change(side),
                }
            )
        return rows

    def _ours(self, backend: BackendName) -> float:
        job = replace(self.job, evaluation=replace(self.job.evaluation, backend=backend))
        data = SentenceDataModule(self.data, only_stage([]), job=job)
        module = build_module(job, data, None)
        with tempfile.TemporaryDirectory() as folder:
            trainer = build_trainer(job, data, folder=Path(folder), run_id="bench", settings={})
            start = time.perf_counter()
            data.serve(module.collate, module.plan)
            trainer.test(module, datamodule=data, verbose=False)
            took = time.perf_counter() - start
        self.found[_side(backend)] = {
            key.split("/")[1]: score.value
            for key, score in module.scores.items()
            if key.endswith("/spearman")
        }
        return took

    def _theirs(self, batch_size: int) -> float:
        model = load_theirs(self.folder, max_length=self.job.backbone.max_length)
        evaluators = {}
        for one in self.data.evaluation:
            first, second, *_ = one.columns
            evaluators[one.name] = EmbeddingSimilarityEvaluator(
                one.texts(first), one.texts(second), one.grades().tolist(), batch_size=batch_size, write_csv=False
            )  # fmt: skip
        start = time.perf_counter()
        scores = {name: evaluator(model)["spearman_cosine"] for name, evaluator in evaluators.items()}
        took = time.perf_counter() - start
        self.found["theirs"] = {name: float(value) for name, value in scores.items()}
        return took

    def _change(self, side: str) -> float | None:
        """How far a back end of ours moves the correlation of some set at most; None for theirs."""
        if side not in self.found:
            return None
        plain = self.found[_side(BackendName.TORCH)]
        return max(abs(value - plain[name]) for name, value in self.found[side].items())

    def largest_difference(self) -> float:
        """Of the correlations of any set between theirs and ours with torch, as a fraction."""
        ours, theirs = self.found[_side(BackendName.TORCH)], self.found["theirs"]
        assert ours.keys() == theirs.keys(), (sorted(ours), sorted(theirs))
        largest = max(abs(ours[name] - theirs[name]) for name in ours)
        assert largest <= TOLERANCE, f"the sides score a set differently by {largest}: {ours}, {theirs}"
        return largest
