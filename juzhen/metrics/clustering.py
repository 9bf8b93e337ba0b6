"""V-measure: do texts of a class come together when nobody tells the classes?"""

import warnings

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import v_measure_score

from juzhen.core.result import Score
from juzhen.metrics.transfer import Features

BATCH_SIZE = 512


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
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct texts than classes
        for start in range(seed, seed + clusterings):
            means = MiniBatchKMeans(num_classes, batch_size=BATCH_SIZE, n_init=1, random_state=start)
            found.append(v_measure_score(labels, means.fit_predict(features)))
    return Score(float(np.mean(found)), count=len(labels))
