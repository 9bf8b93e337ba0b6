"""The CoSENT loss alone, value and gradient: ours, sentence-transformers', and its definition written out."""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from juzhen.core.memory import forget_peak, peak_mib, resident_mib
from tools.bench.child import in_child
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare, seconds_per_call

TEMPERATURE = 0.05
GRADES = 6
AT_LEAST_SECONDS = 0.05
COPIES = 6
"""Matrices of float32 that the definition holds at once, gradients included (measured at 4,096 rows)."""

NO_RATIO = dict.fromkeys(("ratio", "ratio_low", "ratio_high"))
OURS, THEIRS, DEFINITION = "ours", "theirs", "all pairs"

NOTES = [
    "scores are random, targets have six grades; value and gradient with respect to the scores",
    "all pairs: the definition written out, one entry per pair of rows, as in the published code; null where it "
    "would need more than the bound",
    "sentence-transformers 6.2 no longer writes the pairs out: it computes its loss by running sums, as ours does",
    "ratio: seconds of theirs / seconds of this side; median over rounds, lowest, highest",
    "mib: growth of a process of its own during one value and gradient",
]


def measure(*, rows: Sequence[int], rounds: int, memory_bound_mib: int) -> dict[str, Any]:
    allowed = {
        side: [count for count in sorted(rows) if side != DEFINITION or matrix_mib(count) <= memory_bound_mib]
        for side in (OURS, THEIRS, DEFINITION)
    }
    memory = {
        side: in_child("tools.bench.cosent:growth_in_child", side=side, rows=counts)
        for side, counts in allowed.items()
        if counts
    }
    found: list[dict[str, Value]] = []
    largest = 0.0
    for count in sorted(rows):
        scores, targets = draw_rows(count)
        losses = {side: loss_of(side) for side, counts in allowed.items() if count in counts}
        values = [float(loss(scores, targets).detach()) for loss in losses.values()]
        largest = max(largest, (max(values) - min(values)) / values[0])
        turns = {side: partial(_turn, loss, scores, targets) for side, loss in losses.items()}
        seconds = alternate(turns, rounds=rounds)
        for side in allowed:
            known = side in seconds
            ratio = compare(seconds[THEIRS], seconds[side]).columns() if known else NO_RATIO
            found.append(
                {
                    "rows": count,
                    "side": side,
                    "milliseconds": 1000 * statistics.median(seconds[side]) if known else None,
                    **ratio,
                    "mib": memory[side]["growth_mib"][str(count)] if known else None,
                }
            )
    return {"rows": found, "checks": {"largest_relative_difference_of_values": largest}, "notes": NOTES}


def matrix_mib(rows: int) -> float:
    return COPIES * 4 * rows**2 / 2**20


def draw_rows(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(count)
    targets = torch.randint(GRADES, (count,), generator=generator) / (GRADES - 1)
    scores = 0.5 * targets + 0.5 * torch.rand(count, generator=generator)
    return scores.requires_grad_(), targets


def loss_of(side: str) -> Callable[[Tensor, Tensor], Tensor]:
    if side == OURS:
        from juzhen.losses.order import cosent

        return partial(cosent, temperature=TEMPERATURE)
    if side == THEIRS:
        from sentence_transformers.losses import CoSENTLoss

        # Its own code on given scores: what it takes for the embeddings of the two sides are the scores already.
        given = CoSENTLoss(model=None, scale=1 / TEMPERATURE, similarity_fct=lambda scores, _: scores)
        return lambda scores, targets: given.compute_loss_from_embeddings([scores, scores], targets)
    return all_pairs


def all_pairs(scores: Tensor, targets: Tensor) -> Tensor:
    """log(1 + Σ exp((s_j − s_i) / τ)) over all rows i, j with target i above target j (Su 2022)."""
    gaps = (scores[None, :] - scores[:, None]) / TEMPERATURE
    gaps = gaps.masked_fill(targets[:, None] <= targets[None, :], -torch.inf)
    return torch.cat([gaps.new_zeros(1), gaps.flatten()]).logsumexp(0)


def step(loss: Callable[[Tensor, Tensor], Tensor], scores: Tensor, targets: Tensor) -> None:
    scores.grad = None
    loss(scores, targets).backward()


def _turn(loss: Callable[[Tensor, Tensor], Tensor], scores: Tensor, targets: Tensor, number: int) -> float:
    step(loss, scores, targets)
    return seconds_per_call(partial(step, loss, scores, targets), at_least=AT_LEAST_SECONDS)


def growth_in_child(*, side: str, rows: Sequence[int]) -> dict[str, dict[str, float]]:
    """MiB by which this process grows during one value and gradient of each size."""
    loss, found = loss_of(side), {}
    step(loss, *draw_rows(rows[0]))
    for count in rows:
        inputs = draw_rows(count)
        forget_peak()
        before = resident_mib()
        step(loss, *inputs)
        found[str(count)] = round(max(0.0, peak_mib() - before), 2)
    return {"growth_mib": found}
