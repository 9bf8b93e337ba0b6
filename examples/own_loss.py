"""A loss of your own: a function from tensors to a scalar, in a loop over pairs of a file.

python examples/own_loss.py
"""

import argparse
import csv
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from juzhen import SentenceEncoder
from juzhen.cli.program import run_program
from juzhen.core.errors import require_number
from juzhen.core.paths import BUILTIN
from juzhen.losses import contrastive
from juzhen.metrics.correlation import spearman


def two_sided(cosines: Tensor, labels: Tensor, *, bar: float = 0.6, margin: float = 0.4) -> Tensor:
    """Positives shall lie above the bar and negatives below it, each by half a margin."""
    signs = 2 * labels - 1
    return (margin / 2 - signs * (cosines - bar)).relu().mean()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"two_sided": two_sided, "contrastive": contrastive}
"""Losses of the library are functions too, so they can stand in for one another."""


def pairs_of(split: str) -> tuple[list[str], list[str], Tensor]:
    """Two sentences and a label per row; any file of that form will do."""
    with open(BUILTIN / "data" / "demo_qmc" / f"{split}.tsv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    labels = torch.tensor([float(row["label"]) for row in rows])
    return [row["sentence1"] for row in rows], [row["sentence2"] for row in rows], labels


def quality(encoder: SentenceEncoder) -> float:
    """Spearman correlation of cosines and labels on dev."""
    first, second, labels = pairs_of("dev")
    found = spearman(encoder.score(zip(first, second, strict=True)), labels.numpy())
    assert found is not None  # scores and labels differ
    return found


def train(encoder: SentenceEncoder, name: str, *, steps: int, batch_size: int = 32) -> None:
    first, second, labels = pairs_of("train")
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=5e-4)
    torch.manual_seed(0)
    encoder.train()
    for _ in range(steps):
        rows = torch.randperm(len(labels))[:batch_size]
        texts = [column[row] for column in (first, second) for row in rows]
        left, right = encoder(encoder.collate(encoder.tokenize(texts))).chunk(2)
        loss = LOSSES[name](torch.cosine_similarity(left, right), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    encoder.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains with two losses and says what each reaches on dev.")
    parser.add_argument("--steps", type=int, default=16)
    options = parser.parse_args()
    require_number("--steps", options.steps, 1)

    print(f"before       {quality(SentenceEncoder.load('builtin/mini_zh')):.3f}")
    for name in LOSSES:
        encoder = SentenceEncoder.load("builtin/mini_zh")
        train(encoder, name, steps=options.steps)
        print(f"{name:11s}  {quality(encoder):.3f}")


if __name__ == "__main__":
    sys.exit(run_program(main))
