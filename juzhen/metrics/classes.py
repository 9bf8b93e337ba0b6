"""Metrics of a model that names a class."""

import numpy as np
from sklearn.metrics import f1_score

from juzhen.core.examples import Examples
from juzhen.core.result import Score
from juzhen.metrics.undefined import why_undefined


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
    found, gold = logits.argmax(axis=1), examples.targets.astype(np.int64)
    values = {"accuracy": float(np.mean(found == gold)) if len(gold) else None, "macro_f1": None}
    if (why := why_undefined("macro_f1", examples)) is None:
        values["macro_f1"] = float(f1_score(gold, found, average="macro", zero_division=0.0))
    return {
        name: Score(value, count=len(gold), why=why if value is None else None)
        for name, value in values.items()
    }
