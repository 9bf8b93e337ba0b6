"""What single sources say of a mixture or a curriculum of them: the part of results/decide on sweep=decide_mixtures.

`python -m tools.decide_mixtures RUNS` merges the single sources of each recipe. RUNS has the trained runs of
sweep=decide and the results of sweep=decide_mixtures. Each merged model is a run, too.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.linear_model import Ridge

from juzhen.cli.program import run_program
from juzhen.core.paths import ROOT
from juzhen.core.result import RESULT_FILE, Result
from juzhen.core.text import markdown_table
from juzhen.merging.merge import MergeRecipe
from juzhen.merging.runs import merge_runs
from tools.decisions import decision_accuracy, random_regret, regret

FOLDER = ROOT / "results" / "decide"
CHEAP_SCORES, LOG_ME = FOLDER / "cheap_scores.csv", FOLDER / "log_me.csv"
UNTRAINED = "untrained"
FILES = {
    "pawsx": "pawsx_zh",
    "ocnli-triplets": "ocnli",
    "cinlid-triplets": "cinlid",
    "simclue-positive": "simclue_positive",
    "simclue-rank": "simclue_rank",
}
"""Row of a sweep → the set that it reads, where it has another name."""
ROWS = {name: row for row, name in FILES.items()}
ENCODER, BUDGET, SEED = "mini_zh", 2000, 42
PREDICTIONS = {
    "column": "mean of the other recipes, without single sources",
    "mean": "mean of the gains of its sets",
    "weighted": "mean of the gains of its sets by their shares",
    "one_seed": f"mean of the gains, seed {SEED} alone",
    "best": "best gain of its sets",
    "last": "gain of its last set",
    "sum": "sum of the gains",
    "equal": f"gain of its sets in equal shares, seed {SEED}",
    "merged": f"gain of the merged models of its sets, seed {SEED}",
    "regression": "ridge regression on shares (RegMix), each left out once",
}
RIDGE = 0.1
"""Weight of the penalty of the regression, whose features are shares from 0 to 1."""
DRAWS = 1000


class SingleRun(NamedTuple):
    """A run of sweep=decide: its row of the sweep, encoder, rows learnt from, seed, and seconds of training."""

    source: str
    encoder: str
    budget: int
    seed: int
    seconds: float

    @classmethod
    def of(cls, result: Result) -> "SingleRun | None":
        """Describe the run of a result. None for a run of several sets."""
        if is_of_several(result):
            return None
        backbone = result.config["backbone"]
        encoder = str(backbone["name"])
        if backbone.get("layers"):
            encoder += f", {backbone['layers']} layer{'s' * (backbone['layers'] > 1)}"
        budget = int(str(result.config["training"]["duration"]).split()[0])
        seconds = float(result.training.get("train_seconds") or 0.0)
        return cls(str(result.config["sweep_row"]), encoder, budget, result.seed, seconds)


def is_of_several(result: Result) -> bool:
    """True for a run of sweep=decide_mixtures, and for a merged model."""
    return len(result.config["dataset"]) > 1


def gains_of(
    runs: Path,
    singles: pd.DataFrame,
    one_seed: pd.DataFrame,
    untrained: pd.Series,
    leaky: set[tuple[str, str]],
) -> pd.DataFrame:
    """Read the runs of several sets.

    Args:
        runs: Folder of runs.
        singles: Gains in points of single sources: a row per source, a column per target.
        one_seed: The same of the seed that the recipes have.
        untrained: Scores of the untrained encoder by target.
        leaky: Pairs of set and target that are left out.

    Returns:
        A line per recipe and target: the gain, and the predictions of it.
    """
    lines = []
    results = [
        result for path in sorted(runs.glob("*/result.json")) if is_of_several(result := Result.read(path))
    ]
    merged = {
        frozenset(each.config["dataset"]): scores_of(each) for each in results if "merge" in each.config
    }
    equal = {
        frozenset(each.config["dataset"]): scores_of(each)
        for each in results
        if "merge" not in each.config
        and (each.config["schedule"]["name"], each.config["schedule"]["sample_by"]) == ("mix", "uniform")
    }
    for result in results:
        if "merge" in result.config:
            continue
        sets, shares = list(result.config["dataset"]), shares_of(result)
        serial = result.config["schedule"]["name"] == "serial"
        unequal = len(set(shares)) > 1
        rows = [ROWS.get(each, each) for each in sets]
        for target, score in scores_of(result).items():
            if target not in singles or any((each, target) in leaky for each in sets):
                continue
            gains = singles.reindex(rows)[target].to_numpy()
            lines.append(
                {
                    "recipe": str(result.config["sweep_row"]),
                    "way": "curriculum" if serial else "unequal mixture" if unequal else "mixture",
                    "sets": " ".join(rows),
                    "shares": " ".join(map(str, shares)),
                    "target": target,
                    "gain": score - untrained[target],
                    "mean": gains.mean(),
                    "weighted": gains @ shares if unequal else np.nan,
                    "equal": equal.get(frozenset(sets), {}).get(target, np.nan) - untrained[target]
                    if unequal
                    else np.nan,
                    "one_seed": one_seed.reindex(rows)[target].mean(),
                    "best": gains.max(),
                    "last": gains[-1] if serial else np.nan,
                    "sum": gains.sum(),
                    "merged": np.nan
                    if unequal
                    else merged.get(frozenset(sets), {}).get(target, np.nan) - untrained[target],
                }
            )
    frame = pd.DataFrame(lines)
    if not len(frame):
        return frame
    of_column = frame.groupby(["way", "target"])["gain"]
    others = (of_column.transform("sum") - frame["gain"]) / (of_column.transform("count") - 1)
    return frame.assign(regression=regressed(frame, singles), column=others)


def scores_of(result: Result) -> dict[str, float]:
    """Target → its main metric in points."""
    parts = {tuple(key.split("/")): score.value for key, score in result.scores.items()}
    return {
        target: 100 * value
        for (_, target, metric), value in parts.items()
        if metric in ("spearman", "triplet_accuracy") and value is not None
    }


def shares_of(result: Result) -> list[float]:
    """Share of each set in the batches of a mixture, in the order of the sets. Equal shares for a curriculum."""
    given = result.config["schedule"]["sets"]
    weights = [given.get(name, {}).get("weight") or 1.0 for name in result.config["dataset"]]
    return [each / sum(weights) for each in weights]


def regressed(frame: pd.DataFrame, singles: pd.DataFrame) -> np.ndarray:
    """Predict each recipe from single sources and from the other recipes, by a regression per target.

    The features are the shares of the sources, for a curriculum those of its last set apart from the others.
    """
    names = list(singles.index)
    predicted = np.full(len(frame), np.nan)
    for target, part in frame.groupby("target"):
        known = singles[target].dropna()
        alone = np.stack([_features([name], [1.0], names, serial=True) for name in known.index])
        several = np.stack(
            [
                _features(
                    row.sets.split(), [*map(float, row.shares.split())], names, serial=row.way == "curriculum"
                )
                for row in part.itertuples()
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


def _features(sets: list[str], shares: list[float], names: list[str], *, serial: bool) -> np.ndarray:
    features = np.zeros(2 * len(names))
    for place, (name, share) in enumerate(zip(sets, shares, strict=True)):
        first = serial and place < len(sets) - 1
        features[names.index(name) + len(names) * first] += share
    return features


Tables = Float[np.ndarray, "draw recipe target"]


def error(predicted: Tables, gains: Tables) -> Float[np.ndarray, " draw"]:
    """Root mean squared error over all known cells."""
    return np.sqrt(np.nanmean((predicted - gains) ** 2, axis=(1, 2)))


def rank_correlation(predicted: Tables, gains: Tables) -> Float[np.ndarray, " draw"]:
    """Spearman correlation over the recipes of each target, on average over the targets."""
    first, second = (
        each - np.nanmean(each, axis=1, keepdims=True) for each in (_ranks(predicted), _ranks(gains))
    )
    products, *squares = (np.nansum(each, axis=1) for each in (first * second, first**2, second**2))
    with np.errstate(invalid="ignore"):  # a draw that has one recipe only
        return np.nanmean(products / np.sqrt(squares[0] * squares[1]), axis=1)


def _ranks(tables: Tables) -> Tables:
    one, other = tables[:, :, None], tables[:, None]
    ranks = (one > other).sum(axis=2) + (one == other).sum(axis=2) / 2
    return np.where(np.isnan(tables), np.nan, ranks)


def drawn(table: pd.DataFrame) -> Tables:
    """The table, then DRAWS tables of recipes and targets drawn anew, the same for all tables of a shape."""
    draw, (rows, columns) = np.random.default_rng(0), table.shape
    recipes = draw.integers(0, rows, size=(DRAWS + 1, rows, 1))
    targets = draw.integers(0, columns, size=(DRAWS + 1, 1, columns))
    recipes[0, :, 0], targets[0, 0] = np.arange(rows), np.arange(columns)
    return table.to_numpy(float)[recipes, targets]


def _shown(values: Float[np.ndarray, " draw"], form: str = ".2f") -> str:
    low, high = np.nanpercentile(values[1:], (2.5, 97.5))
    return f"{values[0]:{form}} [{low:{form}}, {high:{form}}]"


def section(frame: pd.DataFrame, singles: pd.DataFrame, seconds: float) -> str:
    """The part of the page: how well each prediction meets the gains, what it costs, and what mixing brings.

    Args:
        frame: Of `gains_of`.
        singles: Gains of single sources.
        seconds: Of a training, the median.
    """
    if not len(frame):
        return ""
    body = []
    for way, part in frame.groupby("way", sort=False):
        known = part.dropna(subset=["gain"])
        gains = known.pivot(index="recipe", columns="target", values="gain")
        base = error(
            *(drawn(known.pivot(index="recipe", columns="target", values=each)) for each in ("mean", "gain"))
        )
        sources, others = len({*" ".join(part["sets"]).split()}), len(gains) - 1
        needed = {"column": others, "mean": 3 * sources, "best": 3 * sources, "last": 3 * sources}
        needed |= {
            "sum": 3 * sources,
            "weighted": 3 * sources,
            "one_seed": sources,
            "equal": part["sets"].nunique(),
            "merged": sources,
            "regression": 3 * sources + others,
        }
        for column, words in PREDICTIONS.items():
            if column not in known or known[column].isna().any():
                continue
            table = known.pivot(index="recipe", columns="target", values=column)
            errors, is_constant = error(drawn(table), drawn(gains)), column == "column"
            body.append(
                (
                    f"{way} ({len(gains)})",
                    words,
                    _shown(errors),
                    "–" if column == "mean" else _shown(errors - base, "+.2f"),
                    "–" if is_constant else _shown(rank_correlation(drawn(table), drawn(gains))),
                    "50.0" if is_constant else str(decision_accuracy(table, gains)),
                    f"{random_regret(gains):.1f}" if is_constant else str(regret(table, gains)),
                    f"{needed[column]}",
                    f"{needed[column] * seconds:.0f}",
                )
            )
    head = ["recipes", "predicted by", "error, points", "less that of the mean", "rank correlation"]
    head += ["decisions alike, %", "regret@1", "trainings", "seconds"]
    table = markdown_table(head, body, numbers=(7, 8))
    best = frame.pivot_table(index="recipe", columns="target", values="gain").max()
    alone = singles[best.index].max()
    ahead = best - alone
    return (
        "## Mixtures and curricula from single sets\n\n"
        f"{frame['recipe'].nunique()} recipes of two to four sources, drawn at random, with {BUDGET:,} rows of the "
        "built-in encoder in all. A mixture takes equal shares of its sets, an unequal one three times as much of one "
        "of them as of each other. Each is predicted from the gains over "
        f"untrained weights that its sources reach alone with {BUDGET:,} rows and three seeds. A merged model is the "
        "mean of the weights of these sources (`juzhen merge`), whatever their order. Rank correlation is over the "
        "recipes of a target, regret the points that the first choice among them loses. Seconds are the trainings that "
        "predict all recipes, times their median. Scoring is not counted.\n\n"
        f"{table}\n\n"
        f"The best of these recipes is above the best single source in {(ahead > 0).sum()} of {len(ahead)} targets, "
        f"on average by {ahead.mean():+.2f} points.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.decide_mixtures", description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    runs = parser.parse_args().runs
    alone, recipes = {}, set()
    for path in sorted(runs.glob("*/result.json")):
        result = Result.read(path)
        backbone, duration = result.config["backbone"], result.config["training"]["duration"]
        settings = (backbone["name"], backbone.get("layers"), duration, result.seed)
        if is_of_several(result):
            recipes.add(tuple(sorted(result.config["dataset"])))
        elif settings == (ENCODER, None, f"{BUDGET} examples", SEED):
            alone[result.config["sweep_row"]] = path.parent
    for sets in sorted(recipes):
        out = runs / f"merged-{'-'.join(sets)}"
        if not (out / RESULT_FILE).is_file():
            merge_runs([alone[ROWS.get(each, each)] for each in sets], out, MergeRecipe())


if __name__ == "__main__":
    sys.exit(run_program(main))
