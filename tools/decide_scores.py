"""Scores that choose between training sets without training: python -m tools.decide_scores --data-dir FOLDER

Written is results/decide/cheap_scores.csv, which the page of results/decide reads: rows of the source, cosine of mean
TF-IDF vectors, cosine of mean embeddings, and cosine of the gradients of one step on source and target.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from juzhen.advice.search import mean_tfidf
from juzhen.advice.target import LEARNS_BY, Reading, TrainingSet, source_of
from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.batch import Sharing
from juzhen.core.examples import Examples, Kind
from juzhen.data.convert import convert_rows
from juzhen.data.spec import configured_set
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.tokens import CachedTokenizer
from juzhen.training.fit import named_loss, read_by
from tools.decide_mixtures import CHEAP_SCORES, FILES

SOURCES = (
    "csts", "lcqmc", "bq", "afqmc", "atec", "pawsx", "ocnli-triplets", "qbqtc", "simclue", "simclue-positive",
    "simclue-rank", "ths10jqka", "cinlid-triplets",
)  # fmt: skip
TARGETS = (
    "csts", "ocnli", "cmnli", "csnli", "lcqmc", "afqmc", "bq", "pawsx_zh", "xiaobu", "qbqtc", "atec", "triclue",
    "stsb_en", "sick", "snli",
)  # fmt: skip
ROWS, TEXTS, BATCH, BATCHES = 1000, 400, 48, 3


def mean_vector(encoder: SentenceEncoder, examples: Examples) -> np.ndarray:
    """The mean embedding of at most TEXTS sentences, of length 1."""
    vectors = np.asarray(encoder.encode(list(examples.sentences[:TEXTS])))
    mean = vectors.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


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
    reading = Reading(parser.parse_args().data_dir)
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
