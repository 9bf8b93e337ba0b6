"""Transfer tasks: a logistic regression on frozen embeddings tells classes of sentence pairs apart.

Features are those of InferSent and SentEval (Conneau et al. 2017, https://arxiv.org/abs/1705.02364): |u − v| and
u ⊙ v for 0/1 pairs, u and v besides for NLI pairs. What the classifier gets out of them says what the encoder has put
in, whatever the cosine makes of it.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from encoders import SentenceEncoder
from schema.errors import UserError
from schema.examples import Examples, Kind

KINDS = (Kind.LABELLED_PAIR, Kind.NLI_PAIR)
STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""Inverse of the penalty on weights; the best on dev is taken."""

NUM_FOLDS = 5
MAX_ITERATIONS = 300


@dataclass(frozen=True)
class TransferScore:
    """What one classifier reaches.

    accuracy, f1  on the test split; f1 is that of label 1, and macro for more than two classes
    majority      accuracy of always naming the most frequent class
    learnt_from   rows that the classifier learnt from
    how           train → test, or folds where there is no test split
    """

    accuracy: float
    f1: float
    majority: float
    learnt_from: int
    rows: int
    how: str
    strength: float

    def as_dict(self) -> dict[str, float | int | str]:
        return asdict(self)


def transfer(
    encoder: SentenceEncoder,
    splits: Mapping[str, Examples | None],
    *,
    batch_tokens: int,
    seed: int,
    limit: int | None,
) -> TransferScore:
    """Trains on train, chooses the penalty on dev (on folds of train without one), tells the score on test.

    Without train and test split the only one there is serves for both, in folds: no row is judged by a classifier
    that has seen it.

    splits  train, dev and test; None where there is no file
    limit   at most this many rows of each split, drawn with the seed
    """
    there = {name: _drawn(one, limit, seed) for name, one in splits.items() if one is not None}
    if not there:
        raise UserError("no split has a file; type --data-dir <folder that holds the data sets>")
    some = next(iter(there.values()))
    if some.kind not in KINDS:
        raise UserError(
            f"{some.name}: its rows are {some.kind}s; transfer needs 0/1 pairs or NLI pairs, such as mrpc, qqp or snli"
        )
    data = {name: (_features(encoder, one, batch_tokens), _labels(one)) for name, one in there.items()}
    if "train" in data and "test" in data:
        return _held_out(data, seed)
    if "train" in data and "dev" in data:
        # Then dev stands for test, and the penalty is chosen on folds of train.
        return _held_out({"train": data["train"], "test": data["dev"]}, seed, tested_on="dev")
    name = max(data, key=lambda key: len(data[key][1]))
    return _in_folds(*data[name], name=name, seed=seed)


def _drawn(examples: Examples, limit: int | None, seed: int) -> Examples:
    if limit is None or len(examples) <= limit:
        return examples
    return examples.select(np.sort(np.random.default_rng(seed).permutation(len(examples))[:limit]))


def _features(
    encoder: SentenceEncoder, examples: Examples, batch_tokens: int
) -> Float[np.ndarray, "rows features"]:
    first, second = list(examples.columns)[:2]
    texts = [*examples.texts(first), *examples.texts(second)]
    embeddings = encoder.embed(texts, batch_tokens=batch_tokens, progress=sys.stdout.isatty())
    u, v = embeddings[: len(examples)], embeddings[len(examples) :]
    joined = [np.abs(u - v), u * v]
    return np.concatenate([u, v, *joined] if examples.kind is Kind.NLI_PAIR else joined, axis=1)


def _labels(examples: Examples) -> np.ndarray:
    return examples.targets.astype(np.int64)


def _classifier(strength: float):
    # Scaled, so that one penalty means the same for every feature and every encoder.
    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=MAX_ITERATIONS))


def _folds(labels: np.ndarray, seed: int) -> StratifiedKFold:
    count = min(NUM_FOLDS, int(np.bincount(labels)[np.unique(labels)].min()))
    if count < 2:
        raise UserError(f"a class has {count} row only; a classifier needs at least 2 of each")
    return StratifiedKFold(count, shuffle=True, random_state=seed)


def _best_strength(features: np.ndarray, labels: np.ndarray, dev: tuple | None, seed: int) -> float:
    def quality(strength: float) -> float:
        if dev is not None:
            return accuracy_score(dev[1], _classifier(strength).fit(features, labels).predict(dev[0]))
        found = cross_val_predict(_classifier(strength), features, labels, cv=_folds(labels, seed))
        return accuracy_score(labels, found)

    return max(STRENGTHS, key=quality)  # the strongest penalty among equals


def _held_out(data: Mapping[str, tuple], seed: int, *, tested_on: str = "test") -> TransferScore:
    features, labels = data["train"]
    strength = _best_strength(features, labels, data.get("dev"), seed)
    found = _classifier(strength).fit(features, labels).predict(data["test"][0])
    return _score(data["test"][1], found, labels, how=f"train → {tested_on}", strength=strength)


def _in_folds(features: np.ndarray, labels: np.ndarray, *, name: str, seed: int) -> TransferScore:
    """One penalty for all folds, of a middle strength: chosen on the rows it is judged by it would flatter."""
    strength = STRENGTHS[1]
    folds = _folds(labels, seed)
    found = cross_val_predict(_classifier(strength), features, labels, cv=folds)
    return _score(labels, found, labels, how=f"{folds.get_n_splits()} folds of {name}", strength=strength)


def _score(
    labels: np.ndarray, found: np.ndarray, learnt: np.ndarray, *, how: str, strength: float
) -> TransferScore:
    frequent = np.bincount(learnt).argmax()
    average = "binary" if len(np.unique(learnt)) <= 2 else "macro"
    return TransferScore(
        accuracy=float(accuracy_score(labels, found)),
        f1=float(f1_score(labels, found, average=average)),
        majority=float((labels == frequent).mean()),
        learnt_from=len(learnt),
        rows=len(labels),
        how=how,
        strength=strength,
    )
