"""The work that both sides are given: a model in a folder, a job, its rows and the order of its batches."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from torch import nn
from transformers import AutoTokenizer, BertConfig, BertModel

import train
from conf.job import JobConfig
from datamodules.datamodule import SentenceDataModule, only_stage
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.named import name_of
from juzhen.core.places import BUILTIN
from juzhen.data.loading import JobData, load_job_data
from juzhen.data.sampler import BatchRows
from juzhen.encoders.kept_vectors import Targets
from juzhen.encoders.transformer import quiet
from launch import check_command_line, typed_config
from launch.naming import register_resolvers
from lightning_modules.chosen_losses import Match
from lightning_modules.matching import match_losses
from tools.bench.device import on_gpu
from tools.bench.options import PRECISIONS, SIZES
from tools.bench.steps import Order

MAX_LENGTH = 64
LEARNING_RATE = 1e-4
DROPOUT = 0.1
NEVER = "1000000 steps"

REAL_SETS, DEMO_SETS = ["csts", "afqmc"], ["demo_sts", "demo_qmc"]


def has_real_data() -> bool:
    return Path(os.environ.get("JUZHEN_DATA", "data")).is_dir()


def training_sets(given: Sequence[str]) -> list[str]:
    """What was asked for, else real sets where there are files, else the built-in ones."""
    return list(given) or (REAL_SETS if has_real_data() else DEMO_SETS)


def write_bert(folder: Path, size: str, *, dropout: float) -> Path:
    """A BERT of that size with random weights (always the same) and the built-in vocabulary."""
    layers, width, heads = SIZES[size]
    tokenizer = AutoTokenizer.from_pretrained(BUILTIN / "encoder")
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=tokenizer.pad_token_id,
    )
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        BertModel(config).save_pretrained(folder)  # with a pooler, as published checkpoints have
    tokenizer.save_pretrained(folder)
    return folder


@contextmanager
def random_bert(size: str, *, dropout: float = DROPOUT) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield write_bert(Path(folder), size, dropout=dropout)


def compose_job(folder: Path, *overrides: str) -> JobConfig:
    """The job of a command line that starts from the encoder in `folder`."""
    everything = [
        "backbone=local", f"backbone.path={folder}", f"backbone.max_length={MAX_LENGTH}",
        "logger.progress=false", "logger.csv=false", "logger.wandb=off", "evaluation.bootstrap_samples=0",
        *(["hardware=cuda", "hardware.precision=32-true"] if on_gpu() else []), *overrides,
    ]  # fmt: skip
    register_resolvers()
    check_command_line(everything, conf_dir=train.CONFIGURATION)
    with initialize_config_dir(str(train.CONFIGURATION), version_base="1.3"):
        config = compose("train", overrides=everything)
    if not any(one.startswith("cache_dir=") for one in overrides):
        config.cache_dir = None  # tokens from an earlier run would be an advantage
    return OmegaConf.to_object(typed_config(config))


@dataclass(frozen=True)
class Work:
    """A training job, and the same for the other side.

    folder   the encoder that both start from
    matches  dataset key → loss
    targets  what a teacher says; None: there is none
    """

    folder: Path
    job: JobConfig
    data: JobData
    matches: dict[str, Match]
    targets: Targets | None = None

    def at(self, precision: str, *, compiled: bool = False) -> "Work":
        hardware = replace(self.job.hardware, precision=PRECISIONS[precision], compile=compiled)
        return replace(self, job=replace(self.job, hardware=hardware))

    def data_module(self) -> SentenceDataModule:
        return SentenceDataModule(self.data, only_stage(list(self.job.dataset)), job=self.job)

    def batches(self) -> list[BatchRows]:
        return list(self.data_module().stream)


def training_work(
    folder: Path, *, datasets: Sequence[str], batch_size: int, steps: int, overrides: Sequence[str] = ()
) -> Work:
    """A job of `steps` steps with CoSENT unless told otherwise; all of its batches have `batch_size` rows."""
    job = compose_job(
        folder,
        f"dataset=[{','.join(datasets)}]", "suite=none", "evaluation.splits=[]",
        f"training.batch_size={batch_size}", f"training.duration={steps} steps",
        f"training.checkpoint_every={NEVER}", f"optimizer.lr={LEARNING_RATE}", "optimizer.warmup=0 steps",
        *overrides,
    )  # fmt: skip
    matches = match_losses(job)
    data = load_job_data(job, {name: match.kind for name, match in matches.items()})
    whole = {name: _whole_batches(examples, batch_size) for name, examples in data.train.items()}
    return Work(folder, job, replace(data, train=whole), matches)


def _whole_batches(examples: Examples, batch_size: int) -> Examples:
    """The rows that fill batches; a shorter last batch would end up elsewhere in the other side's order."""
    rows = len(examples) // batch_size * batch_size
    if not rows:
        raise UserError(f"{examples.name} has {len(examples)} rows, less than a batch of {batch_size}")
    return examples.select(np.arange(rows))


def order_of(work: Work, *, micro_rows: int | None = None) -> Order:
    """The same work in plain values, for the other side: texts and targets of all batches, row after row."""
    job = work.job
    parts = [work.data.train[chosen.task].select(chosen.rows) for chosen in work.batches()]
    rows: dict[str, list] = {
        column: [text for part in parts for text in part.texts(column)] for column in parts[0].columns
    }
    if work.targets is not None:
        rows["label"] = [
            vector for part in parts for vector in work.targets(part.name, part.columns["text"]).tolist()
        ]
    if parts[0].targets is not None:
        rows["score"] = [float(target) for part in parts for target in part.targets]
    return Order(
        folder=str(work.folder),
        rows=rows,
        batch_size=job.training.batch_size,
        max_length=job.backbone.max_length,
        learning_rate=job.optimizer.lr,
        weight_decay=job.optimizer.weight_decay,
        betas=tuple(job.optimizer.betas),
        eps=job.optimizer.eps,
        clip_norm=job.optimizer.clip_norm,
        bf16=job.hardware.precision == PRECISIONS["bf16"],
        loss=name_of(job.loss),
        micro_rows=micro_rows,
    )


def sentence_lengths(work: Work, lengths: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Tokens per sentence over all batches: of every sentence of every row, and of each distinct one once per batch.

    lengths  dataset key → the tokens of each sentence of its table
    """
    every, distinct = [], []
    for _, task, rows in work.batches():
        numbers = np.concatenate([values[rows] for values in work.data.train[task].columns.values()])
        every.append(lengths[task][numbers])
        distinct.append(lengths[task][np.unique(numbers)])
    return np.concatenate(every), np.concatenate(distinct)


def linear_weights(backbone: nn.Module) -> int:
    """Weights of the linear layers; biases and embedding tables are not multiplied with anything."""
    return sum(inner.weight.numel() for inner in backbone.modules() if isinstance(inner, nn.Linear))


def training_flops(lengths: Sequence[int] | np.ndarray, *, weights: int, layers: int, width: int) -> float:
    """Operations of forward and backward pass for sentences of the given lengths, padding left out.

    A multiplication and an addition count as two operations. With P weights in linear layers, L tokens in a sentence,
    N layers and width d:

        linear layers  2·P per token forward, twice that backward                        6·P·ΣL
        attention      QKᵀ and its product with V, 2·L²·d each per layer, backward twice   12·N·d·ΣL²

    Embedding tables, normalization, softmax, activation, loss and optimizer are left out: they are no matrix products.

    >>> training_flops([3], weights=10, layers=2, width=4)
    1044.0
    """
    tokens = np.asarray(lengths, dtype=np.float64)
    return float(6 * weights * tokens.sum() + 12 * layers * width * (tokens**2).sum())
