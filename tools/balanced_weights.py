"""What `training.keep=balanced` keeps and costs: python -m tools.balanced_weights --data-dir FOLDER

Trains builtin/mini_zh by CoSENT on some rows of a set. Half of the drawn dev rows of each set choose the ratio, the
others measure it. `--replay` also trains with 5 % of the rows drawn from the other sets.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from juzhen.advice.target import with_rows
from juzhen.core.examples import Examples, Kind
from juzhen.core.kinds import main_metric_keys
from juzhen.core.result import Score
from juzhen.data.source import load_named
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.evaluation.run import evaluate
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.training.fit import fit
from launch.start_comparison import Balancing

PANEL = ("csts", "lcqmc", "bq", "afqmc", "ocnli", "xiaobu")
TARGETS = ("afqmc", "lcqmc", "pawsx_zh", "ocnli")
REPLAYED, SCORED = 0.05, 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--seed", type=int, default=42)
    choices = parser.parse_args()
    print(
        "| trained on | ratio | own gain: checkpoint → kept | mean of the others | worst | training, start, choice |"
    )
    for target in choices.targets:
        for replays in (False, True) if choices.replay else (False,):
            print(row(target, choices.rows, choices.data_dir, choices.seed, replays=replays), flush=True)


def row(target: str, count: int, data_dir: Path, seed: int, *, replays: bool) -> str:
    """Train once. A row of the table, or a word that the set cannot be mixed."""
    draw = np.random.default_rng(seed)
    train = drawn(read(target, "train", data_dir), count, draw)
    names = [*dict.fromkeys((target, *PANEL))]
    halves = [
        np.array_split(draw.permutation(len(dev)), 2)
        for dev in (read(name, "dev", data_dir) for name in names)
    ]
    parts = [
        [
            with_rows(read(name, "dev", data_dir), np.sort(half[part][:SCORED]))
            for name, half in zip(names, halves, strict=True)
        ]
        for part in (0, 1)
    ]
    if replays:
        others = [read(name, "train", data_dir) for name in PANEL if name not in (target, "xiaobu")]
        others = [other for other in others if other.kind is train.kind]
        if train.kind is not Kind.LABELLED_PAIR:
            return f"| {target}, 5 % replay | not made: rows of other kinds |"
        train = mixed(train, [drawn(other, round(REPLAYED * count / len(others)), draw) for other in others])
    encoder, choosing = SentenceEncoder.load("builtin/mini_zh").eval(), parts[0]
    before, times = points(encoder, parts[1]), [time.process_time()]
    balancing = Balancing(encoder, lambda: scores(encoder, choosing), [target])
    times.append(time.process_time())
    fit(encoder, train, loss="cosent", epochs=1, batch_size=32, learning_rate=5e-4, seed=seed, progress=False)
    times.append(time.process_time())
    checkpoint = points(encoder, parts[1])
    times.append(time.process_time())
    found = balancing.choose()
    choice = time.process_time() - times[3]
    kept = points(encoder, parts[1])
    own, mean, worst = [], [], []
    for after in (checkpoint, kept):
        changes = {name: after[name] - before[name] for name in names}
        own.append(f"{changes.pop(target):+.1f}")
        mean.append(f"{np.mean([*changes.values()]):+.1f}")
        name = min(changes, key=lambda each: changes[each])
        worst.append(f"{name} {changes[name]:+.1f}")
    word = f"{target}, 5 % replay" if replays else target
    cost = f"{times[2] - times[1]:.0f}, {times[1] - times[0]:.0f}, {choice:.0f} s"
    cells = (word, f"{found.ratio:g}", *(" → ".join(each) for each in (own, mean, worst)), cost)
    return f"| {' | '.join(cells)} |".replace("-", "−")


def read(name: str, split: str, data_dir: Path) -> Examples:
    return load_named(name, split, data_dir=data_dir, on_bad_row="drop")


def drawn(examples: Examples, count: int, draw: np.random.Generator) -> Examples:
    return with_rows(examples, np.sort(draw.choice(len(examples), min(count, len(examples)), replace=False)))


def mixed(train: Examples, others: Sequence[Examples]) -> Examples:
    """Put rows of other sets in the place of the last rows, in one set of labelled pairs."""
    replaced = sum(map(len, others))
    every = [with_rows(train, np.arange(len(train) - replaced)), *others]
    columns = {name: [text for part in every for text in part.texts(name)] for name in ("text_a", "text_b")}
    labels = np.concatenate([part.targets for part in every if part.targets is not None])
    return Examples.from_texts(train.name, train.split, kind=train.kind, texts=columns, targets=labels)


@torch.no_grad()
def scores(encoder: SentenceEncoder, sets: Sequence[Examples]) -> Mapping[str, Score]:
    settings = EvaluationSettings()
    settings.evaluation = replace(settings.evaluation, bootstrap_samples=0)
    return evaluate(encoder, list(sets), settings=settings).scores


def points(encoder: SentenceEncoder, sets: Sequence[Examples]) -> dict[str, float]:
    found = scores(encoder, sets)
    return {key.split("/")[1]: 100 * (found[key].value or 0.0) for key in main_metric_keys(found)}


if __name__ == "__main__":
    main()
