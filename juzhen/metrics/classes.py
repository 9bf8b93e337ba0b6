"""Metrics of classes: of a model that names one, and of k-means, to which nobody tells them."""

import warnings

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score, v_measure_score

from juzhen.core.examples import Examples
from juzhen.core.result import Score
from juzhen.metrics.transfer import Features
from juzhen.metrics.undefined import why_undefined

BATCH_SIZE = 512


def score_classes(logits: np.ndarray, examples: Examples) -> dict[str, Score]:
    """`accuracy` and `macro_f1` (mean F1 of the classes, each counting alike) of the likeliest class, as fractions.

    A class that no row has and that is never named has no F1 and does not count; of rows of one class macro F1 is None.

    logits  one number per class and row, (rows, classes)

    Raises ValueError naming set, split and the first row that is not finite.
    """
    broken = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(broken):
        raise ValueError(f"{examples.name}/{examples.split}: row {broken[0]}: a logit is not finite")
    assert examples.targets is not None  # a kind with classes
    predicted, gold = logits.argmax(axis=1), examples.targets.astype(np.int64)
    values = {"accuracy": float(np.mean(predicted == gold)) if len(gold) else None, "macro_f1": None}
    if (why := why_undefined("macro_f1", examples)) is None:
        values["macro_f1"] = float(f1_score(gold, predicted, average="macro", zero_division=0.0))
    return {
        name: Score(value, count=len(gold), why=why if value is None else None)
        for name, value in values.items()
    }


def v_measure(features: Features, labels: np.ndarray, *, clusterings: int, seed: int) -> Score:
    """Mean V-measure of k-means with as many clusters as there are classes, over `clusterings` starts.

    The harmonic mean of homogeneity and completeness (Rosenberg and Hirschberg 2007,
    https://aclanthology.org/D07-1043), from 0 to 1, by mini-batch k-means (Sculley 2010,
    https://doi.org/10.1145/1772690.1772862) with batches of 512 rows, as MTEB clusters. MTEB draws samples of texts,
    ten times; here all rows are clustered, so that only the starts are drawn. None for a single class.

    features     (rows, features)
    labels       class number of each row
    clusterings  at least 1; the first start is drawn from `seed`, the next from `seed` + 1
    """
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
