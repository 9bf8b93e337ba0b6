"""Curricula, a mixture and merged models at equal cost, as tables and a page: python -m tools.merging_page [RUNS]

With the folder of the runs (sweep=merging_cpu, results/merging/merge.sh) it computes results/merging/*.csv anew;
without it the page alone is written, from these.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.paths import ROOT
from juzhen.core.result import Result
from juzhen.core.row_scores import RowScores
from juzhen.core.text import markdown_table

FOLDER = ROOT / "results" / "merging"
HOME = ("csts", "lcqmc", "ocnli")
"""The sets that are trained on."""
AWAY = ("cmnli", "csnli", "afqmc", "bq", "pawsx_zh", "xiaobu", "qbqtc")
SETS = (*HOME, *AWAY)
UNTRAINED, MIXTURE = "untrained", "mixture"
MEASURES = ("average", "trained_sets", "other_sets", "forgotten")
DRAWS = 1000


def arm(result: Result) -> str:
    """What the page calls a run."""
    merge = result.config.get("merge")
    if merge is None:
        return str(result.config["sweep_row"]).replace("-", " → ")
    chosen = merge["weights"] == "dev" and merge["method"] == "linear"
    return f"merged: {merge['method']}{', weights by dev' if chosen else ''}"


def kind(name: str) -> int:
    """0 untrained · 1 single sets · 2 mixture · 3 curricula · 4 merged: the order of the page."""
    return (
        0 if name == UNTRAINED else 1 if name in HOME else 2 if name == MIXTURE else 3 if "→" in name else 4
    )


def collect(runs: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A line per arm, seed and set: Spearman, steps, rows and seconds; and of the arms beside the mixture."""
    lines, scored = [], {}
    for path in sorted(runs.glob("*/result.json")):
        result = Result.read(path)
        name, rows = arm(result), RowScores.read(path.parent).sets
        seeds = (1, 2, 3) if name == UNTRAINED else (result.seed,)
        for seed in seeds:
            scored[name, seed] = {each: rows[f"test/{each}"] for each in SETS}
            for each in SETS:
                value = result.scores[f"test/{each}/spearman"].value
                lines.append((name, seed, each, round(100 * (value or 0.0), 3)))
    scores = pd.DataFrame(lines, columns=["arm", "seed", "set", "spearman"])
    names = sorted(scores["arm"].unique(), key=lambda name: (kind(name), name))
    names = [name for name in names if all((name, seed) in scored for seed in (1, 2, 3))]
    scores = scores[scores["arm"].isin(names)]
    order = {name: place for place, name in enumerate(names)}
    scores = scores.sort_values(["arm", "seed", "set"], key=lambda c: c.map(order) if c.name == "arm" else c)
    return scores, _summary(names, scored)


def _summary(names: list[str], scored: Mapping[tuple[str, int], Mapping]) -> pd.DataFrame:
    """Each arm: measures with 95 % intervals, and their differences to the mixture, over rows and seeds drawn anew."""
    draw = np.random.default_rng(0)
    seeds = draw.integers(0, 3, size=(DRAWS, 3))
    seeds[0] = (0, 1, 2)
    values = {}  # (arm, set) → draws × seeds
    for each in SETS:
        count = len(scored[names[0], 1][each])
        picked = draw.integers(0, count, size=(DRAWS, count))
        picked[0] = np.arange(count)
        for name in names:
            of_seeds = [_spearman(scored[name, seed][each], picked) for seed in (1, 2, 3)]
            values[name, each] = np.take_along_axis(np.stack(of_seeds, axis=1), seeds, axis=1)
    lines = []
    measured = {name: _measures(name, values) for name in names}
    for name in names:
        for measure in MEASURES:
            own, beside = measured[name][measure], measured[name][measure] - measured[MIXTURE][measure]
            bounds = [
                *np.percentile(own[1:], (2.5, 97.5)),
                beside[0],
                *np.percentile(beside[1:], (2.5, 97.5)),
            ]
            lines.append((name, measure, *(round(100 * float(number), 3) for number in (own[0], *bounds))))
    columns = ["arm", "measure", "value", "low", "high", "to_mixture", "to_mixture_low", "to_mixture_high"]
    return pd.DataFrame(lines, columns=columns)


def _measures(name: str, values: Mapping[tuple[str, str], np.ndarray]) -> dict[str, np.ndarray]:
    """Of each draw, means over sets and seeds. Forgotten: the model of each set alone on it, less this one there."""
    means = {each: values[name, each].mean(axis=1) for each in SETS}
    lost = [values[each, each].mean(axis=1) - means[each] for each in HOME]
    parts = {"average": SETS, "trained_sets": HOME, "other_sets": AWAY}
    return {key: np.mean([means[each] for each in sets], axis=0) for key, sets in parts.items()} | {
        "forgotten": np.mean(lost, axis=0)
    }


def _spearman(rows: Mapping[str, np.ndarray], picked: np.ndarray) -> np.ndarray:
    """Of each draw of rows; of NLI the gold is the class, which is graded 1, 0.5, 0."""
    gold = rows["gold"].astype(float)
    if getattr(rows, "kind", "") == "nli_pair":
        gold = 1 - gold / 2
    ranks = [rankdata(side[picked], axis=1) for side in (rows["score"].astype(float), gold)]
    first, second = (side - side.mean(axis=1, keepdims=True) for side in ranks)
    return (first * second).sum(axis=1) / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))


def page(scores: pd.DataFrame, summary: pd.DataFrame) -> str:
    """The README of the folder."""
    names = list(dict.fromkeys(summary["arm"]))
    table = summary.pivot(index="arm", columns="measure")
    spread = scores.groupby(["arm", "seed"])["spearman"].mean().groupby("arm").std()
    head = (
        "model",
        "trained on rows",
        "average",
        "± seeds",
        "the three",
        "the others",
        "forgotten",
        "less the mixture",
    )
    body = [
        (
            name,
            "0" if name == UNTRAINED else "768" if name in HOME else "2,304",
            *(_number(table, name, "value", measure) for measure in ("average",)),
            f"{spread[name]:.1f}" if name != UNTRAINED else "",
            *(_number(table, name, "value", measure) for measure in MEASURES[1:]),
            "" if name == MIXTURE else _interval(table, name, "average"),
        )
        for name in names
    ]
    means = scores.groupby(["arm", "set"])["spearman"].mean()
    columns = [(name, *(f"{means[name, each]:.1f}" for each in SETS)) for name in names]
    return PAGE.format(
        table=markdown_table(head, body, numbers=range(1, len(head))),
        columns=markdown_table(("model", *SETS), columns, numbers=range(1, len(SETS) + 1)),
        conclusion="\n".join(f"- {line}" for line in conclusion(table, names)),
    )


def conclusion(table: pd.DataFrame, names: list[str]) -> list[str]:
    """What the intervals allow to be said."""
    lines = []
    for title, number in {"curricula": 3, "merged models": 4}.items():
        rows = [name for name in names if kind(name) == number]
        best, worst = (
            choose(rows, key=lambda name: table.loc[name, ("value", "average")]) for choose in (max, min)
        )
        below, above = (
            [name for name in rows if table.loc[name, (f"to_mixture_{end}", "average")] * sign > 0]
            for end, sign in (("high", -1), ("low", 1))
        )
        certain = [f"{len(side)} {word} it" for side, word in ((below, "below"), (above, "above")) if side]
        lines.append(
            f"Of {len(rows)} {title} the best on average is {_short(best)}: {_interval(table, best, 'average')} "
            f"compared with the mixture. The last is {_short(worst)}: {_interval(table, worst, 'average')}. "
            f"Certain at 95 %: {', '.join(certain) or 'none is above or below it'}, of {len(rows)}."
        )
        keeps = min(rows, key=lambda name: table.loc[name, ("value", "forgotten")])
        lines.append(
            f"Of the {title} {_short(keeps)} forgets least of what the single-set models know: "
            f"{_number(table, keeps, 'value', 'forgotten')} points, the mixture "
            f"{_number(table, MIXTURE, 'value', 'forgotten')}. Difference: {_interval(table, keeps, 'forgotten')}."
        )
    equal, chosen = "merged: linear", "merged: linear, weights by dev"
    if {equal, chosen} <= {*names}:
        lines.append(
            f"Weights chosen on 200 dev rows of each set: {_number(table, chosen, 'value', 'average')} on average, "
            f"equal weights {_number(table, equal, 'value', 'average')}."
        )
    return lines


def _short(name: str) -> str:
    return name.removeprefix("merged: ")


def _number(table: pd.DataFrame, name: str, part: str, measure: str) -> str:
    return f"{table.loc[name, (part, measure)]:.1f}"


def _interval(table: pd.DataFrame, name: str, measure: str) -> str:
    value, low, high = (table.loc[name, (f"to_mixture{end}", measure)] for end in ("", "_low", "_high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


PAGE = """# One after another, mixed, or merged

Three ways to train on the same 2,304 rows: as curricula, as a mixture, and as three single-set models that are merged.
There are 768 rows each of csts (graded pairs), lcqmc (questions, 0/1) and ocnli (inference, graded 1, 0.5, 0). Every
row is read once.

- **Start**: the built-in encoder `mini_zh@1`, CoSENT, batches of 16, the default learning rate of the encoder.
- **Seeds**: three, each with other rows.
- **Cost**: 144 steps for all three ways, because merging needs no training. Models merged by dev and the greedy soup
  also read half of the dev rows of the three sets.
- **Scores**: Spearman ×100 on 200 rows of each set. No choice was made on these rows. For csts, lcqmc and ocnli they
  are the other half of dev. For the other sets they are rows of dev, because no test split is available.

{table}

- **The three**: mean of the training sets. **The others**: mean of the seven other sets.
- **Forgotten**: score of a single-set model on its training set minus the score of this model, mean of the three.
- **Less the mixture**: difference of the averages with its 95 % interval, from 1,000 resamples of rows and seeds. All
  models have the same rows.
- **± seeds**: standard deviation of the averages of three seeds.

## Findings

{conclusion}

Budget, encoder and evaluation sets are small. Differences within an interval are undecided. Longer trainings were not
measured.

## Scores by set

{columns}

## Reproduce

```bash
python -m tools.dev_halves DATA HALVES --choose csts lcqmc ocnli --rows 200 --train-rows 5000 \\
  --judge cmnli csnli afqmc bq pawsx_zh xiaobu qbqtc
python train.py -m sweep=merging_cpu data_dir=HALVES output_dir=RUNS seed=1,2,3
sh results/merging/merge.sh RUNS
python -m tools.merging_page RUNS
```

`scores.csv` has every score. `summary.csv` has the metrics with their intervals.
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="?", type=Path, help="folder of the runs")
    options = parser.parse_args()
    if options.runs is not None:
        for name, frame in zip(("scores", "summary"), collect(options.runs), strict=True):
            write_text(FOLDER / f"{name}.csv", frame.to_csv(index=False, lineterminator="\n"))
    scores, summary = (pd.read_csv(FOLDER / f"{name}.csv") for name in ("scores", "summary"))
    write_text(FOLDER / "README.md", page(scores, summary))
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
