"""Compare two runs on one set: is the difference larger than what the choice of test rows explains?

    python examples/compare_runs.py
    python examples/compare_runs.py runs/FIRST runs/SECOND --dataset demo_qmc

Both are scored on the same rows, and the same rows are drawn for both in each resample (a paired bootstrap).
`juzhen report` does so for all rows of a matrix.
"""

import argparse
import sys

import numpy as np

from juzhen.cli.program import run_program
from juzhen.core.errors import require_number
from juzhen.data.source import load_examples
from juzhen.data.spec import configured_set
from juzhen.evaluation import evaluate
from juzhen.metrics.correlation import spearman


def correlation(scores: np.ndarray, grades: np.ndarray) -> float:
    return spearman(scores, grades) or 0.0  # undefined where a resample has one grade only


def main() -> None:
    parser = argparse.ArgumentParser(description="Two runs, or encoders, on the test rows of one set.")
    parser.add_argument(
        "first", nargs="?", default="lexical", help="a run, a folder, a built-in name, or lexical"
    )
    parser.add_argument("second", nargs="?", default="builtin/mini_zh")
    parser.add_argument("--dataset", default="demo_sts")
    parser.add_argument("--samples", type=int, default=1000)
    options = parser.parse_args()
    require_number("--samples", options.samples, 1)

    rows = load_examples(
        configured_set(options.dataset),
        "test",
        source="local",
        data_dir="data",
        on_bad_row="error",
        required=True,
    )
    assert rows is not None  # required
    grades = rows.grades()
    if grades is None:
        parser.error(
            f"--dataset {options.dataset}: its rows have no order; expected pairs with scores or labels"
        )
    both = [evaluate(one, [rows]) for one in (options.first, options.second)]
    key = f"test/{options.dataset}"
    for name, found in zip((options.first, options.second), both, strict=True):
        score = found.scores[f"{key}/spearman"]
        print(f"{name}: {score.value:.3f} [{score.low:.3f}, {score.high:.3f}]")

    first, second = (found.per_row[key] for found in both)
    draw = np.random.default_rng(0)
    resamples = draw.integers(len(grades), size=(options.samples, len(grades)))
    gains = [
        correlation(second[one], grades[one]) - correlation(first[one], grades[one]) for one in resamples
    ]
    low, high = np.quantile(gains, [0.025, 0.975])
    verdict = "no difference that these rows can show" if low < 0 < high else "a difference"
    print(f"second minus first, 95 % interval: [{low:+.3f}, {high:+.3f}]: {verdict}")


if __name__ == "__main__":
    sys.exit(run_program(main))
