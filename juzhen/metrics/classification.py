"""Classification metrics: a classifier on frozen features, class logits, and clusters.

Features of pairs are those of InferSent and SentEval (Conneau et al. 2017, https://arxiv.org/abs/1705.02364): |u − v|
and u ⊙ v for 0/1 pairs, u and v as well for NLI pairs, and u itself for a single text.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind, judged_split
from juzhen.core.result import Score
from juzhen.metrics.correlation import mean_interval
from juzhen.metrics.metric_support import TOO_FEW_CLASSES, undefined_reason

if TYPE_CHECKING:  # scikit-learn takes a second to import, and the first step of a training does without it
    from sklearn.model_selection import StratifiedKFold

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""Inverse of the penalty on weights; the best on dev is taken."""

SPARSE_STRENGTHS = (0.1, 1.0, 10.0, 100.0)
"""The same for sparse features, which are not scaled."""

NUM_FOLDS = 5
MAX_ITERATIONS = 300

Features: TypeAlias = np.ndarray | scipy.sparse.csr_array
"""(rows, features)."""

Labelled = tuple[Features, np.ndarray]
"""Features, and the class number of each row."""


@dataclass(frozen=True)
class TransferScore:
    """Score of one classifier.

    Attributes:
        accuracy: On the judged rows.
        f1: F1 of label 1, or macro F1 for more than two classes. None if no row has label 1, or all rows are
            of one class.
        majority: Accuracy of always predicting the most frequent class.
        learnt_from: Number of training rows of the classifier.
        rows: Number of judged rows.
        how: train → test, or folds without a test split.
        strength: C of the logistic regression: inverse strength of its penalty.
        low, high: Bootstrap interval of the accuracy over the judged rows. None without samples.
    """

    accuracy: float
    f1: float | None
    majority: float
    learnt_from: int
    rows: int
    how: str
    strength: float
    low: float | None = None
    high: float | None = None

    def as_scores(self) -> dict[str, Score]:
        """`transfer_accuracy`, `transfer_f1` and `transfer_majority`.

        Returns:
            Metric → Score.
        """
        return {
            "transfer_accuracy": Score(self.accuracy, self.low, self.high, count=self.rows),
            "transfer_f1": Score(
                self.f1, count=self.rows, why="the rows judged are of one class" if self.f1 is None else None
            ),
            "transfer_majority": Score(self.majority, count=self.rows),
        }


def combined(texts: list[Features], kind: Kind) -> Features:
    """Combine the features of a row's texts into one vector, as a classifier reads them.

    Args:
        texts: Features of each text of a row.
        kind: Kind of the rows.

    Returns:
        Features of each row.
    """
    if kind is Kind.LABELLED_TEXT:
        return texts[0]
    u, v = texts
    parts = [abs(u - v), u * v]
    parts = [u, v, *parts] if kind is Kind.NLI_PAIR else parts
    is_sparse = scipy.sparse.issparse(u)
    return scipy.sparse.hstack(parts, format="csr") if is_sparse else np.concatenate(parts, axis=1)


def classify(
    splits: Mapping[str, Labelled], *, seed: int, bootstrap_samples: int = 0, confidence: float = 0.95
) -> TransferScore:
    """Train a classifier on train, choose its penalty on dev, and judge it by `judged_split`.

    Without a dev split the penalty is chosen on folds of train.

    Args:
        splits: The available splits of train, dev and test.
        seed: Of folds and intervals.
        bootstrap_samples: Number of resamples of the interval. 0: no interval.
        confidence: Of the interval.

    Returns:
        The scores.

    Raises:
        UserError: A class with too few rows for folds.
    """
    from sklearn.metrics import accuracy_score, f1_score
    from sklearn.model_selection import cross_val_predict

    name, in_folds = judged_split({name: labels for name, (_, labels) in splits.items()})
    features, trained_labels = splits[name if in_folds else "train"]
    if in_folds:
        # One penalty for all folds, of a middle strength: chosen on the rows it is judged by it would flatter.
        strength, folds = _strengths(features)[1], _folds(trained_labels, seed)
        gold, predicted = (
            trained_labels,
            cross_val_predict(_classifier(strength, features), features, trained_labels, cv=folds),
        )
        judged_by = f"{folds.get_n_splits()} folds of {name}"
    else:
        strength = _best_strength(
            features, trained_labels, splits.get("dev") if name == "test" else None, seed
        )
        judged, gold = splits[name]
        predicted = _classifier(strength, features).fit(features, trained_labels).predict(judged)
        judged_by = f"train → {name}"
    right = (gold == predicted).astype(np.float64)
    low, high = mean_interval(right, samples=bootstrap_samples, confidence=confidence, seed=seed)
    average = "binary" if len(np.unique(trained_labels)) <= 2 else "macro"
    return TransferScore(
        accuracy=float(accuracy_score(gold, predicted)),
        f1=float(f1_score(gold, predicted, average=average, zero_division=0.0))
        if len(np.unique(gold)) > 1
        else None,
        majority=float((gold == np.bincount(trained_labels).argmax()).mean()),
        learnt_from=len(trained_labels),
        rows=len(gold),
        how=judged_by,
        strength=strength,
        low=low,
        high=high,
    )


def class_mean_accuracy(features: np.ndarray, labels: np.ndarray) -> Score:
    """Compute the share of rows whose nearest class mean, by cosine, is the mean of their class.

    The row is left out of the mean of its class. This judges embeddings for classification without training a
    classifier (nearest class mean, Mensink et al. 2013, https://doi.org/10.1109/TPAMI.2013.83). The only row
    of a class does not count.

    Args:
        features: (rows, dim).
        labels: Class number of each row.

    Returns:
        None if fewer than two classes are left.

    Example:
        >>> features = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> class_mean_accuracy(features, np.array([0, 0, 1, 1])).value
        1.0
    """
    rows = features.astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    counted = counts[classes] > 1
    if (counts > 1).sum() < 2:
        return Score(None, count=int(counted.sum()), why=TOO_FEW_CLASSES)
    sums = np.zeros((len(counts), rows.shape[1]))
    np.add.at(sums, classes, rows)
    cosines = rows @ (sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)).T
    sums_of_others = sums[classes] - rows
    row_numbers = np.arange(len(rows))
    own_cosines = (rows * sums_of_others).sum(1) / np.maximum(np.linalg.norm(sums_of_others, axis=1), 1e-12)
    cosines[row_numbers, classes] = -np.inf
    return Score(float((own_cosines > cosines.max(1))[counted].mean()), count=int(counted.sum()))


def _classifier(strength: float, features: Features) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = LogisticRegression(C=strength, max_iter=MAX_ITERATIONS)
    # Scaled, so that one penalty means the same for every feature and every encoder; rows of TF-IDF have length 1.
    return model if scipy.sparse.issparse(features) else make_pipeline(StandardScaler(), model)


def _strengths(features: Features) -> tuple[float, ...]:
    return SPARSE_STRENGTHS if scipy.sparse.issparse(features) else STRENGTHS


def _folds(labels: np.ndarray, seed: int) -> "StratifiedKFold":
    from sklearn.model_selection import StratifiedKFold

    count = min(NUM_FOLDS, int(np.bincount(labels)[np.unique(labels)].min()))
    if count < 2:
        raise UserError(f"a class has only {count} row. Give at least 2 rows of each class")
    return StratifiedKFold(count, shuffle=True, random_state=seed)


def _best_strength(features: Features, labels: np.ndarray, dev: Labelled | None, seed: int) -> float:
    if dev is None and np.bincount(labels)[np.unique(labels)].min() < 2:
        return _strengths(features)[1]  # a class with one row has no part in folds

    from sklearn.metrics import accuracy_score
    from sklearn.model_selection import cross_val_predict

    def quality(strength: float) -> float:
        model = _classifier(strength, features)
        if dev is not None:
            return accuracy_score(dev[1], model.fit(features, labels).predict(dev[0]))
        return accuracy_score(labels, cross_val_predict(model, features, labels, cv=_folds(labels, seed)))

    return max(_strengths(features), key=quality)  # the strongest penalty among equals


BATCH_SIZE = 512


def score_classes(logits: np.ndarray, examples: Examples) -> dict[str, Score]:
    """Compute `accuracy` and `macro_f1` of the likeliest class, as fractions.

    Macro F1 is the mean F1 of the classes, each with the same weight. A class without rows and without
    predictions has no F1 and does not count. For rows of one class macro F1 is None.

    Args:
        logits: One number per class and row, (rows, classes).
        examples: The rows.

    Returns:
        Metric → Score.

    Raises:
        ValueError: A row that is not finite. The message names set, split and the first such row.
    """
    broken = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(broken):
        raise ValueError(f"{examples.name}/{examples.split}: row {broken[0]}: a logit is not finite")
    assert examples.targets is not None  # a kind with classes
    predicted, gold = logits.argmax(axis=1), examples.targets.astype(np.int64)
    values = {"accuracy": float(np.mean(predicted == gold)) if len(gold) else None, "macro_f1": None}
    if (why := undefined_reason("macro_f1", examples)) is None:
        from sklearn.metrics import f1_score

        values["macro_f1"] = float(f1_score(gold, predicted, average="macro", zero_division=0.0))
    return {
        name: Score(value, count=len(gold), why=why if value is None else None)
        for name, value in values.items()
    }


def v_measure(features: Features, labels: np.ndarray, *, clusterings: int, seed: int) -> Score:
    """Compute the mean V-measure of k-means with one cluster per class, over `clusterings` starts.

    The harmonic mean of homogeneity and completeness (Rosenberg and Hirschberg 2007,
    https://aclanthology.org/D07-1043), from 0 to 1, by mini-batch k-means (Sculley 2010,
    https://doi.org/10.1145/1772690.1772862) with batches of 512 rows, as in MTEB. MTEB draws ten samples of
    texts. Here all rows are clustered, and only the starts are drawn.

    Args:
        features: (rows, features).
        labels: Class number of each row.
        clusterings: At least 1.
        seed: Of the first start. The next has `seed` + 1.

    Returns:
        None for a single class.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import v_measure_score

    num_classes = len(np.unique(labels))
    if num_classes < 2:
        return Score(None, count=len(labels))
    measures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct texts than classes
        for start in range(seed, seed + clusterings):
            means = MiniBatchKMeans(num_classes, batch_size=BATCH_SIZE, n_init=1, random_state=start)
            measures.append(v_measure_score(labels, means.fit_predict(features)))
    return Score(float(np.mean(measures)), count=len(labels))
