"""What Lightning costs: a step of our Trainer beside a bare loop over the same batches."""

import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch

from lightning_modules.base import loss_of
from tools.bench.ours import build_module, train_ours
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare
from tools.bench.steps import Steps
from tools.bench.work import Work, random_bert, training_sets, training_work

NOTES = [
    "same module, objective, batches, optimizer, clipping and schedule; the bare loop has no Trainer, no callbacks "
    "and logs nothing",
    "overhead: ratio of the two times less 1; median over rounds, lowest, highest",
]
SKIPPED_STEPS = 1


def measure(
    *, sizes: Sequence[str], batch_size: int, steps: int, rounds: int, datasets: Sequence[str]
) -> dict[str, Any]:
    rows: list[dict[str, Value]] = []
    largest = 0.0
    for size in sizes:
        with random_bert(size) as folder:
            sets = training_sets(datasets)
            work = training_work(folder, datasets=sets, batch_size=batch_size, steps=steps)
            turns = {"Lightning": partial(_lightning, work), "bare loop": partial(_bare, work)}
            found = alternate(turns, rounds=rounds)
        seconds = {
            name: [statistics.median(one.seconds[SKIPPED_STEPS:]) for one in taken]
            for name, taken in found.items()
        }
        last = (taken[-1].losses for taken in found.values())
        largest = max(largest, *(abs(one / other - 1) for one, other in zip(*last, strict=True)))
        ratio = compare(seconds["Lightning"], seconds["bare loop"])
        rows.append(
            {
                "size": size,
                "lightning_seconds_per_step": statistics.median(seconds["Lightning"]),
                "bare_seconds_per_step": statistics.median(seconds["bare loop"]),
                "overhead_percent": 100 * (ratio.median - 1),
                "overhead_low": 100 * (ratio.low - 1),
                "overhead_high": 100 * (ratio.high - 1),
            }
        )
    return {"rows": rows, "checks": {"largest_relative_difference_of_losses": largest}, "notes": NOTES}


def _lightning(work: Work, seed: int) -> Steps:
    return train_ours(work, seed=seed)


def _bare(work: Work, seed: int) -> Steps:
    pl.seed_everything(seed, verbose=False)
    data = work.data_module()
    module = build_module(work.job, data, work)
    configured = module.configure_optimizers()
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    for examples in work.data.train.values():
        module.collate.token_lists(examples)
    bf16 = work.job.hardware.precision == "bf16-mixed"
    ends, values = [time.perf_counter()], []
    for _, task, rows in data.stream:
        batch = module.collate(work.data.train[task], rows)
        with torch.autocast("cpu", dtype=torch.bfloat16) if bf16 else nullcontext():
            # What module.objective does on one process; with several it asks its Trainer for the other rows.
            loss, _ = loss_of(module.losses[batch.task], module.encode(batch))
        optimizer.zero_grad()
        loss.backward()
        module.configure_gradient_clipping(optimizer)
        optimizer.step()
        schedule.step()
        values.append(float(loss.detach()))
        ends.append(time.perf_counter())
    return Steps.between(ends, values)
