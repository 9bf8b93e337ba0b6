"""Merge the single sources of each mixture and curriculum of results/decide: python -m tools.decide_merges RUNS

RUNS has the trained runs of sweep=decide and the results of sweep=decide_mixtures. Each merged model is a run, too.
"""

import argparse
import sys
from pathlib import Path

from juzhen.cli.program import run_program
from juzhen.core.result import RESULT_FILE, Result
from juzhen.merging.merge import MergeRecipe
from juzhen.merging.runs import merge_runs
from tools.decide_mixtures import BUDGET, ENCODER, ROWS, SEED, is_of_several


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.decide_merges", description=__doc__.splitlines()[0])
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
