"""What both sides are told and what both report, in plain values: neither has to load the other's libraries."""

import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from juzhen.core.whole import write_json


@dataclass(frozen=True)
class Order:
    """A training in plain values.

    folder      the encoder to start from
    rows        text columns, and `score` where there is one, in the order of training; whole batches
    micro_rows  sentences per micro-batch under gradient caching; None: no caching
    """

    folder: str
    rows: dict[str, list]
    batch_size: int
    max_length: int
    learning_rate: float
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    clip_norm: float
    bf16: bool
    loss: str = "cosent"
    micro_rows: int | None = None

    def write(self, path: Path) -> Path:
        write_json(path, asdict(self), indent=None)
        return path

    @classmethod
    def read(cls, path: str | Path) -> "Order":
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Steps:
    """One training: seconds of each step from end to end, and the loss of its batch before the step."""

    seconds: list[float]
    losses: list[float]

    @classmethod
    def between(cls, ends: list[float], losses: list[float]) -> "Steps":
        """From the moment of the start and the end of each step."""
        return cls([later - earlier for earlier, later in pairwise(ends)], losses)
