"""Rows and random numbers of a job of several processes."""

from collections.abc import Mapping

import numpy as np
import pytorch_lightning as pl
import torch

from juzhen.core.tensors import TENSORS


def gather_rows(module: pl.LightningModule, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The rows of all processes, so that a loss sees the whole batch.

    Gradients flow back to the process that made the row. DDP then averages over processes, which undoes the
    factor that the gather brings in: the step equals that of one process with the whole batch.
    """
    world, rank = module.trainer.world_size, module.global_rank
    some = next(iter(tensors.values()))
    counts = [int(n) for n in module.all_gather(torch.tensor(len(some), device=some.device))]
    most = max(counts)

    def gather(name: str, rows: torch.Tensor) -> torch.Tensor:
        padding = rows.new_zeros((most - counts[rank], *rows.shape[1:]))
        is_learnt = TENSORS[name].is_learnt
        gathered = module.all_gather(torch.cat([rows, padding]), sync_grads=is_learnt)
        return torch.cat([gathered[process, : counts[process]] for process in range(world)])

    return {name: gather(name, rows) for name, rows in tensors.items()}


def seed_draws(module: pl.LightningModule, index: int, *, alike: bool) -> None:
    """Starts torch's generator anew, where several processes train: what is drawn then follows from where training is.

    Processes encode different sentences, so that they draw different amounts of numbers, and a checkpoint has the
    state of one generator only. Without this, a job of several processes could not be continued as if it had not
    stopped.

    index  of the batch, in this stage
    alike  the same numbers in all processes, for a loss that sees the rows of all; else each has numbers of its own
    """
    trainer = module.trainer
    if trainer.world_size == 1:
        return
    place = [module.job.seed, trainer.datamodule.stage.index, index, 0 if alike else 1 + trainer.global_rank]
    torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> np.uint64(1)))
