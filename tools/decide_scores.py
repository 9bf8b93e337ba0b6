"""Scores that choose between training sets without training: python -m tools.decide_scores --data-dir FOLDER

It writes results/decide/cheap_scores.csv for the page of results/decide: rows of the source, cosine of mean TF-IDF
vectors, cosine of mean embeddings, and cosine of the gradients of one step on source and target. With `--runs` it adds
LogME of the encoders that sweep=decide trained.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import BayesianRidge

from juzhen.advice.search import mean_tfidf
from juzhen.advice.target import LEARNS_BY, Reading, TrainingSet, source_of
from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.batch import Sharing
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.data.convert import convert_rows
from juzhen.data.spec import configured_set
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.tokens import CachedTokenizer
from juzhen.training.fit import named_loss, read_by
from tools.decide_mixtures import CHEAP_SCORES, ENCODER, FILES, LOG_ME, SEED, UNTRAINED, SingleRun

SOURCES = (
    "csts", "lcqmc", "bq", "afqmc", "atec", "pawsx", "ocnli-triplets", "qbqtc", "simclue", "simclue-positive",
    "simclue-rank", "ths10jqka", "cinlid-triplets",
)  # fmt: skip
TARGETS = (
    "csts", "ocnli", "cmnli", "csnli", "lcqmc", "afqmc", "bq", "pawsx_zh", "xiaobu", "qbqtc", "atec", "triclue",
    "stsb_en", "sick", "snli",
)  # fmt: skip
ROWS, TEXTS, BATCH, BATCHES = 1000, 400, 48, 3
LABELLED = 300
"""Rows of a target for LogME, as many as sweep=decide evaluates."""


def mean_vector(encoder: SentenceEncoder, examples: Examples) -> np.ndarray:
    """The mean embedding of at most TEXTS sentences, of length 1."""
    vectors = np.asarray(encoder.encode(list(examples.sentences[:TEXTS])))
    mean = vectors.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def log_me(encoder: SentenceEncoder, target: Examples) -> float:
    """Log marginal likelihood per pair of a Bayesian linear regression from u · v, number by number, to the grades.

    LogME (You et al. 2021, https://arxiv.org/abs/2102.11005) of the pairs of a target. A triplet is two pairs.
    """
    vectors = np.asarray(encoder.encode(list(target.sentences)))
    first, *others = (vectors[column] for column in target.columns.values())
    grades = target.grades()
    if grades is None:
        grades = np.repeat([1.0, 0.0], [len(first), len(first) * (len(others) - 1)])
    features = np.concatenate([first * other for other in others])
    return float(BayesianRidge(compute_score=True).fit(features, grades).scores_[-1]) / len(features)


def gradient(encoder: SentenceEncoder, of: TrainingSet) -> torch.Tensor:
    """The gradient of the set's loss at the untrained weights, mean over BATCHES batches, as one vector of length 1."""
    criterion = named_loss(of.loss)()
    tokenize = CachedTokenizer(encoder, None, progress=False)
    sharing = {of.rows.name: Sharing.BATCH}
    collate = SentenceCollator(tokenize, encoder.collate, sharing=sharing, sides=tokenize)
    weights = [weight for weight in encoder.parameters() if weight.requires_grad]
    draw = np.random.default_rng(0)
    total = torch.zeros(sum(weight.numel() for weight in weights))
    for number in range(BATCHES):
        rows = draw.choice(len(of.rows), min(BATCH, len(of.rows)), replace=False)
        batch = collate.training_batch(of.rows, rows, index=number)
        value, _ = criterion.with_logs(**read_by(criterion, encoder, batch))
        parts = torch.autograd.grad(value, weights, allow_unused=True)
        flat = [
            torch.zeros(weight.numel()) if part is None else part.flatten()
            for weight, part in zip(weights, parts, strict=True)
        ]
        total += torch.cat(flat) / BATCHES
    return total / total.norm()


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.decide_scores", description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--runs", type=Path, help="runs of sweep=decide, for LogME")
    options = parser.parse_args()
    reading = Reading(options.data_dir)
    sources, sizes, targets = {}, {}, {}
    for name in SOURCES:
        rows = reading.split(configured_set(FILES.get(name, name)), "train")
        assert rows is not None
        sizes[name], sources[name] = len(rows), source_of(reading.sampled(rows, ROWS))
    for name in TARGETS:
        rows = reading.split(configured_set(name), "dev")
        assert rows is not None
        targets[name] = reading.sampled(rows, ROWS)
    lines = [
        ("largest set", source, target, float(sizes[source]), 0.0) for source in SOURCES for target in TARGETS
    ]
    since = time.monotonic()
    vectors = mean_tfidf([*(each.rows for each in sources.values()), *targets.values()])
    near = vectors[: len(sources)] @ vectors[len(sources) :].T
    lines += [
        ("TF-IDF", source, target, float(near[row, column]), 0.0)
        for row, source in enumerate(sources)
        for column, target in enumerate(targets)
    ]
    seconds = {"TF-IDF": time.monotonic() - since}
    _write(lines, seconds)
    encoder = SentenceEncoder.load("builtin/mini_zh").eval()
    for method in ("mean vectors", "gradients of one step"):
        since = time.monotonic()
        of_sources = {name: _vector(method, encoder, each) for name, each in sources.items()}
        of_targets = {name: _vector(method, encoder, _learnt(rows)) for name, rows in targets.items()}
        seconds[method] = time.monotonic() - since
        lines += [
            (method, source, target, float(first @ second), 0.0)
            for source, first in of_sources.items()
            for target, second in of_targets.items()
        ]
        _write(lines, seconds)
    if options.runs:
        names = ["source", "encoder", "budget", "seed", "target", "score", "seconds"]
        table = pd.DataFrame(_after_training(options.runs, targets, reading), columns=names)
        write_text(LOG_ME, table.sort_values(names[:5]).to_csv(index=False, lineterminator="\n"))


def _after_training(
    runs: Path, targets: Mapping[str, Examples], reading: Reading
) -> Iterator[tuple[str, str, int, int, str, str, int]]:
    """Yield a line per run of the built-in encoder and target: LogME after the training, on LABELLED rows."""
    drawn = {name: reading.sampled(rows, LABELLED) for name, rows in targets.items()}
    for path in sorted(runs.glob("*/result.json")):
        run = SingleRun.of(Result.read(path))
        if run is None or run.source == UNTRAINED or (run.encoder, run.seed) != (ENCODER, SEED):
            continue
        since = time.monotonic()
        encoder = SentenceEncoder.load(path.parent / "encoder").eval()
        found = {target: log_me(encoder, rows) for target, rows in drawn.items()}
        seconds = round(run.seconds + time.monotonic() - since)
        for target, score in found.items():
            yield run.source, f"LogME of {run.encoder}", run.budget, run.seed, target, f"{score:.4g}", seconds


def _write(lines: list[tuple[str, str, str, float, float]], seconds: Mapping[str, float]) -> None:
    table = pd.DataFrame(lines, columns=["method", "source", "target", "score", "seconds"])
    table["seconds"] = (table["method"].map(seconds).fillna(0) / len(SOURCES)).round(1)
    table["score"] = table["score"].map("{:.6g}".format)
    write_text(CHEAP_SCORES, table.to_csv(index=False, lineterminator="\n"))


def _learnt(rows: Examples) -> TrainingSet:
    """Rows of a target as something to learn from: NLI as triplets."""
    if rows.kind is Kind.NLI_PAIR:
        rows = convert_rows(rows, Kind.TRIPLET)
    return TrainingSet(rows.name, rows, LEARNS_BY.get(rows.kind, "info_nce"), len(rows))


def _vector(method: str, encoder: SentenceEncoder, of: TrainingSet) -> np.ndarray | torch.Tensor:
    return mean_vector(encoder, of.rows) if method == "mean vectors" else gradient(encoder, of)


if __name__ == "__main__":
    sys.exit(run_program(main))
