"""Training steps of a cross-encoder: the same weights, head, rows, order, optimizer and precision on both sides."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import cross_encoder as theirs
from torch import Tensor, nn

from juzhen.encoders.transformer import quiet
from lightning_modules.crossencoder import CrossEncoder
from tools.bench.contest import OURS, contests
from tools.bench.device import device
from tools.bench.ours import train_ours
from tools.bench.steps import Steps
from tools.bench.theirs import follow
from tools.bench.work import Work, has_real_data, order_of, training_work, write_bert

NOTES = [
    "ratio: seconds of theirs at the same precision / seconds of this side; median over rounds, lowest, highest",
    "their pooler, a layer that our head does without, is taken out",
    "ours tokenises a set once, before its first step; theirs in every step",
]


def measure(*, batch_size: int, datasets: Sequence[str], **contest: Any) -> dict[str, Any]:
    """Rows, curves, checks and notes of a Report."""
    sets = list(datasets) or (["lcqmc"] if has_real_data() else ["demo_qmc"])
    make = partial(joint_work, sets=sets, batch_size=batch_size)
    return contests(make, turn, **contest, per_second="pairs") | {"notes": NOTES}


def joint_work(
    folder: Path, size: str, sets: Sequence[str], *, dropout: float, batch_size: int, steps: int
) -> Work:
    """A cross-encoder with binary cross-entropy of its logit, on labelled pairs."""
    write_bert(folder, size, dropout=dropout)
    words = ["model=crossencoder", "loss=bce"]
    return training_work(folder, datasets=sets, batch_size=batch_size, steps=steps, overrides=words)


class FirstToken(nn.Module):
    """Stands where BERT has its pooler, a layer that our head does without."""

    def forward(self, states: Tensor) -> Tensor:
        return states[:, 0]


def turn(work: Work, side: str, *, seed: int) -> Steps:
    """All steps of the work on one side; theirs is given our head, of one node over [CLS] as it is."""
    if side == OURS:
        return train_ours(work, seed=seed)
    head, order = CrossEncoder.load_encoder(work.job).head.state_dict(), order_of(work)
    torch.manual_seed(seed)
    with quiet():  # that the head is missing is meant
        model = theirs.CrossEncoder(order.folder, num_labels=1, device=device(), max_length=order.max_length)
    model.model.bert.pooler = FirstToken()
    model.model.classifier.load_state_dict(head)
    loss = theirs.losses.BinaryCrossEntropyLoss(model)
    return follow(order, loss, theirs.CrossEncoderTrainer, theirs.CrossEncoderTrainingArguments, seed=seed)
