"""How often a training that can teach nothing is called a WIN: python -m tools.worthless_trainings [--trainings 200]

Half of the trainings learn from shuffled labels, half with a learning rate of 1e-7. Each draws its own rows, to train
on and to score. The encoder is the first layer of builtin/mini_zh, the sets are the demo sets, so that a training takes
seconds. The better of two validations is kept, as the suite does. The verdict is read on test rows, and again on the
dev rows that chose the weights.
"""

import argparse
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from juzhen.advice.target import with_rows
from juzhen.core.examples import Examples
from juzhen.data.source import load_named
from juzhen.encoders import load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.evaluation.run import evaluate
from juzhen.evaluation.scoring import Evaluation
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.metrics.comparison import judge_training
from juzhen.training.fit import fit

TARGET, OTHERS = "demo_qmc", ("demo_sts", "demo_order")
TRAIN, SCORED = 64, 120
SHUFFLED, TINY = (5e-4, "shuffled labels"), (1e-7, "learning rate 1e-7")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainings", type=int, default=200)
    count = parser.parse_args().trainings
    config = BackboneConfig(path="builtin/mini_zh@2", initialize="pretrained", layers=1)
    start = load_backbone(config, seed=0).eval()
    words = {(how, split): Counter[str]() for _, how in (SHUFFLED, TINY) for split in ("test", "dev")}
    for number in range(count):
        rate, how = (SHUFFLED, TINY)[number % 2]
        for split, word in verdicts(start, number, rate, shuffles=how == SHUFFLED[1]).items():
            words[how, split][word] += 1
    for (how, split), found in words.items():
        told = ", ".join(f"{found[word]} {word}" for word in ("WIN", "TIE", "LOSS"))
        print(f"{how}, on {split}: {told} of {found.total()}", flush=True)


def verdicts(start: torch.nn.Module, seed: int, rate: float, *, shuffles: bool) -> dict[str, str]:
    """Train once. Split → WIN, TIE or LOSS."""
    draw = np.random.default_rng(seed)
    train = with_rows(rows(TARGET, "train"), draw.choice(len(rows(TARGET, "train")), TRAIN, replace=False))
    if shuffles:
        train = replace(train, targets=draw.permutation(train.targets))
    sets = [drawn(TARGET, "dev", draw), *(drawn(name, "test", draw) for name in (TARGET, *OTHERS))]
    before, encoder, after = scored(start, sets), deepcopy(start), []
    for epoch in range(2):
        fit(encoder, train, epochs=1, batch_size=32, learning_rate=rate, seed=seed + epoch, progress=False)
        after.append(scored(encoder, sets))
    best = max(after, key=lambda each: each.scores[f"dev/{TARGET}/spearman"].value or 0.0)
    found = {}
    for split in ("test", "dev"):
        columns = [column for column in best.rows if column.startswith(split)]
        verdict = judge_training({column: best.rows[column] for column in columns}, before.rows, [TARGET])
        found[split] = "–" if verdict is None else verdict.word
    return found


@cache
def rows(name: str, split: str) -> Examples:
    return load_named(name, split, data_dir=".", on_bad_row="error")


def drawn(name: str, split: str, draw: np.random.Generator) -> Examples:
    examples = rows(name, split)
    return with_rows(examples, np.sort(draw.choice(len(examples), SCORED, replace=False)))


def scored(encoder: torch.nn.Module, sets: list[Examples]) -> Evaluation:
    settings = EvaluationSettings()
    settings.evaluation = replace(settings.evaluation, bootstrap_samples=0)
    return evaluate(encoder, sets, settings=settings)


if __name__ == "__main__":
    main()
