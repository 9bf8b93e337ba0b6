"""Check that a stage can learn from its rows, and count batches with nothing to compare.

Each loss declares the differences that it needs between rows (`Contrast`). Training stops before the first
step if the gradient would always be 0, or if a classifier would have one answer. A warning follows if less
can be learnt than intended.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

import numpy as np

from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.kinds import text_roles
from juzhen.core.text import counted, percent
from juzhen.data.sampler import BatchStream, stratified
from juzhen.data.spec import DatasetConfig
from juzhen.losses.loss import Contrast, Loss
from juzhen.metrics.metric_support import undefined_reason
from juzhen.models.settings import name_of
from lightning_modules.loss_factory import Match, build_loss, class_grades


def check_learnable(job: JobConfig, rows: SentenceDataModule, matches: Mapping[str, Match]) -> list[str]:
    """Check that a stage can learn from its rows, before it is trained.

    Args:
        job: The whole configuration.
        rows: Data module of the stage, with its training rows read.
        matches: Dataset key → its loss and row kind.

    Returns:
        Warnings for the user, a line each. [] without training rows.

    Raises:
        UserError: Nothing can be learnt.
    """
    warnings = []
    for name, examples in rows.train.items():
        if job.model.get("symmetric_training") and (sides := text_roles(examples.kind, examples.symmetric)):
            raise UserError(
                f"model.symmetric_training=true: {name}/train: {sides} cannot be exchanged. Type "
                "model.symmetric_training=false"
            )
        warnings += _own(job.dataset[name])
        warnings += _batches(_size_key(job, name), examples, rows.stream.batch_sizes[name])
        if matches[name].loss:
            loss = build_loss(matches[name].loss, dim=1, num_classes=max(examples.num_classes, 2))
            if loss.input_type == "logits" and examples.kind is Kind.SCORED_PAIR:
                require_grades(examples, job.dataset[name])
            size = rows.stream.batch_sizes[name]
            warnings += _Set(job, examples, loss, matches[name], size)(len(rows.train) == 1)
            if size > 1 and own_class(job.model["_target_"]).input_kind is None:
                warnings += _empty_batches(
                    rows,
                    name,
                    loss,
                    size_key=_size_key(job, name),
                    told_as=f"loss={name_of(matches[name].loss)}",
                )
    return [*warnings, *_steps(job, rows), *_validation(job, rows)] if rows.train else []


def _size_key(job: JobConfig, name: str) -> str:
    """Return the key that sets the batch size of a set."""
    overrides = job.schedule.sets.get(name)
    return f"schedule.sets.{name}.batch_size" if overrides and overrides.batch_size else "training.batch_size"


def _own(dataset: DatasetConfig) -> Iterator[str]:
    learning = vars(dataset.learning) if dataset.learning else {}
    settings = [f"{key}={str(value).lower()}" for key, value in learning.items() if value is not None]
    if settings:
        yield f"dataset.{dataset.name}.learning: {', '.join(settings)}, whatever the loss says"


def _batches(key: str, examples: Examples, size: int) -> Iterator[str]:
    if len(examples) < size:
        yield (
            f"{key}={size}: {examples.name} has {counted(len(examples), 'rows')} to train on, so every batch holds "
            f"{len(examples):,}"
        )


class _Set:
    """Checks of one set with the loss that trains on it."""

    def __init__(self, job: JobConfig, examples: Examples, loss: Loss, match: Match, batch_size: int) -> None:
        self.job = job
        self.examples = examples
        self.loss = loss
        self.name = f"loss={name_of(match.loss)}"
        self.batch_rows = min(batch_size, len(examples))
        self.size_key = _size_key(job, examples.name)
        makes_negatives = examples.kind is Kind.SENTENCE and bool(job.model.get("use_negative"))
        self.has_negatives = makes_negatives or "negative" in examples.columns

    def __call__(self, is_alone: bool) -> list[str]:
        """Return warnings about the set. `is_alone`: the stage has no other.

        Raises UserError if nothing can be learnt.
        """
        self.loss.require_equal_lists(self.examples, self.name)
        warnings = [*self._negatives()]
        match self.loss.contrast:
            case Contrast.ORDER:
                self._need_batch("rows of other gold values")
                if value := self._only_value():
                    self._refuse(f"all of them have the gold value {value}", "rows of different gold values")
            case Contrast.TEXTS | Contrast.SOME_TEXTS if not self.has_negatives:
                self._need_batch("other texts")
                self._need_texts()
            case Contrast.CLASSES if value := self._only_value():
                if is_alone or self.loss.has_parameters:
                    self._refuse(f"all of them are of one class, {value}", "rows of several classes")
                warnings.append(
                    f"{self._place()}: all are of one class, {value}. Only other sets can teach the difference"
                )
            case Contrast.VALUES if value := self._only_value():
                warnings.append(
                    f"{self._place()}: all have the gold value {value}, so {self.name} can only learn to answer with "
                    f"one score. {self._mend()}"
                )
        if self.loss.is_batchwise and self.batch_rows == 1 and not self.has_negatives:
            warnings.append(
                f"{self.size_key}=1: the part of {self.name} that compares rows has nothing to compare"
            )
        return warnings

    def _place(self) -> str:
        count = len(self.examples)
        return f"{self.examples.name}/train: {count:,} row{'s' if count > 1 else ''}"

    def _refuse(self, symptom: str, needs: str) -> NoReturn:
        raise UserError(
            f"{self._place()}, {symptom}. {self.name} learns from {needs}, so its gradient would be zero. "
            f"{self._mend()}, or choose another loss"
        )

    def _mend(self) -> str:
        """Suggest a remedy: raise the limit that truncated the set, else check the columns."""
        key = f"dataset.{self.examples.name}"
        limits = {f"{key}.limit": self._config().limit, "debug_rows": self.job.debug_rows}
        cut = [f"{name}={value}" for name, value in limits.items() if value == len(self.examples)]
        return f"Raise {' and '.join(cut)}" if cut else f"Look at the file, and at {key}.layouts.….columns"

    def _config(self) -> DatasetConfig:
        return self.job.dataset[self.examples.name]

    def _need_batch(self, partner: str) -> None:
        if self.batch_rows > 1:
            return
        if len(self.examples) == 1:
            self._refuse("no other to compare with", f"comparing a row with {partner}")
        raise UserError(
            f"{self.size_key}=1: {self.name} compares a row with {partner} in its batch, which has one row. Type "
            f"{self.size_key}=16 or more, or choose a loss that takes rows one by one"
        )

    def _need_texts(self) -> None:
        """Require another text. A text equal to the anchor or one of its positives does not count."""
        columns = self.examples.columns
        same = [column for column, numbers in columns.items() if (numbers == numbers[0]).all()]
        if same and (self.loss.contrast is Contrast.TEXTS or len(same) == len(columns)):
            text = self.examples.sentences[int(columns[same[0]][0])]
            self._refuse(f"all of them have the {same[0]} {text[:30]!r}", "telling texts apart")

    def _negatives(self) -> Iterator[str]:
        columns = self.examples.columns
        if self.examples.kind is not Kind.TRIPLET:
            return
        negatives = [values for column, values in columns.items() if column.startswith("negative")]
        equal = np.all([values == columns["positive"] for values in negatives], axis=0)
        if equal.all() and self.loss.contrast is Contrast.NEGATIVES:
            self._refuse("every negative is its row's positive", "what is closer to the anchor")
        if count := int(equal.sum()):
            first = (
                ""
                if self.examples.lines is None
                else f", first in line {self.examples.lines[equal.argmax()]}"
            )
            yield f"{self._place()}, {count:,} with a negative that is the positive{first}: they teach nothing"

    def _only_value(self) -> str | None:
        """Return the gold value of all rows as in the file. None if there are several, or none."""
        targets = self.examples.targets
        if targets is None or not (targets == targets[0]).all():
            return None
        config, value = self._config(), float(targets[0])
        if self.examples.kind is Kind.SCORED_PAIR:
            low, high = config.score_range
            return f"{low + value * (high - low):g}"
        labels = [word for word, number in (config.labels or {}).items() if number == value]
        return " or ".join(labels) or f"{value:g}"


def _steps(job: JobConfig, rows: SentenceDataModule) -> Iterator[str]:
    """Warn about settings that make fewer steps than intended."""
    training, optimizer, total = job.training, job.optimizer, rows.total_steps
    exact = rows.exact_steps(training.duration, "training.duration")
    if exact < 1:
        yield f"training.duration={training.duration} is {exact:.2g} of a step; one step is made"
    if rows.warmup_steps > total:
        yield (
            f"optimizer.warmup={optimizer.warmup} is longer than the training of {counted(total, 'steps')}, so "
            f"the learning rate gets to {percent(total, rows.warmup_steps)} of optimizer.lr. "
            "Type optimizer.warmup='10 percent'"
        )


def _validation(job: JobConfig, rows: SentenceDataModule) -> Iterator[str]:
    """Warn if no checkpoint can be chosen."""
    if not rows.selection.sets:
        splits = ",".join(job.evaluation.splits)
        yield (
            f"no dev split is scored (evaluation.splits=[{splits}], files that are there), so nothing is validated: "
            "the weights of the last step are kept, and training.patience has no effect"
        )
    for examples, metric in zip(rows.selection.sets, rows.selection.metrics, strict=True):
        if why := undefined_reason(metric, examples):
            yield (
                f"dev/{examples.name}: {why} ({counted(len(examples), 'rows')}), so its {metric} is undefined and "
                "chooses no checkpoint; where no other set does, the weights of the last step are kept"
            )


def require_grades(examples: Examples, config: DatasetConfig) -> None:
    """Check that every score of graded pairs is among the `grades` of the set.

    Args:
        examples: Graded pairs, with targets from 0 to 1.
        config: The set, with `grades` in the range of the file.

    Raises:
        UserError: The first row whose score is not among them.
    """
    assert examples.targets is not None  # graded pairs have scores
    grades = np.asarray(class_grades(config, examples.kind), dtype=np.float32)
    wrong = np.flatnonzero(np.abs(examples.targets[:, None] - grades).min(axis=1) > 1e-5)
    if not len(wrong):
        return
    low, high = config.score_range or (0.0, 1.0)
    location = "" if examples.lines is None else f":{examples.lines[wrong[0]]}"
    score = low + (high - low) * examples.targets[wrong[0]]
    raise UserError(
        f"{config.name}/{examples.split}{location}: the score is {score:g}, which is not among "
        f"dataset.{config.name}.grades={list(config.grades or ())}, and {len(wrong) - 1:,} more rows have "
        "such scores. List every score, or choose a loss of scores, such as loss=cosent"
    )


Comparison = Callable[[np.ndarray], bool]
"""Row numbers of a batch → whether its rows differ in what a loss compares."""

LOOKED_AT = 1000
"""Batches of a set that are looked at before training."""

FEW = 0.01
"""Share of empty batches that needs no line."""


def _compares_rows(examples: Examples, rows: np.ndarray, loss: Loss) -> bool:
    """Apply `compares` to the part of a loss that compares rows, if it has such a part."""
    has_part = (
        loss.is_batchwise
        and loss.contrast in (Contrast.CLASSES, Contrast.VALUES)
        and examples.targets is not None
    )
    return len(np.unique(examples.targets[rows])) > 1 if has_part else loss.has_contrast(examples, rows)


def comparisons(rows: SentenceDataModule, losses: Mapping[str, Loss]) -> dict[str, Comparison]:
    """Make the function of each set that checks if the rows of a batch differ.

    Args:
        rows: Data module of the stage. Its current rows are read at each call, since mining changes them.
        losses: Dataset key → loss. Sets without a loss are left out.

    Returns:
        Dataset key → function of row numbers. True if the rows differ in the value that the loss compares.
    """
    return {
        name: lambda chosen, name=name, loss=losses[name]: loss.has_contrast(rows.train[name], chosen)
        for name in rows.train
        if name in losses
    }


def _empty_batches(
    rows: SentenceDataModule, name: str, loss: Loss, *, size_key: str, told_as: str
) -> Iterator[str]:
    """Yield a line if more than a few batches of a set compare nothing, with the effect of balancing."""
    examples, by = rows.train[name], rows.job.training.stratify_by
    num_empty, looked_at = _count(rows, name, loss, balanced=by == "label")
    if num_empty <= FEW * looked_at:
        return
    is_empty = not all(
        loss.has_contrast(examples, chosen) for chosen in _drawn(rows, name, balanced=by == "label")
    )
    reason = (
        f"{told_as} compares nothing there, and such steps do not change the weights"
        if is_empty
        else f"the part of {told_as} that compares rows has nothing to compare there"
    )
    advice = f"raise {size_key}={rows.stream.batch_sizes[name]}"
    if examples.targets is not None and by == "none":
        balanced, _ = _count(rows, name, loss, balanced=True)
        by_label = f"training.stratify_by=label ({percent(balanced, looked_at)})"
        advice = (
            f"type {by_label}, or {advice}" if balanced < num_empty else f"{advice} ({by_label} cannot help)"
        )
    yield (
        f"{name}/train: {num_empty:,} of {looked_at:,} batches ({percent(num_empty, looked_at)}) hold rows that do not "
        f"differ: {reason}. {advice[0].upper()}{advice[1:]}"
    )


def _count(rows: SentenceDataModule, name: str, loss: Loss, *, balanced: bool) -> tuple[int, int]:
    """Count the batches without compared rows, and all inspected batches."""
    batches = _drawn(rows, name, balanced=balanced)
    return sum(not _compares_rows(rows.train[name], batch, loss) for batch in batches), len(batches)


def _drawn(rows: SentenceDataModule, name: str, *, balanced: bool) -> list[np.ndarray]:
    """Return the first batches of a set. `balanced`: stratified by label."""
    examples, size = rows.train[name], rows.stream.batch_sizes[name]
    stream = BatchStream({name: len(examples)}, batch_size=size, num_batches=0, seed=rows.job.seed)
    if balanced:
        stream.window = stream.batches_of[name]
        stream.shapes = {name: stratified("label", examples.targets, lambda: examples.targets, len(examples))}
    return [chosen for _, chosen in stream.epoch(0)[:LOOKED_AT]]
