"""Comparison of a training with the weights that it started from: its verdict, and weights between the two.

`training.keep=balanced` interpolates as WiSE-FT does (Wortsman et al. 2022, https://arxiv.org/abs/2109.01903): the mean
of start and checkpoint loses less on other sets. Its ratio is chosen on dev.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.kinds import main_metric_keys
from juzhen.core.result import Score
from juzhen.evaluation.encoding_plan import EncodingPlan

FORWARD_PASSES = 3
"""Cost of learning from a text: forward, and twice as much for the gradients."""

CHEAP = 0.05
"""Share of a training that `evaluation.verdict=auto` may take. The training may stop early, at half of its steps."""

MAY_LOSE, KEEPS = 0.5, 0.95
"""What `training.keep=balanced` allows: points that other dev sets lose on average, and share of the own gain."""

RATIOS = tuple(round(number / 10, 1) for number in range(10, 0, -1))


def check_start_comparison(jobs: Sequence[JobConfig]) -> None:
    """Check that a comparison with the start has a meaning.

    Args:
        jobs: Jobs of the stages.

    Raises:
        UserError: A comparison without meaning.
    """
    job, settings = jobs[0], own_class(jobs[0].model["_target_"]).Settings
    is_random = job.init_from is None and job.backbone.initialize == "random"
    reasons = {
        "the weights at the start are random. Start from trained weights": is_random,
        f"{settings.no_common_start}. Choose model=biencoder": bool(settings.no_common_start),
    }
    if job.evaluation.verdict == "always" and job.dataset:
        _refuse("evaluation.verdict=always", reasons)
    if all(each.training.keep == "checkpoint" for each in jobs):
        return
    reasons |= {
        "it merges text encoders alone. Choose model=biencoder": "embeddings" not in settings.provides,
        f"the job has {len(jobs)} stages, each with another start. Train one stage": len(jobs) > 1,
        "an adapter is a product, which is not merged in parts. Leave adapter out": job.backbone.adapter
        is not None,
        "a new score form has no start. Leave model.score out": job.model.get("score") == "bilinear",
        "the ratio depends on sets that are only evaluated. Leave schedule.store out": bool(
            job.schedule.store
        ),
        "the weights are on several devices. Choose another hardware.strategy": job.hardware.strategy
        == "fsdp",
    }
    _refuse("training.keep=balanced", reasons)


def _refuse(word: str, reasons: Mapping[str, bool]) -> None:
    for reason, holds in reasons.items():
        if holds:
            raise UserError(f"{word}: {reason}.")


def gives_verdict(job: JobConfig, *, stage: int) -> bool:
    """True if `evaluation.verdict=auto` compares a stage with its start, if that is cheap.

    Args:
        job: Job of the stage.
        stage: Position of the stage, from 0.

    Returns:
        False for a start from random weights, for models without a common start, and for other backends.
    """
    settings = own_class(job.model["_target_"]).Settings
    is_random = job.init_from is None and job.backbone.initialize == "random" and stage == 0
    return not (is_random or settings.no_common_start or job.evaluation.backend != "torch")


def compared_sets(evaluation: Sequence[Examples]) -> list[Examples]:
    """Choose one split of each set that is scored row by row: test, because dev chose the weights, else dev.

    Args:
        evaluation: Rows of all evaluation sets and splits.

    Returns:
        Rows of one split for each set. Labelled texts are left out.
    """
    chosen = {examples.name: examples for examples in sorted(evaluation, key=lambda examples: examples.split)}
    return [examples for examples in chosen.values() if examples.kind is not Kind.LABELLED_TEXT]


def cost_of_scoring(plan: EncodingPlan, data: SentenceDataModule) -> float:
    """Estimate the time to score a plan as a share of the planned training, by counting tokens.

    Args:
        plan: Texts to encode.
        data: Data module of the stage, with its stream and collator.

    Returns:
        A fraction of the training, possibly above 1.
    """
    stream, learnt = data.stream, 0.0
    for name, count in stream.mean_batches.items():
        rows = stream.num_batches * count / stream.batches_per_epoch * stream.batch_sizes[name]
        lengths = data.collate.lengths(data.train[name])
        learnt += rows * sum(float(lengths[column].mean()) for column in data.train[name].columns.values())
    return float(data.collate.row_lengths(plan.examples).sum()) / max(FORWARD_PASSES * learnt, 1.0)


@dataclass(frozen=True)
class Balance:
    """Weights between start and checkpoint, in points of dev.

    Args:
        ratio: Of the checkpoint. The rest is the start.
        own_gain: Mean gain on the dev sets of the target.
        own_gain_of_checkpoint: The same of the checkpoint.
        others_change: Mean change on the other dev sets.
        others_change_of_checkpoint: The same of the checkpoint.
        changes: Set → its change.
        tried: Ratio → own gain and change of the others.
    """

    ratio: float
    own_gain: float
    own_gain_of_checkpoint: float
    others_change: float
    others_change_of_checkpoint: float
    changes: dict[str, float]
    tried: dict[str, tuple[float, float]]

    def line(self) -> str:
        """One line for the log.

        Returns:
            Text without a line break.
        """
        is_met = self.others_change >= -MAY_LOSE
        told = (
            f"balanced: {self.ratio:g} of the checkpoint and {1 - self.ratio:g} of the start. Own dev gain "
            f"{self.own_gain:+.1f} (checkpoint {self.own_gain_of_checkpoint:+.1f}), others {self.others_change:+.1f} "
            f"(checkpoint {self.others_change_of_checkpoint:+.1f})"
        )
        return (
            told if is_met else f"{told}; no ratio keeps {KEEPS:.0%} of the gain and loses {MAY_LOSE} or less"
        )

    def facts(self) -> dict[str, Any]:
        """The same for a Result, rounded.

        Returns:
            Field → numbers with two digits.
        """
        return {
            key: {name: np.round(number, 2).tolist() for name, number in value.items()}
            if isinstance(value, dict)
            else round(value, 2)
            for key, value in asdict(self).items()
        }


class Balancing:
    """Chooses the ratio of `training.keep=balanced`.

    The largest ratio whose other sets lose at most MAY_LOSE points is taken, as long as KEEPS of the own gain is left.
    If no ratio does both, the one with the smallest loss that keeps the gain is taken.

    Args:
        encoder: The encoder before training. A copy of its weights is kept: 4 bytes per parameter.
        score: Scores the encoder with its current weights on dev.
        trained: Names of the training sets.

    Raises:
        UserError: No dev set of the target, or none of another set.
    """

    def __init__(
        self, encoder: nn.Module, score: Callable[[], Mapping[str, Score]], trained: Sequence[str]
    ) -> None:
        self.encoder, self._score = encoder, score
        self._start = _weights(encoder)
        self._before = _points(score())
        self._own = [name for name in self._before if name in trained]
        self._others = [name for name in self._before if name not in trained]
        if not self._own or not self._others:
            missing = "of a training set" if not self._own else "of another set"
            raise UserError(
                f"training.keep=balanced: no dev split {missing} is scored. Add sets, such as benchmark=demo."
            )

    def choose(self) -> Balance:
        """Leave the chosen weights in the encoder, which now holds the checkpoint.

        Returns:
            The ratio, its gains in points (×100), and those of the checkpoint.
        """
        checkpoint = _weights(self.encoder)
        tried: dict[float, dict[str, float]] = {}
        for ratio in RATIOS:
            self._put(checkpoint, ratio)
            after = _points(self._score())
            changes = {name: after[name] - value for name, value in self._before.items()}
            if tried and self._own_gain(changes) < KEEPS * self._own_gain(tried[1.0]):
                break
            tried[ratio] = changes
            if self._change_of_others(changes) >= -MAY_LOSE or self._own_gain(changes) <= 0:
                break
        best = max(tried, key=lambda ratio: min(self._change_of_others(tried[ratio]), -MAY_LOSE))
        self._put(checkpoint, best)
        return Balance(
            best,
            self._own_gain(tried[best]),
            self._own_gain(tried[1.0]),
            self._change_of_others(tried[best]),
            self._change_of_others(tried[1.0]),
            tried[best],
            {
                f"{ratio:g}": (self._own_gain(each), self._change_of_others(each))
                for ratio, each in tried.items()
            },
        )

    def _own_gain(self, changes: Mapping[str, float]) -> float:
        return float(np.mean([changes[name] for name in self._own]))

    def _change_of_others(self, changes: Mapping[str, float]) -> float:
        return float(np.mean([changes[name] for name in self._others]))

    @torch.no_grad()
    def _put(self, checkpoint: Mapping[str, Tensor], ratio: float) -> None:
        for name, values in self.encoder.state_dict().items():
            if name in checkpoint:
                values.copy_(torch.lerp(self._start[name], checkpoint[name], ratio))


def _weights(encoder: nn.Module) -> dict[str, Tensor]:
    return {
        name: values.detach().cpu().clone()
        for name, values in encoder.state_dict().items()
        if values.is_floating_point()
    }


def _points(scores: Mapping[str, Score]) -> dict[str, float]:
    """Set → mean of its main metrics on dev, in points. Undefined ones count as 0."""
    found: dict[str, list[float]] = {}
    for key in main_metric_keys(scores):
        split, name, _ = key.split("/")
        if split == "dev":
            found.setdefault(name, []).append(100 * (scores[key].value or 0.0))
    return {name: float(np.mean(values)) for name, values in found.items()}
