"""Base class of all trained models: the step, the optimizer and the evaluation. A model adds `encode` and `plan`.

`load_encoder` of each model chooses where it starts: the stage before, `init_from`, or the backbone.
"""

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torchmetrics import Metric

from conf.job import JobConfig
from datamodules.datamodule import blends, loss_weights
from juzhen.core.batch import TENSORS, Batch, Sharing
from juzhen.core.errors import UserError
from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
from juzhen.core.result import Score
from juzhen.core.row_scores import SetRows
from juzhen.data.leaks import Seen
from juzhen.data.loading import TransferTask
from juzhen.encoders.backbone import has_dropout
from juzhen.encoders.base_weights import frozen_names
from juzhen.evaluation.encoding_plan import EncodingPlan, Evaluator
from juzhen.evaluation.scoring import Evaluation, assemble_outputs, measure, score_set
from juzhen.families.registry import family_of
from juzhen.losses.loss import Loss, LossOutput
from juzhen.models.settings import ATTRIBUTES, ModelSettings
from juzhen.training.optimizer import adamw, learning_rates
from lightning_modules.loss_factory import Match
from lightning_modules.sharding import shard, whole_tensor


class RowOutputs(Metric):
    """Outputs of a model for numbered rows, gathered from all processes, in row order.

    A row that several processes computed, because samplers fill up the last batch, counts once.
    """

    full_state_update = False
    higher_is_better = None
    rows: list[Tensor]
    values: list[Tensor]
    shape: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("rows", [], dist_reduce_fx="cat")
        self.add_state("values", [], dist_reduce_fx="cat")
        self.add_state(
            "shape", torch.full((3,), -1), dist_reduce_fx="max"
        )  # of a row; −1 where it has no such axis

    def update(self, rows: Int[Tensor, "batch"], values: Float[Tensor, "batch *numbers"]) -> None:
        """Add rows.

        Args:
            rows: Row numbers.
            values: A number, a vector or a matrix of each row.
        """
        is_shared = self.distributed_available_fn is not None and self.distributed_available_fn()
        where = rows.device if is_shared else torch.device("cpu")
        self.shape = torch.tensor([*values.shape[1:], -1, -1, -1][:3], device=self.shape.device)
        self.rows.append(rows.to(where))
        self.values.append(values.detach().float().flatten().to(where))

    def compute(self) -> Float[Tensor, "rows *numbers"]:
        """Outputs of all processes in the order of the rows.

        Returns:
            Tensor on the CPU.
        """
        rows, values = (
            torch.cat(state) if isinstance(state, list) else state for state in (self.rows, self.values)
        )
        count = 1 + int(rows.max())
        sizes = [size for size in self.shape.tolist() if size >= 0]
        parts = [(rows.cpu().numpy(), values.cpu().numpy().reshape(len(rows), *sizes))]
        return torch.from_numpy(assemble_outputs(parts, count))

    def as_array(self) -> Float[np.ndarray, "rows *numbers"]:
        """Return `compute` as an array, also in a process without batches.

        Returns:
            Array in the order of the rows.
        """
        if not self.rows:  # all processes gather states of one type
            self.update(
                torch.empty(0, dtype=torch.int64, device=self.device), torch.empty(0, device=self.device)
            )
        return self.compute().numpy()


class PairMeasures(Metric):
    """Every metric of a set of pairs on its dev split, from one score per row.

    Values are float64, and NaN where a metric is undefined. `compute` of a labelled pair fits thresholds on
    one half of the rows and judges the other half, as validation does.

    Args:
        kind: scored_pair, labelled_pair or nli_pair. It decides the metrics, see `juzhen.core.kinds`.
        measure: One metric, such as `auc`, which `compute` then returns. None: a mapping of all metrics.

    >>> metric = PairMeasures("scored_pair", measure="spearman")
    >>> metric.update(torch.tensor([0.1, 0.9]), torch.tensor([0.0, 1.0]))
    >>> metric.update(torch.tensor([0.5]), torch.tensor([0.4]))
    >>> metric.compute().item()
    1.0
    """

    full_state_update = False
    higher_is_better = True
    scores: list[Tensor]
    targets: list[Tensor]

    def __init__(self, kind: str, *, measure: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.kind, self.measure = Kind(kind), measure
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("targets", [], dist_reduce_fx="cat")

    def update(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> None:
        """Add pairs.

        Args:
            scores: Scores of the model, higher = closer.
            targets: Grade from 0 to 1, label 0 or 1, or class number.
        """
        self.scores.append(scores.detach())
        self.targets.append(targets.detach())

    def compute(self) -> Tensor | dict[str, Tensor]:
        """Metrics of the scores so far.

        Returns:
            The metric `measure`, or name → metric if it is None. float64, NaN for an undefined one.
        """
        scores, targets = (
            (torch.cat(state) if isinstance(state, list) else state).float().cpu().numpy()
            for state in (self.scores, self.targets)
        )
        columns = dict.fromkeys(TEXT_COLUMNS[self.kind], np.zeros(len(scores), dtype=np.int32))
        rows = Examples("rows", "dev", self.kind, ["-"], columns, targets)
        values = {
            name: torch.tensor(float("nan") if score.value is None else score.value, dtype=torch.float64)
            for name, score in score_set(scores, rows, dev=None, bootstrap_samples=0, seed=0).items()
        }
        if self.measure is None:
            return values
        return values[self.measure]


NUMBERS = ("lr", "weight_decay", "betas", "eps", "layer_decay", "state_bits")
"""What an optimizer is made with, by the names of `conf/job.py`."""

NORMS_KEPT = 1000
"""Lengths of the last gradients, before clipping, that are remembered."""


class SentenceModule(pl.LightningModule):
    """A model with `objective(batch)` to minimise and `score(batch)` to evaluate.

    Args:
        losses: Dataset key → Loss.
        job: The whole configuration. The optimizer, training and evaluation sections are read.
        total_steps: Optimizer steps of this stage. 0: evaluation only.
        warmup_steps: Warm-up steps among them.
        loss_weights: Dataset key → factor of its loss. {}: all losses have weight 1.

    Attributes:
        weigh: Function of a set and its loss that returns the weighted loss. A callback sets it to change
            weights during training.
        apart: Parameter groups with hyperparameters of their group, which callbacks add. They are not
            clipped.
        is_sharded: True for a copy for training whose weights are sharded over processes
            (`lightning_modules.sharding`).
        set_loss: Loss of the last batch, before weighting.
        step_loss: Loss of the current step so far, as logged.
        seen: `split/dataset` → evaluation rows that occurred in training, if they are reported separately. It
            is set before the test at the end of a stage.
    """

    Settings: ClassVar[type[ModelSettings]] = ModelSettings
    """What the model says of itself, without torch. The attributes that follow are its."""
    trains: ClassVar[bool]
    provides: ClassVar[tuple[str, ...]]
    input_kind: ClassVar[Kind | None]
    loss_kind: ClassVar[Kind | None]
    unscored: ClassVar[Mapping[Kind, str]]
    metric: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in ATTRIBUTES:
            setattr(cls, name, getattr(cls.Settings, name))

    def __init__(self, *, losses: nn.ModuleDict, job: JobConfig, total_steps: int, warmup_steps: int) -> None:
        super().__init__()
        self.losses = losses
        self.job = job
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        self.scores: dict[str, Score] = {}
        self.rows: dict[str, SetRows] = {}
        self.seen: Mapping[str, Seen] = {}
        self.bootstrap_samples = job.evaluation.bootstrap_samples
        self.gradient_norms: deque[Tensor] = deque(maxlen=NORMS_KEPT)
        self.watched: list[tuple[Tensor, bool]] | None = None
        self.loss_weights = loss_weights(job, list(job.dataset))
        self.weigh: Callable[[str, Tensor], Tensor] | None = None
        self.set_loss: Tensor | None = None
        self.step_loss: Tensor | None = None
        self.apart: list[dict[str, Any]] = []
        self.is_sharded = False
        self._blends = blends(job)
        self._step_losses: list[Tensor] = []
        self._batch_index = 0
        self._compares = False
        self._outputs = RowOutputs()
        self._validated: tuple[int, np.ndarray] | None = None

    @classmethod
    def settings(cls, job: JobConfig) -> Any:
        """Return the Settings of a job's model.

        Args:
            job: Its `model` node is read. Keys of the node that `Settings` lacks, such as `_target_`, are left out.

        Returns:
            An object of `Settings`.
        """
        names = {field.name for field in fields(cls.Settings)}
        return cls.Settings(**{name: value for name, value in job.model.items() if name in names})

    @staticmethod
    @abstractmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> nn.Module | None:
        """Load the encoder that a stage trains.

        Args:
            job: Names the start: `init_from` if given, else the backbone.
            folder: Encoder folder of the stage before, or of a finished run. None: the start of the job.

        Returns:
            The encoder. None for a model without weights.

        Raises:
            UserError: The start does not suit the model or its settings.
        """

    @staticmethod
    def save_encoder(encoder: nn.Module, folder: Path, *, card: dict[str, Any]) -> Path:
        """Write the files that `load_encoder` reads from `folder`.

        Args:
            encoder: Encoder of one of the families in `juzhen.families`.
            folder: Folder to write.
            card: Values for the model card.

        Returns:
            The written folder.
        """
        return family_of(encoder).save(encoder, folder, card=card)

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        """Check that the model can run the job, before anything is read or loaded. By default it can.

        Args:
            job: The whole configuration.
            matches: Dataset key → its loss and row kind. Empty for a job without training.

        Raises:
            UserError: A setting that the model does not support.
        """

    @classmethod
    def check_start(cls, job: JobConfig) -> None:
        """Check by files alone that the model can train the weights of the start. Loads no weights.

        Args:
            job: `init_from`, `backbone` and `model` are read.

        Raises:
            UserError: Weights that the model cannot train.
        """

    @abstractmethod
    def encode(self, batch: Batch) -> dict[str, Tensor]:
        """Compute the inputs of the loss of a batch's set.

        Args:
            batch: Tokens and targets of a training batch.

        Returns:
            Name in `juzhen.core.batch.TENSORS` → tensor with one row per example of the batch.
        """

    @property
    @abstractmethod
    def evaluator(self) -> Evaluator:
        """Evaluator that plans and scores the encoder, in training and at the end of a stage."""

    def output(self, batch: Batch) -> Float[Tensor, "batch ..."]:
        """Compute the evaluation output of each row of a planned batch.

        Args:
            batch: Rows of an `EncodingPlan`.

        Returns:
            Embeddings (batch, dim) or scores (batch,), in row order.
        """
        return self.evaluator.output(batch)

    def plan(self, sets: Sequence[Examples], tasks: Sequence[TransferTask] = ()) -> EncodingPlan:
        """Plan the texts to encode for an evaluation.

        Args:
            sets: Sets to score.
            tasks: Sets for which a classifier is trained on embeddings.

        Returns:
            The distinct texts or pairs, and the way from their outputs to scores.
        """
        return self.evaluator.plan(sets, tasks)

    @property
    def sharing(self) -> dict[str, Sharing]:
        """Dataset key → scope in which equal sentences of a training batch are encoded once."""
        if not self.job.training.share_sentences:
            return dict.fromkeys(self.losses, Sharing.NONE)
        return {
            name: Sharing.COLUMN if loss.needs_two_views else Sharing.BATCH
            for name, loss in self.losses.items()
        }

    def objective(self, batch: Batch) -> LossOutput:
        """Compute the loss of a training batch before weighting.

        Args:
            batch: Rows of one set, with its targets.

        Returns:
            The scalar to minimise, and name → detached scalar to log.
        """
        return self.loss_of(batch, self.encode(batch))

    def loss_of(self, batch: Batch, tensors: Mapping[str, Tensor]) -> LossOutput:
        """Compute the loss of the batch's set from its input tensors.

        Args:
            batch: Its `task` selects the loss. It is encoded again for a loss with `needs_two_passes`.
            tensors: Output of `encode`. Names that the loss does not read are ignored.

        Returns:
            The scalar to minimise, and name → detached scalar to log.
        """
        loss: Loss = self.losses[batch.task]
        second = self.encode(batch) if loss.needs_two_passes else None
        first = self.whole_batch({name: tensors[name] for name in loss.inputs if name in tensors})
        if second is None:
            return loss.with_logs(**first)
        again = self.whole_batch({name: second[name] for name in loss.inputs if name in second})
        return loss.with_logs(**first, again=again)

    def score(self, batch: Batch) -> Float[Tensor, "batch"]:
        """Compute the similarity of the two sentences of each row.

        Args:
            batch: Rows of pairs.

        Returns:
            (batch,), higher = closer.
        """
        return self.encode(batch)["scores"]

    def watch(self, values: Float[Tensor, "rows *numbers"], *, are_embeddings: bool) -> None:
        """Retain the gradient of a loss input in `watched`, if a callback has put a list there.

        Args:
            values: Embeddings, token vectors, scores or logits that a loss reads.
            are_embeddings: True for embeddings of sentences. A callback reads it next to the gradient.
        """
        if self.watched is not None and values.requires_grad:
            values.retain_grad()
            self.watched.append((values, are_embeddings))

    def whole_batch(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Gather the rows of all processes for a loss that couples them. Random draws are then equal.

        Args:
            tensors: Name → rows of this process.

        Returns:
            Name → rows of all processes. With one process, `tensors` itself.
        """
        if self._trainer is None or self._trainer.world_size == 1:
            return tensors
        rows = _gather_rows(self, tensors)
        seed_draws(self, self._batch_index, alike=True)
        return rows

    def configure_model(self) -> None:
        if self.is_sharded:
            shard(self)

    def on_fit_start(self) -> None:
        """Prepare the losses for the first step.

        Raises:
            UserError: `loss=r_drop` for an encoder without dropout.
        """
        if any(loss.needs_two_passes for loss in self.losses.values()) and not has_dropout(
            self.encoder.inner.backbone.config
        ):
            raise UserError(
                "loss=r_drop compares two passes that dropout makes different, and this encoder has none. Type "
                "backbone.dropout=0.1, or leave r_drop out"
            )

    def on_train_batch_start(self, batch: Batch, index: int) -> None:
        self._batch_index = index
        self._compares |= batch.compares
        seed_draws(self, index, alike=False)

    def weighted(self, task: str, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Weight the loss of a set in a step.

        Args:
            task: Dataset key.
            loss: Scalar loss of its batch.

        Returns:
            The result of `weigh` if a callback has set it, else the loss times its fixed weight. A job without fixed
            weights returns `loss`.
        """
        if self.weigh is not None:
            return self.weigh(task, loss)
        return self.loss_weights[task] * loss if self.loss_weights else loss

    def training_step(self, batch: Batch, index: int) -> Float[Tensor, ""]:
        loss, logs = self.objective(batch)
        size = len(batch)
        self.set_loss = loss.detach()
        # Under the name of the set too: in a mixture the losses of several sets are several quantities.
        logs = logs | {"loss": self.set_loss}
        loss = self.weighted(batch.task, loss)
        self.step_loss = self._of_step(loss.detach())
        self.log("train/loss", self.step_loss, prog_bar=True, batch_size=size)
        self.log_dict({f"train/{batch.task}/{key}": value for key, value in logs.items()}, batch_size=size)
        return loss

    def _of_step(self, loss: Tensor) -> Tensor:
        """Loss of the current step: the mean over its sets, if each step has a batch of every set."""
        if not self._blends:
            return loss
        self._step_losses.append(loss)
        return torch.stack(self._step_losses).mean()

    def validation_step(self, batch: Batch, index: int) -> None:
        self._outputs.update(batch.rows, self.output(batch))

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        """Score the dev sets, and log the metric that chooses checkpoints.

        Raises:
            UserError: The model has no such metric.
        """
        data = self.trainer.datamodule
        selection, outputs = data.selection, self._put_out()
        if self.validates_as_tested and data.validation_plan.is_same(data.test_plan):
            self._validated = self.trainer.global_step, outputs
        scores = self._score(data.validation_plan, outputs, 0).scores
        if missing := [key for key in selection.columns if key not in scores]:
            raise UserError(f"training.monitor: this model gives no {missing[0]}. Type training.monitor=auto")
        values = {key: score.value for key, score in scores.items() if score.value is not None}
        self.log_dict(values, rank_zero_only=False)
        chosen = [values[key] for key in selection.columns if key in values]
        # No defined correlation (constant scores) is no number: `callbacks/trainer.py` chooses nothing by it.
        self.log(selection.key, float(np.mean(chosen)) if chosen else math.nan, prog_bar=True)

    def on_test_epoch_end(self) -> None:
        self._take(self.trainer.datamodule.test_plan, self._put_out())

    def score_as_validated(self, plan: EncodingPlan, *, step: int) -> bool:
        """Score by the outputs of the last validation, and set `scores` and `rows`.

        Args:
            plan: Plan of the test, equal to the plan of the validation.
            step: Global step of the weights to score.

        Returns:
            False if the last validation had the weights of another step. Nothing is set then.
        """
        if self._validated is None or self._validated[0] != step:
            return False
        self._take(plan, self._validated[1])
        return True

    def _take(self, plan: EncodingPlan, outputs: np.ndarray) -> None:
        evaluation = self._score(plan, outputs, self.bootstrap_samples, dims=self.evaluator.nested_dims)
        self.scores, self.rows = evaluation.scores, evaluation.rows

    @property
    def validates_as_tested(self) -> bool:
        """True if validation computes the same outputs for a plan as the final evaluation."""
        return False

    @property
    def scores_by_cosine(self) -> bool:
        """True if the score of a pair is the cosine of two embeddings."""
        return "embeddings" in self.provides

    def pair_scores(self, plan: EncodingPlan) -> list[np.ndarray]:
        """Score the sets of a plan from the outputs since the last pass began.

        Args:
            plan: Plan of that pass.

        Returns:
            One array (rows,) for each set of `plan.sets`, higher = closer.
        """
        return plan.scores(self._outputs.as_array())

    def _put_out(self) -> np.ndarray:
        """Return the outputs of a pass over a plan, in order, and reset them."""
        outputs = self._outputs.as_array()
        self._outputs.reset()
        return outputs

    def _score(
        self, plan: EncodingPlan, outputs: np.ndarray, samples: int, *, dims: Sequence[int] = ()
    ) -> Evaluation:
        evaluation = self.job.evaluation
        options = {"seed": self.job.seed, "seen": self.seen, "dims": dims}
        options |= {"rankings": evaluation.rankings, "clusterings": evaluation.clusterings}
        return self.measured(plan, outputs, bootstrap_samples=samples, **options)

    def measured(self, plan: EncodingPlan, outputs: np.ndarray, **options: Any) -> Evaluation:
        """Score the whole plan.

        Args:
            plan: Sets, rankings and tasks with their texts.
            outputs: Result of `output` for `plan.examples`, in order: (texts, dim) or (pairs,).
            **options: As in `juzhen.evaluation.scoring.measure`.

        Returns:
            Scores and rows of all sets.
        """
        return measure(self.evaluator, plan, outputs, **options)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Leave out frozen weights below an adapter. The files of its base hold them."""
        for name in frozen_names(self):
            checkpoint["state_dict"].pop(name, None)
        checkpoint["micro_batch_tokens"] = (
            getattr(self.encoder, "inner", self.encoder).micro_batch_tokens or 0
        )

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a state dict as torch does. Weights that `on_save_checkpoint` leaves out keep their values.

        Args:
            state: Parameter name → tensor.
            strict: Require every weight that is not frozen, and no unknown one.
            assign: Replace the parameters by the tensors of `state`. False: copy their values.

        Returns:
            Torch's report of missing and unexpected keys.

        Raises:
            RuntimeError: With `strict`, a weight is missing or unknown.
        """
        frozen = frozen_names(self)
        report = super().load_state_dict(state, strict=strict and not frozen, assign=assign)
        missing = {*report.missing_keys} - frozen
        if strict and (missing or report.unexpected_keys):
            raise RuntimeError(f"weights missing: {missing}. Not known here: {report.unexpected_keys}")
        return report

    def named_weights(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield names and parameters of encoder and heads, without those added by callbacks (`apart`).

        Yields:
            Full name and parameter.
        """
        added = {parameter for group in self.apart for parameter in group["params"]}
        return ((name, weights) for name, weights in self.named_parameters() if weights not in added)

    def configure_optimizers(self) -> Mapping[str, object]:
        # A fused step undoes fp16 loss scaling itself, which is too late for clipping.
        fused = self.job.hardware.precision != "16-mixed"
        numbers = {name: getattr(self.job.optimizer, name) for name in NUMBERS}
        optimizer = adamw(self, **numbers, fused=fused, apart=self.apart)
        steps = {"total_steps": self.total_steps, "warmup_steps": self.warmup_steps}
        schedule = learning_rates(optimizer, self.job.optimizer.decay, **steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Drop the zero gradients of a step without comparisons. Momentum and decay then move nothing."""
        self._step_losses.clear()
        if not self._compares:
            optimizer.zero_grad()

    def configure_gradient_clipping(
        self, optimizer: torch.optim.Optimizer, *unused: object, **unused_options: object
    ) -> None:
        compares, self._compares = self._compares, False
        if not compares:
            return
        # Lightning refuses to clip for any fused optimizer under autocast, with or without loss scaling.
        if self.job.optimizer.clip_norm is not None:
            clipped = [weights for _, weights in self.named_weights()]
            norm = torch.nn.utils.clip_grad_norm_(clipped, self.job.optimizer.clip_norm)
            self.gradient_norms.append(whole_tensor(norm) if self.is_sharded else norm)


def _gather_rows(module: pl.LightningModule, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gather the rows of all processes, so that a loss sees the whole batch.

    Gradients flow back to the process that made the row. DDP then averages over processes, which cancels the
    factor of the gather. The step equals that of one process with the whole batch.
    """
    world, rank = module.trainer.world_size, module.global_rank
    first = next(iter(tensors.values()))
    counts = [int(n) for n in module.all_gather(torch.tensor(len(first), device=first.device))]
    most = max(counts)

    def gather(name: str, rows: torch.Tensor) -> torch.Tensor:
        padding = rows.new_zeros((most - counts[rank], *rows.shape[1:]))
        is_learnt = TENSORS[name].is_learnt
        gathered = module.all_gather(torch.cat([rows, padding]), sync_grads=is_learnt)
        return torch.cat([gathered[process, : counts[process]] for process in range(world)])

    return {name: gather(name, rows) for name, rows in tensors.items()}


def seed_draws(module: pl.LightningModule, index: int, *, alike: bool) -> None:
    """Reseed torch's generator if several processes train. Draws then depend on the training position only.

    Processes encode different sentences, so they draw different amounts of random numbers. A checkpoint holds
    the state of one generator only. Without reseeding, a resumed job of several processes would differ from
    an uninterrupted one.

    Args:
        module: The module in training. Its trainer knows the processes and the stage.
        index: Number of the batch in this stage.
        alike: Same draws in all processes, for a loss that reads the rows of all. False: different draws in
            each.
    """
    trainer = module.trainer
    if trainer.world_size == 1:
        return
    entropy = [
        module.job.seed,
        trainer.datamodule.stage.index,
        index,
        0 if alike else 1 + trainer.global_rank,
    ]
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1)))
