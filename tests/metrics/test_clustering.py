import numpy as np
import pytest
import scipy.sparse
from sklearn.cluster import MiniBatchKMeans

from juzhen.metrics.classification import v_measure


def entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def by_definition(classes: np.ndarray, clusters: np.ndarray) -> float:
    """2hc / (h + c), h = 1 − H(class | cluster) / H(class), c the other way round."""
    table = np.zeros((classes.max() + 1, clusters.max() + 1))
    np.add.at(table, (classes, clusters), 1)
    of_classes, of_clusters = entropy(table.sum(1)), entropy(table.sum(0))
    together = entropy(table.ravel())
    homogeneity = 1 - (together - of_clusters) / of_classes
    completeness = 1 - (together - of_classes) / of_clusters
    return 2 * homogeneity * completeness / (homogeneity + completeness)


def blobs(spread: float, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), count)
    return np.eye(3, 8)[labels] + spread * rng.standard_normal((len(labels), 8)), labels


def test_is_the_mean_of_the_definition_over_starts():
    features, labels = blobs(0.6)
    clustered = [
        MiniBatchKMeans(3, batch_size=512, n_init=1, random_state=start).fit_predict(features)
        for start in (7, 8)
    ]
    first, second = (by_definition(labels, one) for one in clustered)
    assert first != second
    score = v_measure(features, labels, clusterings=2, seed=7)
    assert score.value == pytest.approx((first + second) / 2)
    assert score.count == len(labels)
    assert 0.05 < score.value < 0.95


def test_is_one_for_classes_apart_and_near_zero_for_noise():
    features, labels = blobs(0.01)
    assert v_measure(features, labels, clusterings=3, seed=0).value == pytest.approx(1)
    sparse = scipy.sparse.csr_array(features)
    assert v_measure(sparse, labels, clusterings=1, seed=0).value == pytest.approx(1)
    noise = np.random.default_rng(0).permutation(labels)
    assert v_measure(features, noise, clusterings=3, seed=0).value < 0.1


def test_one_class_has_none_and_equal_texts_have_zero():
    features, labels = blobs(0.1)
    assert v_measure(features, labels * 0, clusterings=3, seed=0).value is None
    assert v_measure(np.ones_like(features), labels, clusterings=1, seed=0).value == 0
