"""The LightningDataModule: training batches of a stage, and evaluation texts."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset

from conf.job import Duration, JobConfig
from conf.own_classes import own_class
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, RANKED, Examples, Kind
from juzhen.core.kinds import CLASS_MEANS, MEASURES, OF_ANY_TEXT, chooses
from juzhen.data.loading import JobData, TransferTask
from juzhen.data.sampler import BatchRows, BatchStream, Shape, TokenBudget, strata, stratified


@dataclass(frozen=True)
class Stage:
    """One fit on one or several datasets, followed by one test. `launch.job` plans them.

    Attributes:
        index: 0-based position in the curriculum.
        name: Name of the stage, for folders and logs.
        datasets: Keys of the datasets that are mixed in this stage. Empty: nothing is trained.
        history: Sets trained up to and including this stage, oldest first: keys of datasets, or "a+b" for a
            mixture that is one stage of several.
    """

    index: int
    name: str
    datasets: tuple[str, ...]
    history: tuple[str, ...]


def only_stage(datasets: Sequence[str]) -> Stage:
    """Make the only stage of a mixture.

    Args:
        datasets: Keys of the mixed datasets. (): nothing is trained.

    Returns:
        A stage of index 0. Its name joins the keys by +, or is `untrained`.
    """
    return Stage(0, "+".join(datasets) or "untrained", tuple(datasets), tuple(datasets))


@dataclass(frozen=True)
class Selection:
    """Dev sets that choose the weights, each by a metric (higher = better). Without sets: the last weights.

    Args:
        sets: Dev splits.
        metrics: Metric of each set. Several sets are averaged.
        untrained: None of the sets is trained on, since no trained set has a scored dev split.
    """

    sets: list[Examples]
    metrics: list[str]
    untrained: bool = False

    @property
    def metric(self) -> str:
        """Metric that all sets share, else `mean`."""
        return self.metrics[0] if len(set(self.metrics)) == 1 else "mean" if self.metrics else "spearman"

    @property
    def key(self) -> str:
        """Logged key that chooses a checkpoint."""
        return f"dev/selection/{self.metric}"

    @property
    def columns(self) -> list[str]:
        """Keys whose mean decides."""
        return [
            f"dev/{examples.name}/{metric}" for examples, metric in zip(self.sets, self.metrics, strict=True)
        ]

    @property
    def in_words(self) -> str:
        """The selection in words."""
        if not self.sets:
            return "the last step"
        of_metric = {metric: [] for metric in self.metrics}
        for examples, metric in zip(self.sets, self.metrics, strict=True):
            of_metric[metric].append(examples.name)
        parts = " and ".join(f"{metric} of {', '.join(names)}" for metric, names in of_metric.items())
        goal = f"the best {'mean ' if len(self.sets) > 1 else ''}dev {parts}"
        return (
            f"{goal} (no set that is trained on has a dev split that is scored)" if self.untrained else goal
        )


def select(
    evaluation: Sequence[Examples],
    trained: Sequence[str],
    *,
    monitor: str,
    metric: str,
    unscored: Collection[Kind] = (),
) -> Selection:
    """Return the selection by `training.monitor`.

    `auto` selects the dev splits of the trained sets, each by the default metric of its kind
    (`juzhen.core.kinds.chooses`). If no trained set has one, it selects all sets that have the model's metric
    on dev. Else it selects the first of the positive pairs, triplets and judgements, and the sets that share
    its metric. `dev/<set>/<metric>` selects this metric.

    Args:
        evaluation: Rows of all evaluation sets and splits.
        trained: Keys of the training sets.
        monitor: `training.monitor`: auto, or dev/<set>/<metric>.
        metric: The model's metric.
        unscored: Kinds that the model has no metric for.

    Returns:
        Sets and their metrics. Both are empty if no set has a metric on dev.

    Raises:
        UserError: The named set has no dev split.
    """
    dev = [examples for examples in evaluation if examples.split == "dev"]
    if monitor != "auto":
        _, name, metric = monitor.split("/")
        named = [examples for examples in dev if examples.name == name]
        if not named:
            raise UserError(
                f"training.monitor={monitor}: no dev split of {name} is evaluated. There is "
                f"{', '.join(examples.name for examples in dev) or 'none'}. Type "
                "training.monitor=dev/<dataset>/spearman or auto."
            )
        return Selection(named, [metric])
    of_any_text = metric == OF_ANY_TEXT
    metrics = {examples.name: metric if of_any_text else chooses(examples.kind, unscored) for examples in dev}
    trained_sets = [examples for examples in dev if examples.name in trained and metrics[examples.name]]
    if trained_sets:
        return Selection(trained_sets, [metrics[examples.name] for examples in trained_sets])
    other_sets = [examples for examples in dev if of_any_text or metric in MEASURES[examples.kind]]
    if not other_sets:
        ranked = [examples for examples in dev if examples.kind in (*RANKED, *JUDGED)]
        other_sets = [examples for examples in ranked if metrics[examples.name] == metrics[ranked[0].name]]
    return Selection(
        other_sets, [metrics[examples.name] for examples in other_sets], untrained=bool(other_sets)
    )


def _validated(selection: Selection) -> tuple[list[Examples], list[TransferTask]]:
    by_class = [
        TransferTask(examples.name, {"dev": examples}, by_means=True)
        for examples, metric in zip(selection.sets, selection.metrics, strict=True)
        if metric == CLASS_MEANS
    ]
    return [
        examples for examples in selection.sets if examples.kind is not Kind.LABELLED_TEXT or not by_class
    ], by_class


def blends(job: JobConfig) -> bool:
    """True if each optimizer step of a stage has a batch of every set.

    Args:
        job: Its datasets and `schedule.sample_by` are read.

    Returns:
        False for one set.
    """
    return len(job.dataset) > 1 and job.schedule.sample_by == "blend"


def loss_weights(job: JobConfig, sets: Sequence[str]) -> dict[str, float]:
    """Return the loss weight of each set in a stage.

    Args:
        job: Its `schedule` is read.
        sets: Keys of the datasets of the stage.

    Returns:
        Dataset key → weight. {} for a single set or weights that are all 1.
    """
    schedule = job.schedule
    weights = {}
    for name in sets:
        numbers = schedule.sets.get(name)
        weight = numbers.weight if numbers is not None and schedule.weigh_loss else None
        weights[name] = (numbers.loss_weight if numbers is not None else None) or weight or 1.0
    return weights if len(sets) > 1 and set(weights.values()) != {1.0} else {}


class _Rows(Dataset):
    """Makes batches from row numbers, in the worker processes of a loader."""

    def __init__(self, tables: dict[str, Examples], collate: Callable[[Examples, np.ndarray], Batch]) -> None:
        self.tables = tables
        self.collate = collate

    def __getitem__(self, chosen: BatchRows | np.ndarray) -> Batch:
        if isinstance(chosen, BatchRows):
            batch = self.collate.training_batch(self.tables[chosen.task], chosen.rows, index=chosen.number)
            batch.compares = chosen.compares
            return batch
        return self.collate(self.tables[""], chosen)


class SentenceDataModule(pl.LightningDataModule):
    """Serves one stage.

    A stage is a single Lightning epoch. The stream runs through the data for as many epochs as its duration
    needs. A resumed stage therefore restores one thing, the number of finished batches.

    Args:
        data: Training and evaluation rows of the job.
        stage: The stage. Its datasets are served.
        job: The whole configuration.

    Attributes:
        selection: Dev sets whose mean score chooses the checkpoint. `selecting` are their names.
        train: Dataset key → training rows.
        rows_change: Entries of `train` are replaced between two steps, so other processes must not hold
            copies.
        collate: Examples and row numbers → Batch (the model's).
        plan: Sets, and tasks of a classifier if there are any → texts that the model must encode to score
            them.

    Raises:
        UserError: `training.monitor` names a dev split that is not evaluated.
    """

    def __init__(self, data: JobData, stage: Stage, *, job: JobConfig) -> None:
        super().__init__()
        self.data = data
        self.stage = stage
        self.job = job
        self.train = {name: data.train[name] for name in stage.datasets}
        self.selection = Selection([], [])
        if self.train:
            model = own_class(job.model["_target_"])
            self.selection = select(
                data.evaluation,
                stage.datasets,
                monitor=job.training.monitor,
                metric=model.metric,
                unscored=model.unscored,
            )
        self.selecting = [examples.name for examples in self.selection.sets]
        self.rows_change = False
        self._batches_done = 0
        training, overrides = job.training, job.schedule.sets
        sizes = {name: len(examples) for name, examples in self.train.items()}
        batch_sizes = {
            name: (overrides[name].batch_size if name in overrides else None) or training.batch_size
            for name in sizes
        }
        self.stream = BatchStream(
            sizes, batch_size=batch_sizes, num_batches=0, seed=job.seed, **self._sampling(batch_sizes)
        )
        self.blends = blends(job) and len(sizes) > 1
        self.batches_per_step = training.accumulate * (len(sizes) if self.blends else 1)
        self.steps_per_epoch = math.ceil(self.stream.batches_per_epoch / self.batches_per_step)
        self.total_steps, self.warmup_steps = 0, 0
        if self.train:
            self.total_steps = self.in_steps(training.duration, "training.duration", total_steps=None)
            warmup = job.optimizer.warmup
            self.warmup_steps = self.in_steps(warmup, "optimizer.warmup", total_steps=self.total_steps)
        self.stream.num_batches = self.total_steps * self.batches_per_step

    def _sampling(self, batch_sizes: dict[str, int]) -> dict[str, Any]:
        """Return order and shares of the sets in the stream. {} if every row comes once per epoch."""
        schedule = self.job.schedule
        by = schedule.sample_by
        if len(batch_sizes) < 2 or (by == "size" and schedule.temperature == 1):
            return {}
        if by in ("round_robin", "blend"):
            return {"order": "in_turn"}
        if by == "size":
            parts = {name: len(examples) / batch_sizes[name] for name, examples in self.train.items()}
        else:
            weights = {name: numbers.weight for name, numbers in schedule.sets.items()}
            parts = {name: (by != "uniform" and weights.get(name)) or 1.0 for name in self.train}
        largest = max(parts.values())  # powers of numbers up to 1 stay finite
        shares = {name: (part / largest) ** (1 / schedule.temperature) for name, part in parts.items()}
        return {"shares": shares, "order": "drawn" if by == "drawn" else "shuffled"}

    def in_steps(self, duration: str, key: str, *, total_steps: int | None) -> int:
        """Convert a duration of the configuration into optimizer steps of this stage.

        Args:
            duration: Text, such as `2 epochs`.
            key: Configuration key for the message.
            total_steps: Steps of the stage. A percentage is taken of them. None: of one epoch.

        Returns:
            Steps, at least 1 unless the amount is 0.

        Raises:
            UserError: The text is not a duration.
        """
        return Duration.parse(duration, key=key).in_steps(**self._step(), total_steps=total_steps)

    def exact_steps(self, duration: str, key: str) -> float:
        """Convert a duration of training into steps, before rounding to at least one.

        Args:
            duration: Text, such as `2 epochs`. A percentage is of one epoch.
            key: Configuration key for the message.

        Returns:
            Steps, possibly a fraction.
        """
        return Duration.parse(duration, key=key).exact_steps(**self._step(), total_steps=None)

    def _step(self) -> dict[str, float]:
        rows = self.stream.mean_batch_size * self.batches_per_step
        return {"steps_per_epoch": self.steps_per_epoch, "batch_size": rows}

    def serve(self, collate: Callable[[Examples, np.ndarray], Batch], plan: Callable[..., Any]) -> None:
        """Set the model's functions for batches and plans. Call once before passing this to a Trainer.

        Args:
            collate: Examples and row numbers → Batch, the model's `collate`.
            plan: Sets, and tasks of a classifier → texts to encode, the model's `plan`.
        """
        self.collate = collate
        self.validation_plan = plan(*_validated(self.selection)) if self.selection.sets else None
        is_tested = self.data.evaluation or self.data.tasks
        self.test_plan = plan(self.data.evaluation, self.data.tasks) if is_tested else None

    def train_dataloader(self) -> DataLoader:
        for examples in self.train.values():
            self.collate.token_lists(examples)  # before workers start, so that they share it
        self.stream.rank, self.stream.world = self.trainer.global_rank, self.trainer.world_size
        self.stream.start = self._batches_done
        self._compose_batches()
        workers = 0 if self.rows_change else self.job.hardware.num_workers
        return self._loader(_Rows(self.train, self.collate), self.stream, workers)

    def _compose_batches(self) -> None:
        """Give the stream the properties of rows if batches are not random."""
        training = self.job.training
        self.stream.window = training.length_window
        if training.stratify_by != "none":
            self.stream.window = max(self.stream.batches_of.values())  # all rows of a set
            self.stream.shapes = {
                name: stratified(
                    training.stratify_by,
                    examples.targets,
                    partial(self.collate.row_lengths, examples),
                    len(examples),
                )
                for name, examples in self.train.items()
            }
        elif training.length_window > 1:
            self.stream.shapes = {
                name: Shape(self.collate.row_lengths(examples), strata(examples.targets, len(examples)))
                for name, examples in self.train.items()
            }

    def val_dataloader(self) -> DataLoader | list:
        return self._evaluation_loader(self.validation_plan)

    def test_dataloader(self) -> DataLoader | list:
        return self._evaluation_loader(self.test_plan)

    def _evaluation_loader(self, plan: Any) -> DataLoader | list:
        if plan is None:
            return []
        order = TokenBudget(
            self.collate.row_lengths(plan.examples),
            max_tokens=self.job.hardware.eval_batch_tokens,
            rank=self.trainer.global_rank,
            world=self.trainer.world_size,
            even=self.job.hardware.strategy == "fsdp",
        )
        if not order.batches:
            # A process without batches would skip the pass, and the others would wait for it for ever. It
            # repeats one row instead, which changes nothing: outputs are put in their place by row number.
            order.batches = [np.zeros(1, dtype=np.int64)]
        return self._loader(_Rows({"": plan.examples}, self.collate), order, self.job.hardware.num_workers)

    def _loader(self, rows: _Rows, order: BatchStream | TokenBudget, workers: int) -> DataLoader:
        return DataLoader(
            rows,
            batch_size=None,
            sampler=order,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=self.job.hardware.accelerator == "cuda",
            # A generator of its own: an iterator must not draw from the one that dropout uses.
            generator=torch.Generator().manual_seed(self.job.seed),
        )

    def state_dict(self) -> dict[str, int]:
        return {"batches_done": self.trainer.fit_loop.epoch_loop.batch_progress.current.ready}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._batches_done = state["batches_done"]
