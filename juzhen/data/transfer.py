"""Sets whose classes a classifier is to tell apart, on what a model makes of their texts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.transfer import KINDS, judged_split, too_few
from juzhen.data.configured import configured_set
from juzhen.data.spec import DataRequest, DatasetConfig

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class TransferTask:
    """Rows with classes; of train, dev and test those splits that there are.

    by_means  classes are told apart by their means alone, as while training goes on
    """

    name: str
    splits: dict[str, Examples]
    by_means: bool = False

    @property
    def kind(self) -> Kind:
        return next(iter(self.splits.values())).kind

    @property
    def judged(self) -> str:
        """The split that the classifier is judged on."""
        return judged_split(self.splits)[0]

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Class number of each row, by split."""
        return {name: np.asarray(examples.targets, dtype=np.int64) for name, examples in self.splits.items()}

    def described(self) -> dict[str, Any]:
        """What a result says of it: which rows were learnt from, and which judged by."""
        name, in_folds = judged_split(self.splits)
        return {
            "judged_on": f"folds of {name}" if in_folds else name,
            "splits": {
                split: {"rows": len(examples), "fingerprint": examples.fingerprint}
                for split, examples in self.splits.items()
            },
        }


Load = Callable[[DatasetConfig, str], Examples | None]
"""Reads a split of a set; None where there is no file."""


def asked_tasks(job: DataRequest, load: Load) -> list[TransferTask]:
    """The tasks of `evaluation.transfer`, each set as the job describes it, or else as conf/dataset does.

    Raises UserError for a set that is not known, has no file or no classes.
    """
    described = {**job.evaluate, **job.dataset}
    tasks = []
    for name in dict.fromkeys(job.evaluation.transfer):
        config = described.get(name) or configured_set(name)
        tasks.append(_task(config, job, load))
    return tasks


def _task(config: DatasetConfig, job: DataRequest, load: Load) -> TransferTask:
    if Kind(config.kind) not in KINDS:
        raise UserError(
            f"{config.name} has {config.kind.replace('_', ' ')}s, and a classifier needs classes: 0/1 pairs or NLI "
            "pairs, such as mrpc, qqp or snli, or texts with a class, such as tnews"
        )
    loaded = {split: load(config, split) for split in SPLITS}
    splits = {split: examples for split, examples in loaded.items() if examples is not None}
    if not splits:
        raise UserError(
            f"{config.name} has no file: source={config.source or job.source}, data_dir={job.data_dir}; set data_dir="
            "<folder that holds the sets>, or leave it out"
        )
    task = TransferTask(config.name, splits)
    if reason := too_few(task.labels):
        raise UserError(f"transfer: {config.name}: {reason}")
    return task
