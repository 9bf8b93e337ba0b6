"""sentence-transformers' cross-encoder with every number, and the head, set to ours."""

import logging
import tempfile
from pathlib import Path

import datasets
import torch
from sentence_transformers.cross_encoder import (
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
    losses,
)
from torch import Tensor, nn
from transformers import PrinterCallback

from bench.steps import Order, Steps
from bench.theirs import Clock, training_numbers
from encoders.transformer import quiet

logging.getLogger("sentence_transformers").setLevel(logging.ERROR)


class FirstToken(nn.Module):
    """Stands where BERT has its pooler, a layer that our head does without."""

    def forward(self, states: Tensor) -> Tensor:
        return states[:, 0]


class Noted(nn.Module):
    """A loss that also notes its values, at full precision: their own log rounds."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.model = loss.model
        self.values: list[float] = []

    def forward(self, inputs: list[list[str]], labels: Tensor, **more: object) -> Tensor:
        value = self.loss(inputs, labels, **more)
        self.values.append(float(value.detach()))
        return value


def load_joint(folder: str | Path, *, max_length: int, head: dict[str, Tensor]) -> CrossEncoder:
    """The encoder in `folder` under a head of one node with these weights, over [CLS] as it is."""
    with quiet():  # that the head is missing is meant
        model = CrossEncoder(str(folder), num_labels=1, device="cpu", max_length=max_length)
    model.model.bert.pooler = FirstToken()
    model.model.classifier.load_state_dict(head)
    return model


def train_joint_theirs(order: Order, *, head: dict[str, Tensor], seed: int) -> Steps:
    """All steps of the order through CrossEncoderTrainer, with binary cross-entropy of the logit."""
    torch.manual_seed(seed)
    model = load_joint(order.folder, max_length=order.max_length, head=head)
    loss, clock = Noted(losses.BinaryCrossEntropyLoss(model)), Clock()
    with tempfile.TemporaryDirectory() as output:
        trainer = CrossEncoderTrainer(
            model=model,
            args=CrossEncoderTrainingArguments(**training_numbers(order, output, seed=seed)),
            train_dataset=datasets.Dataset.from_dict(order.rows),
            loss=loss,
            callbacks=[clock],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return Steps.between(clock.ends, loss.values)
