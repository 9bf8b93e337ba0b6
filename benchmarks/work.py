"""The work that both sides are given, in plain values: neither has to load the other's libraries."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from benchmarks.table import BENCHMARKS, SIZES
from juzhen.core.paths import BUILTIN

if TYPE_CHECKING:
    from juzhen.core.examples import Examples

DATA = Path(os.environ.get("JUZHEN_DATA", "data"))
MAX_LENGTH = 64
OPTIMIZER = {"lr": 1e-4, "weight_decay": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "clip_norm": 1.0}
"""Of both sides; the schedule is linear, without warm-up."""


class Work(NamedTuple):
    """A training.

    folder      the encoder that both sides start from; a student's teacher lies beside it
    micro_rows  sentences whose activations are kept at a time (gradient caching); None: those of the batch
    """

    folder: Path
    datasets: tuple[str, ...]
    batch_size: int
    steps: int
    loss: str
    precision: str = "fp32"
    micro_rows: int | None = None

    @classmethod
    def of(cls, benchmark: str, folder: Path, datasets: list[str], batch_size: int, steps: int) -> "Work":
        """On the sets that were asked for, else on those of the benchmark."""
        table = BENCHMARKS[benchmark]["work"]
        names = datasets or table["real" if DATA.is_dir() else "demo"]
        return cls(folder, tuple(names), batch_size, steps, table["loss"])

    @property
    def teacher(self) -> Path | None:
        return self.folder.with_name("teacher") if self.loss == "distill_mse" else None


class Rows(NamedTuple):
    """What a work trains on, in order, in whole batches: text columns, and `score` or `label`; the head of scores.

    lengths             in tokens, of the distinct inputs of each batch
    tokenising_seconds  that a row takes
    """

    columns: dict[str, list[Any]]
    head: dict[str, Any] | None
    lengths: list[int]
    tokenising_seconds: float


@contextmanager
def random_bert(size: str, *, dropout: float = 0.1) -> Iterator[Path]:
    """The folder of a BERT with random weights, always the same, and the built-in vocabulary; a teacher beside it."""
    layers, width, heads = SIZES[size]
    tokenizer = AutoTokenizer.from_pretrained(BUILTIN / "encoder")
    with tempfile.TemporaryDirectory() as scratch:
        for name, rate in (("teacher", 0.0), ("encoder", dropout)):
            config = BertConfig(
                vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
                intermediate_size=4 * width, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate,
                pad_token_id=tokenizer.pad_token_id,
            )  # fmt: skip
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(0)
                model = BertModel(config)  # with a pooler, as published checkpoints have
            for part in (model, tokenizer):
                part.save_pretrained(Path(scratch, name))
        yield Path(scratch, "encoder")


def read_set(name: str, split: str) -> "Examples":
    from juzhen.data.source import load_examples
    from juzhen.data.spec import configured_set

    options = {"source": "local", "data_dir": DATA, "on_bad_row": "error", "required": True}
    return load_examples(configured_set(name), split, **options)
