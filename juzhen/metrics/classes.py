"""Metrics of a model that names a class."""

import numpy as np
from sklearn.metrics import f1_score

from juzhen.core.examples import Examples
from juzhen.core.result import Score


def score_classes(logits: np.ndarray, examples: Examples) -> dict[str, Score]:
    """`accuracy` and `macro_f1` (mean F1 of the classes, each counting alike) of the likeliest class, as fractions.

    logits  one number per class and row, (rows, classes)

    Raises ValueError naming set, split and the first row that is not finite.
    """
    broken = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(broken):
        raise ValueError(f"{examples.name}/{examples.split}: row {broken[0]}: a logit is not finite")
    assert examples.targets is not None  # a kind with classes
    found, gold = logits.argmax(axis=1), examples.targets.astype(np.int64)
    classes = np.arange(logits.shape[1])
    macro = f1_score(gold, found, labels=classes, average="macro", zero_division=0.0)
    values = {"accuracy": float(np.mean(found == gold)), "macro_f1": float(macro)}
    return {name: Score(value, count=len(gold)) for name, value in values.items()}
