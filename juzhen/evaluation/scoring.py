"""From the outputs of an evaluation pass to the scores of every set, on one process or several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from juzhen.core.examples import RANKED, TEXT_COLUMNS, Examples, Kind
from juzhen.core.kinds import (
    AMONG_FEW,
    CLASS_MEANS,
    MEASURES,
    RANKINGS,
    STANDARD_RANKS,
    V_MEASURE,
    main_metric_keys,
    metric_key,
    metric_title,
    ranking_measure,
)
from juzhen.core.result import WITHOUT_LEAKS, Score, Threshold, nested_name
from juzhen.core.row_scores import PLACES, SetRows
from juzhen.core.text import markdown_table
from juzhen.data.leaks import Seen
from juzhen.data.rankings import RankingSet, StandardQuestions
from juzhen.evaluation.encoding_plan import CosinePlan, EncodingPlan, Evaluator, require_finite
from juzhen.metrics.classification import class_mean_accuracy, classify, v_measure
from juzhen.metrics.correlation import mean_interval, pearson, score_distribution, spearman, spearman_interval
from juzhen.metrics.metric_support import NO_OTHERS, OF_THRESHOLDS, undefined_reason
from juzhen.metrics.ranking import (
    COSINE_TEMPERATURE,
    FirstAnswers,
    first_answer_numbers,
    order_numbers,
    right_answers,
    score_ranking,
)
from juzhen.metrics.threshold import (
    QUALITIES,
    area_under_curve,
    average_precision,
    decision_quality,
    decisions_at,
    fit_threshold,
)

Outputs = list[tuple[np.ndarray, np.ndarray]]
"""Row numbers and the model's outputs for them, one entry per batch."""


@dataclass(frozen=True)
class Evaluation:
    """Results of one pass over some sets.

    Attributes:
        scores: Metric key `split/dataset/metric` → Score: the columns of a result.
        per_row: `split/dataset` → similarity of each row, (rows,), or (rows, candidates) for an anchor with
            several texts.
        per_query: Metric key → one number per query of a ranking, (queries,). The score is their mean.
        rows: `split/dataset` → rows with scores, as a run stores them.

    Example:
        >>> from juzhen import evaluate
        >>> found = evaluate("builtin/mini_zh", [("怎么退货", "东西想退掉"), ("几天发货", "什么时候能寄出")])
        >>> found.scores["dev/rows/recall_at_1"].count
        2
    """

    scores: dict[str, Score]
    per_row: dict[str, np.ndarray] = field(default_factory=dict)
    per_query: dict[str, np.ndarray] = field(default_factory=dict)
    rows: dict[str, SetRows] = field(default_factory=dict)

    @property
    def thresholds(self) -> dict[str, Threshold]:
        """Set of pairs with a dev split → score from which two texts count as the same."""
        return fitted_thresholds(self.rows)

    def __str__(self) -> str:
        """Table of sets: metric, value with its 95 % interval, rows. Thresholds follow."""
        spoken = main_metric_keys(self.scores)
        columns = [key.rpartition("/")[0] for key in self.scores]
        body = [
            (
                *key.rsplit("/", 1),
                "–" if score.value is None else f"{score.value:.4f}",
                "" if score.low is None or score.high is None else f"[{score.low:.4f}, {score.high:.4f}]",
                f"{score.count:,}",
                score.why or "",
            )
            for key, score in sorted(self.scores.items(), key=lambda item: item[0] not in spoken)
        ]
        body.sort(key=lambda line: columns.index(line[0]))
        body = [(column, metric_title(metric), *cells) for column, metric, *cells in body]
        if not any(line[-1] for line in body):
            body = [line[:-1] for line in body]
        head = ["set", "measure", "value", "95 %", "n", "why not"][: len(body[0]) if body else 5]
        lines = [markdown_table(head, body, numbers=(2, 4))]
        lines += [
            f"{name}: same from {threshold.value:.4f} on"
            for name, threshold in self.thresholds.items()
            if threshold.value is not None
        ]
        return "\n".join(lines)


def measure(
    evaluator: Evaluator,
    plan: EncodingPlan,
    outputs: np.ndarray,
    *,
    dims: Sequence[int] = (),
    **options: Any,
) -> Evaluation:
    """Score all planned sets from the outputs for `plan.examples`.

    Args:
        evaluator: The evaluator.
        plan: The sets and their texts.
        outputs: One output for each planned text or pair.
        dims: Truncated sizes of embeddings to score as well, as sets with a name that ends in @64.
        **options: As in `_measured`.

    Returns:
        The scores of all sets.
    """
    full = _measured(evaluator, plan, outputs, **options)
    scores = full.scores | evaluator.finished(plan, outputs)
    cut_plans = {dim: plan.cut(dim) for dim in dims} if isinstance(plan, CosinePlan) else {}
    for dim, cut_plan in cut_plans.items():
        for key, score in _measured(evaluator, cut_plan, outputs, **options).scores.items():
            column, _, metric = key.rpartition("/")
            scores[f"{nested_name(column, dim)}/{metric}"] = score
    return replace(full, scores=scores)


def _measured(
    evaluator: Evaluator,
    plan: EncodingPlan,
    outputs: np.ndarray,
    *,
    seen: Mapping[str, Seen],
    rankings: Sequence[str] = (),
    clusterings: int = 0,
    **sampling: int,
) -> Evaluation:
    """All scores except the additional ones of an evaluator.

    Args:
        seen: `split/dataset` → rows, or queries, seen in training. These sets are also scored without them.
        rankings: Ranking metrics besides RANKINGS.
        clusterings: Starts of the V-measure, see `juzhen.metrics.classification`. 0: no V-measure.
        **sampling: bootstrap_samples and seed, as in `score_set`.
    """
    scores = plan.scores(outputs)
    measured = score_sets(plan.sets, scores, temperature=plan.temperature, seen=seen, **sampling)
    searched = {
        column: standard_rows(questions, first)
        for column, (questions, first) in plan.first_answers(outputs).items()
    }
    for column, found in searched.items():
        measured |= score_standard_questions(column, found, seen.get(column), **sampling)
    for task, features in zip(plan.tasks, plan.features(outputs) if plan.tasks else (), strict=True):
        labels = task.labels
        splits = {split: (of_rows, labels[split]) for split, of_rows in features.items()}
        if task.by_means:
            reached = {CLASS_MEANS: class_mean_accuracy(*splits[task.judged])}
        else:
            reached = classify(splits, confidence=CONFIDENCE, **sampling).as_scores()
            if clusterings and task.kind is Kind.LABELLED_TEXT:
                rows, classes = splits[task.judged]
                reached[V_MEASURE] = v_measure(rows, classes, clusterings=clusterings, seed=sampling["seed"])
        measured |= {f"{task.judged}/{task.name}/{metric}": score for metric, score in reached.items()}
    per_query: dict[str, np.ndarray] = {}
    measures = list(dict.fromkeys([*RANKINGS, *map(metric_key, rankings)]))
    depth = max(ranking_measure(name)[1] for name in measures)
    for ranking, lists in zip(plan.rankings, plan.ranked(outputs, depth=depth), strict=True):
        numbers = order_numbers(lists, ranking.judged, measures)
        per_query |= {f"{ranking.column}/{metric}": values[0] for metric, values in numbers.items()}
        measured |= score_ranking_set(ranking, numbers, seen.get(ranking.column), **sampling)
    per_row = {
        f"{ranking.split}/{ranking.name}": values for ranking, values in zip(plan.sets, scores, strict=True)
    }
    rows = {
        (column := f"{dataset.split}/{dataset.name}"): rows_of_set(dataset, values, searched.get(column))
        for dataset, values in zip(plan.sets, scores, strict=True)
    }
    rows |= {
        ranking.column: _rows_of_ranking(ranking, plan.fingerprints, per_query) for ranking in plan.rankings
    }
    return Evaluation(measured, per_row, per_query, rows)


def rows_of_set(
    examples: Examples, scores: np.ndarray, found: Mapping[str, np.ndarray] | None = None
) -> SetRows:
    """Rows of a set with their scores, (rows,) or (rows, candidates), for storage.

    Args:
        examples: The set.
        scores: Score of each row.
        found: Output of `standard_rows` for positive pairs, used instead of scores among a few candidates.

    Returns:
        The rows.
    """
    line_numbers = np.zeros(len(examples), np.int32) if examples.lines is None else examples.lines
    columns = {"row": np.arange(len(examples), dtype=np.int32), "line": line_numbers.astype(np.int32)}
    if examples.kind in RANKED:
        best, right = right_answers(scores)
        of_few = AMONG_FEW if examples.kind is Kind.POSITIVE_PAIR else MEASURES[examples.kind][0]
        columns |= {"score": scores[:, 0], "other": best} | (
            {name: values[0] for name, values in found.items()} if found else {}
        )
        columns[of_few] = right
    else:
        assert examples.targets is not None  # pairs that are not ranked have gold values
        columns |= {"gold": examples.targets, "score": scores}
    floats = {name: values.astype(np.float32) for name, values in columns.items() if name not in PLACES}
    return SetRows(str(examples.kind), examples.fingerprint, columns | floats)


def _rows_of_ranking(
    ranking: RankingSet, fingerprints: Mapping[str, str], per_query: Mapping[str, np.ndarray]
) -> SetRows:
    count, start = len(ranking.queries), f"{ranking.column}/"
    columns = {"row": np.arange(count, dtype=np.int32), "line": np.zeros(count, dtype=np.int32)} | {
        key.removeprefix(start): values.astype(np.float32)
        for key, values in per_query.items()
        if key.startswith(start)
    }
    kind = Kind.RETRIEVAL if ranking.candidates is None else Kind.RERANKING
    return SetRows(str(kind), fingerprints.get(ranking.column, ""), columns)


def standard_rows(
    questions: StandardQuestions, first: FirstAnswers
) -> dict[str, Float[np.ndarray, "orders rows"]]:
    """Results of a search for the standard question of each row.

    Args:
        questions: The standard questions.
        first: First answers of the search.

    Returns:
        score: Of the best correct standard question.
        other: Of the nearest incorrect one. Without one it is NaN, and so are the metrics.
        STANDARD_RANKS: As in `first_answer_numbers`, for three orders of equal scores.
    """
    numbers = {"score": first.right[None], "other": first.other[None]} | first_answer_numbers(first)
    of_rows = {name: values[:, questions.queries].astype(np.float64) for name, values in numbers.items()}
    is_alone = np.isnan(of_rows["other"][0])
    for name in STANDARD_RANKS:
        of_rows[name][:, is_alone] = np.nan
    return of_rows


def score_standard_questions(
    column: str, found: Mapping[str, np.ndarray], seen: Seen | None, **sampling: int
) -> dict[str, Score]:
    """Means of STANDARD_RANKS over the rows of positive pairs, and over the rows unseen in training.

    Args:
        column: Name of the column in results.
        found: Output of `standard_rows`.
        seen: Rows seen in training, or None.
        **sampling: bootstrap_samples and seed, as in `score_set`.

    Returns:
        Metric → Score.
    """
    rows = np.flatnonzero(np.isfinite(found["other"][0]))
    numbers = {name: found[name] for name in STANDARD_RANKS}
    return _means(column, numbers, rows, seen, why=NO_OTHERS, **sampling)


def score_ranking_set(
    ranking: RankingSet, numbers: Mapping[str, np.ndarray], seen: Seen | None, **sampling: int
) -> dict[str, Score]:
    """Mean of each metric over all queries, and over the unseen ones if training has seen some.

    Args:
        ranking: The set.
        numbers: Metric → output of `order_numbers`, (three, queries).
        seen: Queries seen in training, or None.
        **sampling: bootstrap_samples and seed, as in `score_set`.

    Returns:
        Metric → Score.
    """
    rows = np.arange(len(ranking.queries))
    return _means(ranking.column, numbers, rows, seen, why="no query is left", **sampling)


def _means(
    column: str,
    numbers: Mapping[str, np.ndarray],
    rows: np.ndarray,
    seen: Seen | None,
    *,
    why: str,
    bootstrap_samples: int,
    seed: int,
) -> dict[str, Score]:
    """Mean of each metric over some rows, and over the unseen ones if training has seen some.

    Args:
        numbers: Metric → (three, rows): the expected value, in the worst order of equal scores and in the
            best.
        why: Reason for a missing value when no row is left.
    """
    chosen = {"": rows}
    if seen is not None and len(seen.rows):
        chosen[WITHOUT_LEAKS] = np.setdiff1d(rows, seen.rows)
    interval = partial(mean_interval, samples=bootstrap_samples, confidence=CONFIDENCE, seed=seed)
    return {
        f"{column}/{metric}{ending}": Score(
            float(values[0, left].mean()) if len(left) else None,
            *interval(values[0, left]),
            count=len(left),
            why=None if len(left) else why,
            **_of_orders(values[1:, left]),
        )
        for ending, left in chosen.items()
        for metric, values in numbers.items()
    }


def _of_orders(worst_and_best: np.ndarray) -> dict[str, float]:
    """`worst` and `best` of a Score, if the order of documents with equal scores matters."""
    if np.array_equal(*worst_and_best):
        return {}
    return dict(zip(("worst", "best"), worst_and_best.mean(axis=1).tolist(), strict=True))


def assemble_outputs(outputs: Outputs, num_rows: int) -> np.ndarray:
    """One array (rows, …) in row order from batches.

    Args:
        outputs: Row numbers and outputs of each batch.
        num_rows: Number of rows.

    Returns:
        Array (num_rows, …).
    """
    values = np.concatenate([batch for _, batch in outputs])
    assembled = np.empty((num_rows, *values.shape[1:]), dtype=np.float32)
    assembled[np.concatenate([rows for rows, _ in outputs])] = values
    return assembled


def score_sets(
    sets: Sequence[Examples],
    scores: Sequence[np.ndarray],
    *,
    seen: Mapping[str, Seen],
    temperature: float = COSINE_TEMPERATURE,
    **sampling: int,
) -> dict[str, Score]:
    """Score every set: metric key `split/dataset/metric` → Score.

    Thresholds come from the dev split of the same set.

    Args:
        sets: The sets.
        scores: Scores of each set, (rows,) or (rows, candidates).
        seen: Name of the set → rows seen in training.
        temperature: Divides cosines where a metric needs probabilities.
        **sampling: bootstrap_samples and seed of the intervals.

    Returns:
        Metric key → Score.
    """
    dev = {
        (dataset.name, dataset.kind): (values, dataset)
        for dataset, values in zip(sets, scores, strict=True)
        if dataset.split == "dev"
    }
    measured: dict[str, Score] = {}
    for dataset, values in zip(sets, scores, strict=True):
        column = f"{dataset.split}/{dataset.name}"
        left_out = np.isneginf(values) & (values.ndim > 1)  # candidates that are no wrong answer
        require_finite(values[~left_out], column)
        fitted_on = None if dataset.split == "dev" else dev.get((dataset.name, dataset.kind))
        metrics = score_set(values, dataset, dev=fitted_on, temperature=temperature, **sampling)
        if column in seen:
            metrics |= score_unseen(values, dataset, seen[column].rows, temperature=temperature, **sampling)
        measured |= {f"{column}/{metric}": score for metric, score in metrics.items()}
    return measured | score_together(sets, scores, measured, **sampling)


CONFIDENCE = 0.95
"""Confidence of the interval in `juzhen.core.result.Score`."""


def score_set(
    scores: np.ndarray,
    examples: Examples,
    *,
    dev: tuple[np.ndarray, Examples] | None,
    bootstrap_samples: int,
    seed: int,
    temperature: float = COSINE_TEMPERATURE,
) -> dict[str, Score]:
    """Score one set of pairs or texts.

    Args:
        scores: Similarity of each row, (rows,), higher = closer. (rows, candidates) for positive pairs and triplets.
        examples: The rows.
        dev: Scores and examples of the dev split of the same set. None without one.
        bootstrap_samples: Resamples of the intervals.
        seed: Seed of the resamples.
        temperature: Divides scores in `ranking_loss`.

    Returns:
        Metric name → Score, as fractions: `spearman` (with interval), `pearson`, for labelled pairs also `accuracy`,
        `f1`, `average_precision`, `auc`, and the output of `score_distribution` in units of the score. For positive
        pairs and triplets the output of `score_ranking`. Empty for single texts. Thresholds are fitted on dev, and dev
        itself is cross-fitted. Without dev the thresholds are None. An undefined value is None, and its Score has the
        reason. NLI pairs are correlated with the grades 1, 0.5, 0.

    Raises:
        ValueError: A score that is not finite, with set, split and first row.
    """
    if len(TEXT_COLUMNS[examples.kind]) == 1:
        return {}
    try:
        if examples.kind in RANKED:
            sampling = {"temperature": temperature, "confidence": CONFIDENCE}
            return score_ranking(scores, examples, **sampling, bootstrap_samples=bootstrap_samples, seed=seed)
        grades = examples.grades()
        assert grades is not None  # pairs that are not ranked have an order
        low, high = spearman_interval(
            scores, grades, samples=bootstrap_samples, confidence=CONFIDENCE, seed=seed
        )
        metrics = {
            "spearman": Score(spearman(scores, grades), low, high, count=len(grades)),
            "pearson": Score(pearson(scores, grades), count=len(grades)),
        }
        spread = score_distribution(scores, grades)
        metrics |= {name: Score(value, count=len(grades)) for name, value in spread.items()}
        if examples.kind is Kind.LABELLED_PAIR:
            metrics |= _decisions(scores, examples, dev=dev)
        for name, score in metrics.items():
            if score.value is None and score.why is None:
                score.why = undefined_reason(name, examples) or "all scores are equal"
    except ValueError as error:
        raise ValueError(f"{examples.name}/{examples.split}: {error}") from error
    return metrics


def _decisions(
    scores: np.ndarray, examples: Examples, *, dev: tuple[np.ndarray, Examples] | None
) -> dict[str, Score]:
    """Metrics of labelled pairs that need a threshold or a class."""
    labels = examples.targets
    assert labels is not None  # labelled pairs have labels
    values: dict[str, float | None] = dict.fromkeys(OF_THRESHOLDS)
    why = None
    if examples.split == "dev":
        values = {
            name: decision_quality(scores, labels, objective=name, threshold=None) for name in QUALITIES
        }
    elif dev is None:
        why = "there is no dev split to fit a threshold on"
    elif reason := undefined_reason("auc", dev[1]):
        why = f"no threshold can be fitted on the dev split: {reason}"
    else:
        dev_scores, dev_labels = dev[0], dev[1].targets
        assert dev_labels is not None  # the same set, hence the same kind
        for name in QUALITIES:
            threshold = fit_threshold(dev_scores, dev_labels, objective=name)
            values[name] = decision_quality(scores, labels, objective=name, threshold=threshold)
        why = "no row is positive"
    values |= {
        "average_precision": average_precision(scores, labels),
        "auc": area_under_curve(scores, labels),
    }
    return {
        name: Score(value, count=len(labels), why=why if value is None and name in OF_THRESHOLDS else None)
        for name, value in values.items()
    }


STS_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb_en", "sick")


def score_together(
    sets: Sequence[Examples],
    scores: Sequence[np.ndarray],
    measured: Mapping[str, Score],
    *,
    bootstrap_samples: int,
    seed: int,
) -> dict[str, Score]:
    """`<split>/sts_all/spearman` and `<split>/sts_mean/spearman`, for splits with scores of all seven sets.

    sts_all is Spearman over the pairs of all sets together, with gold scores scaled to [0, 1]. Papers on
    unsupervised embeddings call it "all" (Gao et al. 2021, appendix B). sts_mean is the mean of the seven
    correlations. None if one of them is undefined.

    Args:
        sets: The sets.
        scores: Scores of each set, (rows,).
        measured: Metric key → Score of each set.
        bootstrap_samples: Number of resamples of an interval. 0: no interval.
        seed: Seed of the draws.

    Returns:
        Metric key → Score.
    """
    together: dict[str, Score] = {}
    for split in dict.fromkeys(dataset.split for dataset in sets):
        chosen = {
            dataset.name: (values, dataset)
            for dataset, values in zip(sets, scores, strict=True)
            if dataset.split == split
        }
        if not set(STS_SETS) <= set(chosen):
            continue
        values = np.concatenate([chosen[name][0] for name in STS_SETS])
        grades = np.concatenate([chosen[name][1].grades() for name in STS_SETS])
        low, high = spearman_interval(
            values, grades, samples=bootstrap_samples, confidence=CONFIDENCE, seed=seed
        )
        each = [measured[f"{split}/{name}/spearman"].value for name in STS_SETS]
        defined = [value for value in each if value is not None]
        mean = float(np.mean(defined)) if len(defined) == len(each) else None
        together[f"{split}/sts_all/spearman"] = Score(spearman(values, grades), low, high, count=len(grades))
        why = None if mean is not None else "one of the correlations is undefined"
        together[f"{split}/sts_mean/spearman"] = Score(mean, count=len(grades), why=why)
    return together


def score_unseen(
    scores: np.ndarray, examples: Examples, seen: np.ndarray, **sampling: Any
) -> dict[str, Score]:
    """`spearman_without_leaks` and similar scores, with intervals and counts. Empty if nothing was seen.

    A value is None if the other rows have no correlation: none is left, or one side is constant.

    Args:
        scores: Similarity of each row of `examples`, (rows,), as for the score of the whole set.
        examples: The set.
        seen: Positions of rows that training has seen.
        **sampling: bootstrap_samples, seed and temperature, as in `score_set`.

    Returns:
        Metric → Score.
    """
    if not len(seen):
        return {}
    unseen = np.setdiff1d(np.arange(len(examples)), seen)
    metrics = score_set(scores[unseen], examples.select(unseen), dev=None, **sampling)
    return {  # a threshold would be fitted on rows of which some were seen as well
        f"{metric}{WITHOUT_LEAKS}": score for metric, score in metrics.items() if metric not in OF_THRESHOLDS
    }


TEST, HALVES = "test", "halves of dev"

DECIDED = (Kind.LABELLED_PAIR, *RANKED)
"""Kinds of sets that a threshold is fitted on."""

Labelled = tuple[np.ndarray, np.ndarray]
"""Scores of rows, and their 0/1 labels."""


def fitted_thresholds(rows: Mapping[str, SetRows]) -> dict[str, Threshold]:
    """Fit a threshold for each set of DECIDED kinds that has a dev split.

    Args:
        rows: `split/dataset` → scored rows.

    Returns:
        Set → threshold.
    """
    thresholds = {}
    for column, dev in rows.items():
        split, _, name = column.partition("/")
        if split == "dev" and dev.kind in DECIDED:
            test = rows.get(f"test/{name}")
            thresholds[name] = fitted_threshold(labelled(dev), None if test is None else labelled(test))
    return thresholds


def labelled(rows: SetRows) -> Labelled:
    """Scores and labels of 0/1 pairs. Ranked rows give two: their own text as 1, and the nearest other as 0.

    Args:
        rows: The rows.

    Returns:
        Scores and labels, (rows,).
    """
    if rows.kind not in RANKED:
        return rows["score"], rows["gold"]
    right, other = (rows[name][np.isfinite(rows["other"])] for name in ("score", "other"))
    return np.concatenate([right, other]), np.repeat([1, 0], len(right))


def fitted_threshold(dev: Labelled, test: Labelled | None) -> Threshold:
    """Fit the threshold with the best accuracy on dev, and judge it on test, or without test on halves of dev.

    Args:
        dev: Rows to fit on.
        test: Rows to judge it on, or None.

    Returns:
        The threshold with its accuracy.
    """
    (scores, labels), judged_on = dev, HALVES if test is None else TEST
    if len(np.unique(labels)) < 2:
        return Threshold(None, len(labels), judged_on, why="the dev split has pairs of one label alone")
    value = fit_threshold(scores, labels, objective="accuracy")
    judged_scores, judged_labels = test or dev
    reached = decisions_at(judged_scores, judged_labels, threshold=value if test else None)
    why = None
    if not np.isfinite(value):
        answer = "different" if value > 0 else "the same"
        why = f"on dev no score does better than calling all pairs {answer}"
    return Threshold(value if why is None else None, len(labels), judged_on, *reached, why=why)
