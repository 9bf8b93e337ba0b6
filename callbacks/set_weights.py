"""Weights of the losses of several sets, which change in training: their formulas, and their callbacks."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Float
from torch import Tensor, nn

from callbacks.lightning_internals import is_between_steps
from conf.job import JobConfig
from datamodules.datamodule import loss_weights
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.core.schema import validated
from juzhen.losses.arguments import Count, Positive, Share, Temperature, Weight
from lightning_modules.loss_factory import Match

SMALLEST_WEIGHT = 1e-3
"""Of GradNorm: a task with weight 0 has no gradient, by which it would come back."""


def by_mean_loss(
    weights: Float[Tensor, "tasks"], losses: Float[Tensor, "tasks"], *, alpha: float
) -> Float[Tensor, "tasks"]:
    """w ← (1 − α) w + α W L/ΣL, with the mean losses L since the last update and the sum W of all weights.

    A large loss gets more weight. Weights that sum to 1 have W = 1. Otherwise W preserves their sum. Tasks
    without a loss (NaN) keep their weight.

    Args:
        weights: Current weights w.
        losses: Mean losses L since the last update. NaN for a task without batches.
        alpha: Share of the new weights, 0 to 1.

    Returns:
        The next weights.
    """
    is_known = ~losses.isnan()
    total = torch.where(is_known, losses, 0).sum()
    target = torch.where(is_known, weights, 0).sum() * losses / total
    return torch.where(is_known & (total > 0), (1 - alpha) * weights + alpha * target, weights)


def by_loss_ratio(
    last: Float[Tensor, "tasks"], before: Float[Tensor, "tasks"], *, temperature: float
) -> Float[Tensor, "tasks"]:
    """Dynamic weight average: w_k = K · softmax_k(r_k/T), with r_k = L_k(t−1)/L_k(t−2).

    Slower tasks weigh more. (Liu et al. 2019, equation 7, https://arxiv.org/abs/1803.10704)

    Args:
        last: Mean losses of the last period.
        before: Mean losses of the period before. The ratio of a NaN counts as 1.
        temperature: T, above 0. It divides ratios.

    Returns:
        Weights that sum to the number of tasks K.
    """
    ratios = torch.nan_to_num(last / before, nan=1.0, posinf=1.0)
    return len(last) * torch.softmax(ratios / temperature, dim=0)


def by_uncertainty(loss: Float[Tensor, ""], log_variance: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """exp(−s) L + s, with the learnt s = log σ². For a fixed L it is least at s = log L.

    (Kendall et al. 2018, equation 7, https://arxiv.org/abs/1705.07115, twice that, so that s = 0 is the plain
    loss.)

    Args:
        loss: L of one task, after its fixed weight.
        log_variance: s, a parameter. It receives a gradient.

    Returns:
        The weighted loss.
    """
    return torch.exp(-log_variance) * loss + log_variance


def by_gradient_norm(
    weights: Float[Tensor, "tasks"],
    norms: Float[Tensor, "tasks"],
    losses: Float[Tensor, "tasks"],
    first_losses: Float[Tensor, "tasks"],
    *,
    alpha: float,
    rate: float,
) -> Float[Tensor, "tasks"]:
    """One step of GradNorm on the weights, which then sum to K again.

    L_grad = Σ_k |w_k g_k − Ḡ r_k^α|, with the length g_k of the gradient of the unweighted loss, the mean Ḡ
    of w_k g_k, and r_k = (L_k/L_k(0)) over its mean. The second part counts as constant. So w_k ← w_k − rate
    · sign(…) · g_k.

    (Chen et al. 2018, equations 1 and 2, https://arxiv.org/abs/1711.02257)

    Args:
        weights: Current weights w.
        norms: Lengths g of the gradients of the unweighted losses.
        losses: Current losses L.
        first_losses: Losses L(0) of the first step.
        alpha: Exponent α of the relative progress. 0: gradients of equal length.
        rate: Learning rate of the weights.

    Returns:
        The next weights. None is below SMALLEST_WEIGHT before they are scaled to sum K.
    """
    lengths = weights * norms
    progress = losses / first_losses
    targets = lengths.mean() * (progress / progress.mean()) ** alpha
    moved = (weights - rate * torch.sign(lengths - targets) * norms).clamp(min=SMALLEST_WEIGHT)
    return len(weights) * moved / moved.sum()


def by_score(scores: Float[Tensor, "tasks"], *, gamma: float) -> Float[Tensor, "tasks"]:
    """w_k ∝ −(1 − κ_k)^γ log κ_k of scores κ in (0, 1), summing to K. Tasks with high scores weigh less.

    Scores are clamped to [0.01, 0.99]. (Guo et al. 2018, equation 4,
    https://doi.org/10.1007/978-3-030-01270-0_17)

    Args:
        scores: Dev score κ of each task.
        gamma: Exponent γ. 0: weights by −log κ alone.

    Returns:
        Weights that sum to the number of tasks K.
    """
    clipped = scores.clamp(0.01, 0.99)
    focal = -((1 - clipped) ** gamma) * clipped.log()
    return len(scores) * focal / focal.sum()


def without_conflicts(
    gradients: Sequence[Sequence[Tensor]], *, generator: torch.Generator | None = None
) -> list[Tensor]:
    """PCGrad: sum of the tasks' gradients, each without its conflicts with the others, in random order.

    g_i ← g_i − (g_i · g_j)/‖g_j‖² g_j for each other j with g_i · g_j < 0, g_j as it was. (Yu et al. 2020,
    algorithm 1, https://arxiv.org/abs/2001.06782)

    Args:
        gradients: One list of tensors for each task, over the same parameters.
        generator: Generator of the order. None: that of torch.

    Returns:
        The sum, a tensor for each parameter.
    """
    count = len(gradients)
    squares = [_dot(gradient, gradient) for gradient in gradients]
    total: list[Tensor] = []
    for number, gradient in enumerate(gradients):
        projected = [part.clone() for part in gradient]
        order = torch.randperm(count, generator=generator).tolist()
        for other in order:
            if other == number:
                continue
            against = _dot(projected, gradients[other]).clamp(max=0) / squares[other].clamp(min=1e-30)
            for part, of_other in zip(projected, gradients[other], strict=True):
                part.sub_(against.to(part.dtype) * of_other)
        if total:
            projected = [values.add_(part) for values, part in zip(total, projected, strict=True)]
        total = projected
    return total


def _dot(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    return torch.stack([(a * b).sum() for a, b in zip(first, second, strict=True)]).sum()


KEY = "callbacks.weights"


class SetWeights(pl.Callback):
    """Multiplies the loss of each set by its fixed weight and by a weight of the subclass.

    It logs `train/<set>/weight`. A stage of one set is not changed. The checkpoint contains all state of the
    weights.

    Attributes:
        values: Factor of the weighted loss of each set, on the device.
    """

    needs_blend: ClassVar[bool] = False
    kept: ClassVar[tuple[str, ...]] = ("values",)
    """Tensors that go on after a resume."""
    are_learnt: ClassVar[bool] = False
    """The weights are parameters of the module: when the best step is loaded, they are of that step."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.values = torch.ones(0)
        self._loaded: dict[str, Tensor] = {}

    def check_job(self, job: JobConfig, stages: Sequence[Mapping[str, Match]]) -> None:
        """Check that a job has sets to weight, before rows are read.

        Args:
            job: Its `schedule.sample_by` is read.
            stages: For each stage, dataset key → its loss and row kind.

        Raises:
            UserError: No stage mixes sets, or the steps do not blend them and the weights need it.
        """
        if all(len(matches) < 2 for matches in stages):
            raise UserError(
                f"{KEY}: it weighs the losses of several sets, and no stage of this job mixes any. Leave weights=… "
                "out, or name more sets, as in 'dataset=[demo_sts,demo_qmc]'"
            )
        if self.needs_blend and job.schedule.sample_by != "blend":
            raise UserError(
                f"{KEY}: {type(self).__name__} compares the gradients that the sets have in one step, and with "
                f"schedule.sample_by={job.schedule.sample_by} a step has rows of one set. Type "
                "schedule.sample_by=blend"
            )

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if stage != "fit" or len(trainer.datamodule.train) < 2:
            return
        self.names = list(trainer.datamodule.train)
        fixed = loss_weights(pl_module.job, self.names)
        self._fixed = [fixed.get(name, 1.0) for name in self.names]
        self.values = torch.ones(len(self.names))
        self.begin(pl_module)
        pl_module.weigh = self.weigh

    def begin(self, module: pl.LightningModule) -> None:
        """Create the state of the weights, once the sets are known.

        Args:
            module: Module of the stage. Learnt weights are added to it.
        """

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for name in self.kept if self.names else ():
            setattr(self, name, self._loaded.get(name, getattr(self, name)).to(pl_module.device))

    def weigh(self, task: str, loss: Tensor) -> Tensor:
        """Weight the loss of a set in a step. The module calls it as its `weigh`.

        Args:
            task: Dataset key.
            loss: Scalar loss of its batch.

        Returns:
            The weighted scalar loss.
        """
        number = self.names.index(task)
        return self.values[number] * (self._fixed[number] * loss)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, index: int
    ) -> None:
        if not self.names:
            return
        self.record(self.names.index(batch.task), pl_module.set_loss)
        if is_between_steps(trainer):
            return
        self.update(trainer)
        if trainer.global_step % trainer.log_every_n_steps == 0:
            values = zip(self.names, self.current().unbind(), strict=True)
            logged = {f"train/{name}/weight": value for name, value in values}
            pl_module.log_dict(logged, batch_size=1, rank_zero_only=False)

    def record(self, place: int, loss: Tensor) -> None:
        """Record the loss of a batch, before weighting.

        Args:
            place: Index of the set in `names`.
            loss: Detached scalar loss.
        """

    def update(self, trainer: pl.Trainer) -> None:
        """Update the weights when due, after each optimizer step.

        Args:
            trainer: Its `global_step` counts the finished steps. Its strategy averages over processes.
        """

    def current(self) -> Tensor:
        """Return the current factor of each set's loss, including its fixed weight.

        Returns:
            One factor for each set, in the order of `names`.
        """
        return self.values.detach() * torch.tensor(self._fixed, device=self.values.device)

    def weights_at(self, kept_step: int, steps: int) -> dict[str, dict[str, float]]:
        """Return the weights for the record of a training.

        Args:
            kept_step: Step of the weights that the module holds. Learnt weights are of that step.
            steps: Finished optimizer steps. Other weights are of the last step.

        Returns:
            Dataset key → `weight`, and its step as `weight_step`. {} for a stage of one set.
        """
        step = kept_step if self.are_learnt else steps
        return {name: {"weight": weight, "weight_step": step} for name, weight in self.summary().items()}

    def summary(self) -> dict[str, float]:
        """Return set → weight: that of the module's step if weights are learnt, else the last one.

        Returns:
            Weights with six digits. {} before the stage has sets.
        """
        current = self.current().tolist() if self.names else []
        return {name: float(f"{value:.6g}") for name, value in zip(self.names, current, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).cpu() for name in self.kept if self.names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loaded = dict(state)


class _ByLosses(SetWeights):
    """Weights by the mean losses since the last update, of all processes.

    Args:
        every_steps: Optimizer steps between two updates.
    """

    kept = ("values", "sums", "counts")

    def __init__(self, *, every_steps: int) -> None:
        super().__init__()
        self.every_steps = validated(Count, every_steps, f"{KEY}.every_steps")

    def begin(self, module: pl.LightningModule) -> None:
        self.sums, self.counts = (torch.zeros(len(self.names)) for _ in range(2))

    def record(self, place: int, loss: Tensor) -> None:
        self.sums[place] += loss
        self.counts[place] += 1

    def update(self, trainer: pl.Trainer) -> None:
        if trainer.global_step % self.every_steps:
            return
        self.change(trainer.strategy.reduce(self.sums / self.counts, reduce_op="mean"))
        self.sums, self.counts = torch.zeros_like(self.sums), torch.zeros_like(self.counts)

    @abstractmethod
    def change(self, means: Tensor) -> None:
        """Set the next weights.

        Args:
            means: Mean loss of each set since the last update. NaN for a set without batches.
        """


class MeanLoss(_ByLosses):
    """Larger losses get larger weights, by `by_mean_loss` every so many steps. Starts from the fixed weights.

    Args:
        every_steps: Optimizer steps between two updates.
        alpha: Share of the new weights. The old weights have the rest.
    """

    def __init__(self, *, every_steps: int, alpha: float) -> None:
        super().__init__(every_steps=every_steps)
        self.alpha = validated(Share, alpha, f"{KEY}.alpha")

    def begin(self, module: pl.LightningModule) -> None:
        super().begin(module)
        self.values, self._fixed = torch.tensor(self._fixed), [1.0] * len(self.names)

    def change(self, means: Tensor) -> None:
        self.values = by_mean_loss(self.values, means, alpha=self.alpha)


class LossRatio(_ByLosses):
    """Dynamic weight average: `by_loss_ratio` of the last two periods. Weights are equal in the first two.

    Args:
        every_steps: Optimizer steps between two updates.
        temperature: Divides ratios. A large temperature makes weights equal.
    """

    kept = (*_ByLosses.kept, "before")

    def __init__(self, *, every_steps: int, temperature: float) -> None:
        super().__init__(every_steps=every_steps)
        self.temperature = validated(Temperature, temperature, f"{KEY}.temperature")

    def begin(self, module: pl.LightningModule) -> None:
        super().begin(module)
        self.before = torch.full((len(self.names),), torch.nan)

    def change(self, means: Tensor) -> None:
        self.values = by_loss_ratio(means, self.before, temperature=self.temperature)
        self.before = torch.where(means.isnan(), self.before, means)


class Uncertainty(SetWeights):
    """`by_uncertainty`: a log-variance for each set, which the optimizer learns together with the encoder.

    Args:
        lr: Peak learning rate of the log-variances. They are neither decayed nor clipped.
    """

    kept = ()  # the module has them
    are_learnt = True

    def __init__(self, *, lr: float) -> None:
        super().__init__()
        self.lr = validated(Positive, lr, f"{KEY}.lr")

    def begin(self, module: pl.LightningModule) -> None:
        module.log_variances = nn.ParameterDict()
        self._learnt: dict[str, Any] = module.log_variances._parameters  # a set may have the name of a method
        self._learnt |= {name: nn.Parameter(torch.zeros(())) for name in self.names}
        parameters = list(module.log_variances.parameters())
        module.apart = [{"params": parameters, "lr": self.lr, "weight_decay": 0.0}]

    def weigh(self, task: str, loss: Tensor) -> Tensor:
        return by_uncertainty(self._fixed[self.names.index(task)] * loss, self._learnt[task])

    def current(self) -> Tensor:
        variances = torch.stack([self._learnt[name].detach() for name in self.names])
        return torch.exp(-variances) * torch.tensor(self._fixed, device=variances.device)


class GradNorm(SetWeights):
    """`by_gradient_norm` at each step, of the gradients by the last matrix of the encoder that has one.

    Args:
        alpha: Strength of the help for slow sets. 0: gradients of equal length.
        lr: Learning rate of the weights.
    """

    needs_blend = True
    kept = ("values", "first")

    def __init__(self, *, alpha: float, lr: float) -> None:
        super().__init__()
        self.alpha = validated(Weight, alpha, f"{KEY}.alpha")
        self.lr = validated(Positive, lr, f"{KEY}.lr")
        self._matrix: Tensor | None = None
        self._before: Tensor | None = None

    def begin(self, module: pl.LightningModule) -> None:
        self.first = torch.full((len(self.names),), torch.nan)
        self._gradients: dict[int, Tensor] = {}
        self._losses: dict[int, list[Tensor]] = {}

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, index: int
    ) -> None:
        self._task = batch.task

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        gathered = None if self._matrix is None else self._matrix.grad
        self._before = None if gathered is None else gathered.clone()

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not self.names:
            return
        if self._matrix is None:
            matrices = [each for each in pl_module.encoder.parameters() if each.ndim > 1]
            self._matrix = next(each for each in reversed(matrices) if each.grad is not None)
        gathered = self._matrix.grad
        gradient = gathered.clone() if self._before is None else gathered - self._before
        number = self.names.index(self._task)
        self._gradients[number] = self._gradients.get(number, 0) + gradient
        scaler = getattr(trainer.precision_plugin, "scaler", None)  # it has another scale after the step
        self._scale = len(self.names) / (1.0 if scaler is None else scaler.get_scale())

    def record(self, place: int, loss: Tensor) -> None:
        self._losses.setdefault(place, []).append(loss)

    def update(self, trainer: pl.Trainer) -> None:
        numbers = range(len(self.names))
        lengths = torch.stack([self._gradients[number].float().norm() for number in numbers]) * self._scale
        losses = torch.stack([torch.stack(self._losses[number]).mean() for number in numbers]).float()
        lengths, losses = (trainer.strategy.reduce(each, reduce_op="mean") for each in (lengths, losses))
        self._gradients, self._losses = {}, {}
        self.first = torch.where(self.first > 0, self.first, losses)
        moved = by_gradient_norm(
            self.values, lengths / self.values, losses, self.first, alpha=self.alpha, rate=self.lr
        )
        self.values = torch.where(
            lengths.isfinite().all(), moved, self.values
        )  # float16 skips steps that overflow


class PCGrad(SetWeights):
    """`without_conflicts` of the sets' gradients over all parameters. Weights stay fixed.

    Memory: one gradient per set.
    """

    needs_blend = True

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Check that the whole gradient of each set is in one process.

        Raises:
            UserError: Several processes.
        """
        super().setup(trainer, pl_module, stage)
        if self.names and trainer.world_size > 1:
            raise UserError(
                f"{KEY}: PCGrad needs the whole gradient of each set in one process. Type hardware.devices=1"
            )

    def begin(self, module: pl.LightningModule) -> None:
        self._gradients: dict[int, list[Tensor | None]] = {}

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, index: int
    ) -> None:
        self._task = batch.task

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not self.names:
            return
        parameters, number = list(pl_module.parameters()), self.names.index(self._task)
        earlier = self._gradients.get(number, [None] * len(parameters))
        self._gradients[number] = [
            parameter.grad if before is None or parameter.grad is None else before + parameter.grad
            for before, parameter in zip(earlier, parameters, strict=True)
        ]
        for parameter in parameters:
            parameter.grad = None
        if not is_between_steps(trainer):
            self._put(parameters, seed=[pl_module.job.seed, trainer.global_step])

    def _put(self, parameters: Sequence[Tensor], *, seed: Sequence[int]) -> None:
        """Replace the gradients of the parameters by their sum without conflicts."""
        of_sets, self._gradients = list(self._gradients.values()), {}
        moved = [
            index for index in range(len(parameters)) if any(each[index] is not None for each in of_sets)
        ]
        full = [
            [torch.zeros_like(parameters[index]) if each[index] is None else each[index] for index in moved]
            for each in of_sets
        ]
        order = int(np.random.SeedSequence(seed).generate_state(1)[0])
        gradients = without_conflicts(full, generator=torch.Generator().manual_seed(order))
        for index, gradient in zip(moved, gradients, strict=True):
            parameters[index].grad = gradient


class Focal(SetWeights):
    """`by_score` of the dev scores, after each validation. Weights are equal before the first.

    Args:
        gamma: Strength of the reduction for sets with high scores.
    """

    def __init__(self, *, gamma: float) -> None:
        super().__init__()
        self.gamma = validated(Weight, gamma, f"{KEY}.gamma")

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check that each set has a dev score during training.

        Raises:
            UserError: A set without one.
        """
        selection = trainer.datamodule.selection
        columns = dict(zip([each.name for each in selection.sets], selection.columns, strict=True))
        if unscored := [name for name in self.names if name not in columns]:
            raise UserError(
                f"{KEY}: Focal weighs sets by their dev scores, and {', '.join(unscored)} has no dev score during "
                f"training (training.monitor={pl_module.job.training.monitor}). Choose weights=mean_loss"
            )
        self._columns = [columns[name] for name in self.names]

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not self.names or trainer.state.fn != "fit":
            return
        scores = [trainer.callback_metrics.get(column, torch.nan) for column in self._columns]
        scores = torch.nan_to_num(torch.tensor([float(score) for score in scores]), nan=0.0)
        self.values = by_score(scores, gamma=self.gamma).to(pl_module.device)
