"""sentence-transformers' cross-encoder with every number, and the head, set to ours."""

from pathlib import Path

import torch
from sentence_transformers.cross_encoder import (
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
    losses,
)
from torch import Tensor, nn

from juzhen.encoders.transformer import quiet
from tools.bench.device import device
from tools.bench.steps import Order, Steps
from tools.bench.theirs import follow


class FirstToken(nn.Module):
    """Stands where BERT has its pooler, a layer that our head does without."""

    def forward(self, states: Tensor) -> Tensor:
        return states[:, 0]


def load_joint(folder: str | Path, *, max_length: int, head: dict[str, Tensor]) -> CrossEncoder:
    """The encoder in `folder` under a head of one node with these weights, over [CLS] as it is."""
    with quiet():  # that the head is missing is meant
        model = CrossEncoder(str(folder), num_labels=1, device=device(), max_length=max_length)
    model.model.bert.pooler = FirstToken()
    model.model.classifier.load_state_dict(head)
    return model


def train_joint_theirs(order: Order, *, head: dict[str, Tensor], seed: int) -> Steps:
    """All steps of the order through CrossEncoderTrainer, with binary cross-entropy of the logit."""
    torch.manual_seed(seed)
    model = load_joint(order.folder, max_length=order.max_length, head=head)
    loss = losses.BinaryCrossEntropyLoss(model)
    return follow(order, loss, CrossEncoderTrainer, CrossEncoderTrainingArguments, seed=seed)
