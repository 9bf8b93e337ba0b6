"""From the outputs of an evaluation pass to the scores of every set, on one process or several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch

from juzhen.core.examples import Examples
from juzhen.core.measures import RANKINGS, ranking_measure
from juzhen.core.result import WITHOUT_LEAKS, Score
from juzhen.data.leaks import Seen
from juzhen.data.rankings import RankingSet
from juzhen.evaluation.plan import EvaluationPlan, require_finite
from juzhen.metrics.correlation import bootstrap_mean
from juzhen.metrics.ranking import COSINE_TEMPERATURE, query_numbers
from juzhen.metrics.scoring import CONFIDENCE, score_set
from juzhen.metrics.together import score_together
from juzhen.metrics.transfer import classify
from juzhen.metrics.without_leaks import score_unseen

Outputs = list[tuple[np.ndarray, np.ndarray]]
"""Row numbers and the model's outputs for them, one entry per batch."""


@dataclass(frozen=True)
class Evaluation:
    """What one pass over some sets has given.

    scores     metric key `split/dataset/metric` → Score: the columns of a result
    per_row    `split/dataset` → similarity of each row, (rows,), or (rows, candidates) where an anchor has several
    per_query  metric key → one number per query of a ranking, (queries,); the score is their mean
    """

    scores: dict[str, Score]
    per_row: dict[str, np.ndarray] = field(default_factory=dict)
    per_query: dict[str, np.ndarray] = field(default_factory=dict)


def measure(
    plan: EvaluationPlan,
    outputs: np.ndarray,
    *,
    seen: Mapping[str, Seen],
    bootstrap_samples: int,
    seed: int,
    rankings: Sequence[str] = (),
) -> Evaluation:
    """Scores everything that is planned, from what the encoder gave for `plan.examples`.

    seen      `split/dataset` → rows, or queries, that training has seen: these sets are scored without them too
    rankings  measures of rankings besides RANKINGS
    """
    how = {"bootstrap_samples": bootstrap_samples, "seed": seed}
    scores = plan.scores(outputs)
    found = score_sets(plan.sets, scores, temperature=plan.temperature, seen=seen, **how)
    found |= score_tasks(plan, outputs, **how)
    per_query: dict[str, np.ndarray] = {}
    measures = list(dict.fromkeys([*RANKINGS, *rankings]))
    depth = max(ranking_measure(name)[1] for name in measures)
    for one, documents in zip(plan.rankings, plan.ranked(outputs, depth=depth), strict=True):
        numbers = query_numbers(documents, one.relevant, measures)
        per_query |= {f"{one.column}/{metric}": values for metric, values in numbers.items()}
        found |= score_ranking_set(one, numbers, seen.get(one.column), **how)
    per_row = {f"{one.split}/{one.name}": values for one, values in zip(plan.sets, scores, strict=True)}
    return Evaluation(found, per_row, per_query)


def score_ranking_set(
    one: RankingSet,
    numbers: Mapping[str, np.ndarray],
    seen: Seen | None,
    *,
    bootstrap_samples: int,
    seed: int,
) -> dict[str, Score]:
    """The mean of each metric over all queries, and over those that training has not seen where it has seen some."""
    chosen = {"": np.arange(len(one.queries))}
    if seen is not None and len(seen.rows):
        chosen[WITHOUT_LEAKS] = np.setdiff1d(chosen[""], seen.rows)
    interval = partial(bootstrap_mean, samples=bootstrap_samples, confidence=CONFIDENCE, seed=seed)
    return {
        f"{one.column}/{metric}{ending}": Score(
            float(values[rows].mean()) if len(rows) else None,
            *interval(values[rows]),
            count=len(rows),
        )
        for ending, rows in chosen.items()
        for metric, values in numbers.items()
    }


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
    how = {"bootstrap_samples": bootstrap_samples, "seed": seed}
    dev = {one.name: (values, one) for one, values in zip(sets, scores, strict=True) if one.split == "dev"}
    found: dict[str, Score] = {}
    for one, values in zip(sets, scores, strict=True):
        left_out = np.isneginf(values) & (values.ndim > 1)  # candidates that are no wrong answer
        require_finite(values[~left_out], f"{one.split}/{one.name}")
        fitted_on = None if one.split == "dev" else dev.get(one.name)
        metrics = score_set(values, one, dev=fitted_on, temperature=temperature, **how)
        if (column := f"{one.split}/{one.name}") in seen:
            metrics |= score_unseen(values, one, seen[column].rows, temperature=temperature, **how)
        found |= {f"{column}/{metric}": score for metric, score in metrics.items()}
    return found | score_together(sets, scores, found, **how)


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
