"""What single sources say of a mixture or a curriculum of them: the part of results/decide on sweep=decide_mixtures."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge

from juzhen.advice.decisions import decision_accuracy
from juzhen.core.result import Result
from juzhen.core.text import markdown_table

FILES = {
    "pawsx": "pawsx_zh",
    "ocnli-triplets": "ocnli",
    "cinlid-triplets": "cinlid",
    "simclue-positive": "simclue_positive",
    "simclue-rank": "simclue_rank",
}
"""Row of a sweep → the set that it reads, where it has another name."""
ENCODER, BUDGET = "mini_zh", 2000
PREDICTIONS = {
    "column": "mean of the other recipes, without single sources",
    "mean": "mean of the gains of its sets",
    "best": "best gain of its sets",
    "last": "gain of its last set",
    "sum": "sum of the gains",
    "regression": "ridge regression on shares (RegMix), each left out once",
}
RIDGE = 0.1
"""Weight of the penalty of the regression, whose features are shares from 0 to 1."""


def is_of_several(result: Result) -> bool:
    """True for a run of sweep=decide_mixtures."""
    return len(result.config["dataset"]) > 1


def gains_of(
    runs: Path, singles: pd.DataFrame, untrained: pd.Series, leaky: set[tuple[str, str]]
) -> pd.DataFrame:
    """Read the runs of several sets.

    Args:
        runs: Folder of runs.
        singles: Gains in points of single sources: a row per source, a column per target.
        untrained: Scores of the untrained encoder by target.
        leaky: Pairs of set and target that are left out.

    Returns:
        A line per recipe and target: the gain, and the predictions of it.
    """
    lines, alone = [], {name: row for row, name in FILES.items()}
    for path in sorted(runs.glob("*/result.json")):
        result = Result.read(path)
        if not is_of_several(result):
            continue
        sets, name = list(result.config["dataset"]), str(result.config["sweep_row"])
        serial = result.config["schedule"]["name"] == "serial"
        rows = [alone.get(each, each) for each in sets]
        for key, score in result.scores.items():
            _, target, metric = key.split("/")
            if metric not in ("spearman", "triplet_accuracy") or score.value is None:
                continue
            if target not in singles or any((each, target) in leaky for each in sets):
                continue
            gains = singles.reindex(rows)[target].to_numpy()
            lines.append(
                {
                    "recipe": name,
                    "way": "curriculum" if serial else "mixture",
                    "sets": " ".join(rows),
                    "target": target,
                    "gain": 100 * score.value - untrained[target],
                    "mean": gains.mean(),
                    "best": gains.max(),
                    "last": gains[-1] if serial else np.nan,
                    "sum": gains.sum(),
                }
            )
    frame = pd.DataFrame(lines)
    if not len(frame):
        return frame
    of_column = frame.groupby(["way", "target"])["gain"]
    others = (of_column.transform("sum") - frame["gain"]) / (of_column.transform("count") - 1)
    return frame.assign(regression=regressed(frame, singles), column=others)


def regressed(frame: pd.DataFrame, singles: pd.DataFrame) -> np.ndarray:
    """Predict each recipe from single sources and from the other recipes, by a regression per target.

    The features are the shares of the sources, for a curriculum those of its last set apart from the others.
    """
    names = list(singles.index)
    predicted = np.full(len(frame), np.nan)
    for target, part in frame.groupby("target"):
        known = singles[target].dropna()
        alone = np.stack([_shares([name], names, serial=True) for name in known.index])
        several = np.stack(
            [
                _shares(sets.split(), names, serial=way == "curriculum")
                for sets, way in zip(part["sets"], part["way"], strict=True)
            ]
        )
        gains = part["gain"].to_numpy()
        for place in range(len(part)):
            others = np.arange(len(part)) != place
            model = Ridge(alpha=RIDGE).fit(
                np.concatenate([alone, several[others]]), np.concatenate([known, gains[others]])
            )
            predicted[frame.index.get_loc(part.index[place])] = model.predict(several[place : place + 1])[0]
    return predicted


def _shares(sets: list[str], names: list[str], *, serial: bool) -> np.ndarray:
    shares = np.zeros(2 * len(names))
    for place, name in enumerate(sets):
        first = serial and place < len(sets) - 1
        shares[names.index(name) + len(names) * first] += 1 / len(sets)
    return shares


def section(frame: pd.DataFrame, singles: pd.DataFrame) -> str:
    """The part of the page: how well each prediction meets the gains, and what mixing brings."""
    if not len(frame):
        return ""
    body = []
    for way, part in frame.groupby("way", sort=False):
        for column, words in PREDICTIONS.items():
            known = part.dropna(subset=[column, "gain"]) if column in part else part[:0]
            if not len(known):
                continue
            tables: Mapping[str, pd.DataFrame] = {
                each: known.pivot(index="recipe", columns="target", values=each) for each in (column, "gain")
            }
            alike = str(decision_accuracy(tables[column], tables["gain"])) if column != "column" else "–"
            error = float(np.sqrt(np.mean((known[column] - known["gain"]) ** 2)))
            correlation = float(known[column].corr(known["gain"]))
            body.append(
                (way, words, f"{known['recipe'].nunique()}", f"{error:.2f}", f"{correlation:.3f}", alike)
            )
    head = ["recipes", "predicted by", "number", "error, points", "correlation", "decisions alike, %"]
    table = markdown_table(head, body, numbers=(2, 3, 4))
    best = frame.pivot_table(index="recipe", columns="target", values="gain").max()
    alone = singles[best.index].max()
    ahead = best - alone
    return (
        "## Mixtures and curricula from single sets\n\n"
        f"{frame['recipe'].nunique()} recipes of two to four sources, drawn at random, with {BUDGET:,} rows of the "
        "built-in encoder in all. A mixture takes equal shares of its sets. Each is predicted from the gains over "
        f"untrained weights that its sources reach alone with {BUDGET:,} rows.\n\n{table}\n\n"
        f"The best of these recipes is above the best single source in {(ahead > 0).sum()} of {len(ahead)} targets, "
        f"on average by {ahead.mean():+.2f} points.\n"
    )
