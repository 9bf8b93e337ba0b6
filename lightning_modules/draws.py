"""Random numbers of a job of several processes."""

import numpy as np
import pytorch_lightning as pl
import torch


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
