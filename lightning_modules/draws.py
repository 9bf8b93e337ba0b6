"""Rows and random numbers of a job of several processes."""

from dataclasses import replace

import numpy as np
import pytorch_lightning as pl
import torch

from juzhen.core.batch import Encoded


def gather_rows(module: pl.LightningModule, encoded: Encoded) -> Encoded:
    """The rows of all processes, so that a loss sees the whole batch.

    Gradients flow back to the process that made the row. DDP then averages over processes, which undoes the
    factor that the gather brings in: the step equals that of one process with the whole batch.
    """
    world, rank = module.trainer.world_size, module.global_rank
    some = next(iter(encoded.text_ids.values()))
    counts = [int(n) for n in module.all_gather(torch.tensor(len(some), device=some.device))]
    most = max(counts)

    def gather(rows: torch.Tensor | None, *, grads: bool = False) -> torch.Tensor | None:
        if rows is None:
            return None
        padding = rows.new_zeros((most - counts[rank], *rows.shape[1:]))
        gathered = module.all_gather(torch.cat([rows, padding]), sync_grads=grads)
        return torch.cat([gathered[process, : counts[process]] for process in range(world)])

    given = ("targets", "teacher", "guide", "teacher_scores")
    learnt = ("scores", "logits", "layer_scores", "projected", "document_scores")
    return replace(
        encoded,
        embeddings={column: gather(rows, grads=True) for column, rows in encoded.embeddings.items()},
        text_ids={column: gather(rows) for column, rows in encoded.text_ids.items()},
        **{name: gather(getattr(encoded, name)) for name in given},
        **{name: gather(getattr(encoded, name), grads=True) for name in learnt},
    )


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
