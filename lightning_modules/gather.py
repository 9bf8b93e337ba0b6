"""The rows of all processes, for losses that see the whole batch."""

from dataclasses import replace

import pytorch_lightning as pl
import torch

from juzhen.core.batch import Encoded


def gather_rows(module: pl.LightningModule, encoded: Encoded) -> Encoded:
    """The rows of all processes, so that a loss sees the whole batch; unchanged on one process.

    Gradients flow back to the process that made the row. DDP then averages over processes, which undoes the
    factor that the gather brings in: the step equals that of one process with the whole batch.
    """
    if module.trainer.world_size == 1:
        return encoded
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

    return replace(
        encoded,
        embeddings={column: gather(rows, grads=True) for column, rows in encoded.embeddings.items()},
        text_ids={column: gather(rows) for column, rows in encoded.text_ids.items()},
        scores=gather(encoded.scores, grads=True),
        targets=gather(encoded.targets),
        logits=gather(encoded.logits, grads=True),
        layer_scores=gather(encoded.layer_scores, grads=True),
        teacher=gather(encoded.teacher),
        projected=gather(encoded.projected, grads=True),
        guide=gather(encoded.guide),
        document_scores=gather(encoded.document_scores, grads=True),
        teacher_scores=gather(encoded.teacher_scores),
    )
