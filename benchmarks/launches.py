"""Calls of aten in a training step of a model so thin that arithmetic takes little of it: a GPU waits for both."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertModel

from benchmarks import ours, theirs
from benchmarks.measure import Numbers, alternate, medians
from benchmarks.table import WARM_UP_STEPS
from benchmarks.work import Rows, Work, random_bert

TRAIN = {"ours": ours.train, "theirs": theirs.train}
WHERE = {
    "forward": (BertModel, "forward"),
    "backward": (torch.Tensor, "backward"),
    "clipping": (torch.nn.utils, "clip_grad_norm_"),
    "optimizer": (sys.modules[torch.optim.Adam.__module__], "adam"),
}
"""Phase → the function that both sides call for it. The rest is the loss, logging, and what else a step needs."""

FEW = 2
"""Steps of the shorter of two trainings, whose difference leaves out what comes before the first step."""


def launches(*, rounds: int, steps: int, pairs: Sequence[int], datasets: list[str]) -> dict[str, Any]:
    """Rows of a Report."""
    table: list[Numbers] = []
    with random_bert("thin") as folder:
        for batch_size in pairs:
            few, many = (
                Work.of("launches", folder, datasets, batch_size, size) for size in (FEW, FEW + steps)
            )
            rows = {work: ours.rows_of(work) for work in (few, many)}
            turns = {side: partial(turn, side, many, rows[many]) for side in TRAIN}
            numbers = medians(alternate(turns, rounds), "ms_per_step", lambda side: "theirs")
            for side in TRAIN:
                before, after = (count(side, work, rows[work]) for work in (few, many))
                calls = {name: (after[name] - before[name]) / steps for name in after}
                calls["kernels"] = calls["calls"] - calls["views"]
                table.append({"size": "B", "pairs": batch_size, "side": side, **numbers[side], **calls})
    return {"rows": table}


def turn(side: str, work: Work, rows: Rows, number: int) -> Numbers:
    return {"ms_per_step": 1000 * TRAIN[side](work, rows, seed=number).seconds(skipped=WARM_UP_STEPS)}


def count(side: str, work: Work, rows: Rows) -> Counter[str]:
    """Calls of a whole training: all, those that only look at a tensor anew (`views`), and those of each phase."""
    with Calls() as calls, calls.in_phases():
        TRAIN[side](work, rows, seed=0)
    return calls.counts


class Calls(TorchDispatchMode):
    """Counts the calls of aten."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter(dict.fromkeys(("calls", "views", *WHERE, "rest"), 0))
        self._phases = ["rest"]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace == "aten":
            self.counts["calls"] += 1
            self.counts["views"] += function.is_view
            self.counts[self._phases[-1]] += 1
        return function(*args, **(kwargs or {}))

    @contextmanager
    def in_phases(self) -> Iterator[None]:
        def within(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                self._phases.append(phase)
                try:
                    return function(*args, **kwargs)
                finally:
                    self._phases.pop()

            return call

        with ExitStack() as stack:
            for phase, (owner, name) in WHERE.items():
                stack.enter_context(patch.object(owner, name, within(phase, getattr(owner, name))))
            yield
