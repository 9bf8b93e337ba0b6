"""The other side: sentence-transformers with every number set to ours, so that only the program differs."""

import logging
import tempfile
from pathlib import Path
from typing import Any

import datasets
import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, cross_encoder, losses
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.training_args import SentenceTransformerTrainingArguments
from torch import nn
from torch.utils.data import SequentialSampler
from transformers import PrinterCallback
from transformers.utils import logging as transformers_logging

from benchmarks.measure import StepClock, device
from benchmarks.work import MAX_LENGTH, OPTIMIZER, Rows, Work

SCALE = 20.0
"""1 / the temperature of our CoSENT and InfoNCE; also their default."""

datasets.disable_progress_bars()
transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()
logging.getLogger("sentence_transformers").setLevel(logging.ERROR)


def load(folder: Path, dtype: torch.dtype = torch.float32) -> SentenceTransformer:
    """The encoder in `folder` as they read it: mean pooling, not normalized unless the folder says so."""
    model = SentenceTransformer(str(folder), device=device()).to(dtype)
    model.max_seq_length = MAX_LENGTH
    return model


class FirstToken(nn.Module):
    """Stands where BERT has its pooler, a layer that our head does without."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states[:, 0]


def build_loss(work: Work, rows: Rows) -> nn.Module:
    """A loss of theirs, which holds the model."""
    if rows.head is not None:
        options = {"num_labels": 1, "device": device(), "max_length": MAX_LENGTH}
        joint = cross_encoder.CrossEncoder(str(work.folder), **options)
        joint.model.bert.pooler = FirstToken()
        joint.model.classifier.load_state_dict({key: torch.from_numpy(rows.head[key]) for key in rows.head})
        return cross_encoder.losses.BinaryCrossEntropyLoss(joint)
    model = load(work.folder)
    if work.loss == "distill_mse":
        return losses.MSELoss(model)
    if work.loss == "cosent":
        return losses.CoSENTLoss(model, scale=SCALE)
    if work.micro_rows is None:
        return losses.MultipleNegativesRankingLoss(model, scale=SCALE)
    return losses.CachedMultipleNegativesRankingLoss(model, scale=SCALE, mini_batch_size=work.micro_rows)


def in_order(dataset: datasets.Dataset, **options: object) -> DefaultBatchSampler:
    """Rows as they stand; `generator` is for shuffling."""
    return DefaultBatchSampler(SequentialSampler(dataset), **options)


def training_numbers(work: Work, output: str, *, seed: int) -> dict[str, Any]:
    """Our optimizer, schedule, clipping and precision in their words; nothing logged, nothing saved."""
    first, second = OPTIMIZER["betas"]
    return {
        "output_dir": output, "seed": seed, "num_train_epochs": 1, "per_device_train_batch_size": work.batch_size,
        "batch_sampler": in_order, "optim": "adamw_torch_fused", "learning_rate": OPTIMIZER["lr"],
        "weight_decay": OPTIMIZER["weight_decay"], "adam_beta1": first, "adam_beta2": second,
        "adam_epsilon": OPTIMIZER["eps"], "max_grad_norm": OPTIMIZER["clip_norm"], "lr_scheduler_type": "linear",
        "warmup_steps": 0, "bf16": work.precision == "bf16", "use_cpu": device() == "cpu",
        "dataloader_pin_memory": device() == "cuda", "report_to": "none", "save_strategy": "no",
        "logging_strategy": "no", "disable_tqdm": True,
    }  # fmt: skip


def train(work: Work, rows: Rows, *, seed: int) -> StepClock:
    """All steps of a work, through their Trainer."""
    torch.manual_seed(seed)
    trainer, arguments = SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    if rows.head is not None:
        trainer, arguments = cross_encoder.CrossEncoderTrainer, cross_encoder.CrossEncoderTrainingArguments
    clock, loss = StepClock(work.steps), build_loss(work, rows)
    loss.register_forward_hook(lambda module, inputs, value: clock.record(value))
    with tempfile.TemporaryDirectory() as output:
        numbers = arguments(**training_numbers(work, output, seed=seed))
        table = datasets.Dataset.from_dict(rows.columns)
        running = trainer(loss.model, numbers, train_dataset=table, loss=loss)
        running.remove_callback(PrinterCallback)
        running.train()
    return clock
