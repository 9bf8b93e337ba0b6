"""From the outputs of an evaluation pass to the scores of every set, on one process or several."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pytorch_lightning as pl
import torch

from juzhen.core.batch import Encoded
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Score
from juzhen.data.leaks import Seen
from juzhen.data.transfer import TransferTask
from juzhen.metrics.ranking import COSINE_TEMPERATURE
from juzhen.metrics.scoring import CONFIDENCE, score_set
from juzhen.metrics.together import score_together
from juzhen.metrics.transfer import Features, classify
from juzhen.metrics.without_leaks import score_unseen

Outputs = list[tuple[np.ndarray, np.ndarray]]
"""Row numbers and the model's outputs for them, one entry per batch."""


NOTHING = Examples("nothing", "evaluation", Kind.SENTENCE, ["-"], {"text": np.zeros(1, np.int32)}, None)
"""What passes through a model, in name, where a plan needs nothing of it; a pass without rows would be skipped."""


class EvaluationPlan(Protocol):
    """What goes through a model once so that several sets can be scored.

    sets         the sets to score
    tasks        the sets whose classes a classifier is to tell apart
    examples     the rows that the model must see; each once, whatever the number of sets it appears in
    temperature  divides scores where a softmax is taken of them: that of cosines, or 1 for logits
    """

    sets: list[Examples]
    tasks: list[TransferTask]
    examples: Examples
    temperature: float

    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        """One similarity per row of each set, from the outputs for `examples` in order.

        (rows, candidates) where an anchor is compared with several texts, see `juzhen.data.comparisons`
        """

    def features(self, outputs: np.ndarray) -> list[dict[str, Features]]:
        """For each task: split → what a classifier sees of its rows."""


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
    )


def assemble_outputs(outputs: Outputs, num_rows: int) -> np.ndarray:
    """One array (rows, …) in row order from the batches of all processes."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        parts: list[Outputs] = [[] for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather_object(parts, outputs)
        outputs = [batch for part in parts for batch in part]
    values = np.concatenate([batch for _, batch in outputs])
    assembled = np.empty((num_rows, *values.shape[1:]), dtype=np.float32)
    assembled[np.concatenate([rows for rows, _ in outputs])] = values
    return assembled


def score_sets(
    sets: Sequence[Examples],
    scores: Sequence[np.ndarray],
    *,
    temperature: float = COSINE_TEMPERATURE,
    bootstrap_samples: int,
    seed: int,
    seen: Mapping[str, Seen],
) -> dict[str, Score]:
    """Metric key `split/dataset/metric` → Score for every set; thresholds come from the dev split of the same set.

    seen  `split/dataset` → rows that training has seen: these sets are scored without them too
    """
    how = {"bootstrap_samples": bootstrap_samples, "seed": seed, "temperature": temperature}
    dev = {one.name: (values, one) for one, values in zip(sets, scores, strict=True) if one.split == "dev"}
    found: dict[str, Score] = {}
    for one, values in zip(sets, scores, strict=True):
        _require_numbers(one, values)
        fitted_on = None if one.split == "dev" else dev.get(one.name)
        metrics = score_set(values, one, dev=fitted_on, **how)
        if (column := f"{one.split}/{one.name}") in seen:
            metrics |= score_unseen(values, one, seen[column].rows, **how)
        found |= {f"{column}/{metric}": score for metric, score in metrics.items()}
    return found | score_together(sets, scores, found, bootstrap_samples=bootstrap_samples, seed=seed)


def _require_numbers(examples: Examples, scores: np.ndarray) -> None:
    if not np.isfinite(scores).all():
        raise UserError(
            f"{examples.split}/{examples.name}: the scores are no finite numbers any more: training has left what the "
            "precision can hold; optimiser.lr too high is the usual reason, or optimiser.clip_norm=null"
        )


def score_tasks(
    plan: EvaluationPlan, outputs: np.ndarray, *, bootstrap_samples: int, seed: int
) -> dict[str, Score]:
    """Metric key → Score of the classifier of every task, under the split that it is judged on."""
    found: dict[str, Score] = {}
    for task, features in zip(plan.tasks, plan.features(outputs) if plan.tasks else (), strict=True):
        labels = task.labels
        splits = {split: (of_rows, labels[split]) for split, of_rows in features.items()}
        reached = classify(splits, seed=seed, bootstrap_samples=bootstrap_samples, confidence=CONFIDENCE)
        found |= {f"{task.judged}/{task.name}/{metric}": one for metric, one in reached.as_scores().items()}
    return found
