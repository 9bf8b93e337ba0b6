"""The other side: sentence-transformers with every number set to ours, so that only the program differs."""

import logging
import tempfile
from pathlib import Path
from typing import Any

import datasets
import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.training_args import SentenceTransformerTrainingArguments
from torch import Tensor, nn
from torch.utils.data import SequentialSampler
from transformers import PrinterCallback, TrainerCallback, TrainerState
from transformers.utils.logging import disable_progress_bar

from tools.bench.device import StepClock, device, on_gpu
from tools.bench.steps import Order, Steps

SCALE = 20.0
"""1 / the temperature of our CoSENT and InfoNCE; also their default."""

datasets.disable_progress_bars()
disable_progress_bar()
logging.getLogger("sentence_transformers").setLevel(logging.ERROR)


def load_theirs(
    folder: str | Path, *, max_length: int, dtype: torch.dtype = torch.float32
) -> SentenceTransformer:
    """The encoder in `folder` as they read it: mean pooling, not normalized unless the folder says so."""
    model = SentenceTransformer(str(folder), device=device()).to(dtype)
    model.max_seq_length = max_length
    return model


class Clock(TrainerCallback):
    def __init__(self, clock: StepClock) -> None:
        self.clock = clock
        self.steps: Steps | None = None

    def on_train_begin(self, *_: object, **__: object) -> None:
        self.clock.begin()

    def on_step_end(self, arguments: object, state: TrainerState, *_: object, **__: object) -> None:
        self.clock.step()
        if state.global_step == state.max_steps:
            self.steps = self.clock.end()


class Noted(nn.Module):
    """A loss that also notes its values, at full precision: their own log rounds."""

    def __init__(self, loss: nn.Module, clock: StepClock) -> None:
        super().__init__()
        self.loss = loss
        self.model = loss.model
        self.clock = clock

    def forward(self, features: list, labels: Tensor | None, **more: object) -> Tensor:
        value = self.loss(features, labels, **more)
        self.clock.note(value)
        return value


def in_order(dataset: datasets.Dataset, **options: object) -> DefaultBatchSampler:
    """Rows as they stand; `generator` is for shuffling."""
    return DefaultBatchSampler(SequentialSampler(dataset), **options)


def training_numbers(order: Order, output: str, *, seed: int) -> dict[str, Any]:
    """Our optimizer, schedule, clipping and precision in their words; nothing logged, nothing saved."""
    return {
        "output_dir": output,
        "seed": seed,
        "num_train_epochs": 1,
        "per_device_train_batch_size": order.batch_size,
        "batch_sampler": in_order,
        "optim": "adamw_torch_fused",
        "learning_rate": order.learning_rate,
        "weight_decay": order.weight_decay,
        "adam_beta1": order.betas[0],
        "adam_beta2": order.betas[1],
        "adam_epsilon": order.eps,
        "max_grad_norm": order.clip_norm,
        "lr_scheduler_type": "linear",
        "warmup_steps": 0,
        "bf16": order.bf16,
        "use_cpu": not on_gpu(),
        "dataloader_pin_memory": on_gpu(),
        "report_to": "none",
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }


def their_loss(model: SentenceTransformer, order: Order) -> nn.Module:
    if order.loss == "cosent":
        return losses.CoSENTLoss(model, scale=SCALE)
    if order.loss == "distill_mse":
        return losses.MSELoss(model)
    if order.micro_rows is None:
        return losses.MultipleNegativesRankingLoss(model, scale=SCALE)
    return losses.CachedMultipleNegativesRankingLoss(model, scale=SCALE, mini_batch_size=order.micro_rows)


def train_theirs(order: Order, *, seed: int) -> Steps:
    torch.manual_seed(seed)
    loss = their_loss(load_theirs(order.folder, max_length=order.max_length), order)
    return follow(order, loss, SentenceTransformerTrainer, SentenceTransformerTrainingArguments, seed=seed)


def follow(order: Order, loss: nn.Module, trainer_class: type, arguments_class: type, *, seed: int) -> Steps:
    """All steps of the order through a trainer of theirs; `loss` holds the model, as their losses do."""
    inner = StepClock()
    noted, clock = Noted(loss, inner), Clock(inner)
    with tempfile.TemporaryDirectory() as output:
        trainer = trainer_class(
            model=loss.model,
            args=arguments_class(**training_numbers(order, output, seed=seed)),
            train_dataset=datasets.Dataset.from_dict(order.rows),
            loss=noted,
            callbacks=[clock],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return clock.steps
