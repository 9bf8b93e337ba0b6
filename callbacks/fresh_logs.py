"""What is logged at a step is of that step."""

import pytorch_lightning as pl

from juzhen.core.batch import Batch


class FreshLogs(pl.Callback):
    """Makes Lightning forget what earlier steps have logged.

    It would write the last value of every name again at each step that is logged. In a mixture a step logs the names of
    one set, and the curves of the others would go on although nothing was learnt of them.
    """

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, index: int
    ) -> None:
        for metric in trainer._results.result_metrics:
            metric.has_reset = True  # until the step logs the name again
