"""Few distinct grades as classes: which a set has, and whether its rows keep to them."""

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_GRADES, Examples, Kind
from juzhen.data.spec import DatasetConfig


def class_grades(config: DatasetConfig, kind: Kind) -> tuple[float, ...]:
    """How close two texts are in each class of a set, from 0 to 1: of graded pairs its `grades` within `score_range`.

    kind  that its rows are read as

    Raises UserError for graded pairs that do not say which few grades they have.
    """
    if kind is not Kind.SCORED_PAIR:
        return NLI_GRADES if kind is Kind.NLI_PAIR else (0.0, 1.0)
    key, grades = f"dataset.{config.name}.grades", config.grades
    low, high = config.score_range or (0.0, 1.0)
    if not grades:
        example = [round(low + (high - low) * share, 6) for share in (0, 0.5, 1)]
        spelt = ",".join(f"{one:g}" for one in example)
        raise UserError(
            f"{key}=null: loss=ce tells classes apart, and the scores of {config.name} are any numbers from {low:g} to "
            f"{high:g}. If there are few distinct ones, say which, such as {key}=[{spelt}]; else choose a loss of "
            "scores, such as loss=cosent or loss=ce_mse"
        )
    if len(grades) < 2 or list(grades) != sorted(set(grades)) or not low <= grades[0] <= grades[-1] <= high:
        raise UserError(
            f"{key}={list(grades)}: expected two or more numbers that rise, within score_range [{low:g}, {high:g}]"
        )
    return tuple((one - low) / (high - low) for one in grades)


def require_grades(examples: Examples, config: DatasetConfig) -> None:
    """Raises UserError that names the first row of graded pairs whose score is none of its `grades`."""
    assert examples.targets is not None  # graded pairs have scores
    grades = np.asarray(class_grades(config, examples.kind), dtype=np.float32)
    wrong = np.flatnonzero(np.abs(examples.targets[:, None] - grades).min(axis=1) > 1e-5)
    if not len(wrong):
        return
    low, high = config.score_range or (0.0, 1.0)
    place = "" if examples.lines is None else f":{examples.lines[wrong[0]]}"
    score = low + (high - low) * examples.targets[wrong[0]]
    raise UserError(
        f"{config.name}/{examples.split}{place}: the score is {score:g}, which is not among "
        f"dataset.{config.name}.grades={list(config.grades or ())}, and {len(wrong) - 1:,} more rows are "
        "none of them; name every score that there is, or choose a loss of scores, such as loss=cosent"
    )
