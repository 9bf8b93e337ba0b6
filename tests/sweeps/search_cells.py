"""A stand-in for train.py whose dev score depends on its words, and a program that searches with it."""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FAKE = """
import json, os, pathlib, sys, time
run_dir, rate = pathlib.Path(sys.argv[1]), float(sys.argv[2].partition("=")[2])
run_dir.mkdir(parents=True, exist_ok=True)
with (run_dir / "starts").open("a") as file:
    file.write("x")
time.sleep(float(os.environ.get("SECONDS", "0.1")))
part = run_dir / "result.part"
part.write_text(os.environ["RESULT"].replace("0.123", str(1 - (rate - 0.3) ** 2)))
os.replace(part, run_dir / "result.json")
"""
RESULT = {
    "name": "stand-in",
    "key": "0",
    "trained_on": ["set"],
    "scores": {"dev/set/spearman": {"value": 0.5, "low": 0.4, "high": 0.6, "count": 9}},
    "untrained": {},
    "config": {},
    "data": {},
    "training": {"best_dev_spearman": 0.123, "selected_on": ["set"]},
    "environment": {},
    "seed": 1,
    "format_version": 2,
}


def result_text(score: float) -> str:
    return json.dumps(RESULT).replace("0.123", str(score))


def settings(**changes):
    from sweeps.search import SearchSettings

    numbers = {
        "study": "rates",
        "num_trials": 6,
        "seeds": (),
        "sampler": "random",
        "sampler_seed": 0,
        "random_trials": 2,
        "pruner": "median",
        "prune_after_trials": 1,
        "prune_after_validations": 1,
    }
    return SearchSettings(**numbers | changes)


def space(*words: str):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from sweeps.search import read_space

    return read_space(OverridesParser.create().parse_overrides(list(words) or ["rate=interval(0,1)"]))


def search_in(folder: Path, *words: str, key: str = "0", **changes):
    from sweeps.search import HyperparameterSearch

    return HyperparameterSearch(folder, space(*words), settings(**changes), key=key)


def planner_of(search, folder: Path, runner, *, seeds=("",), report=lambda line: None):
    """A planner whose cells are named after their trial's words."""
    from sweeps.ledger import Ledger, SweepCell
    from sweeps.search import SearchPlanner

    def cells_of(trial):
        (word,) = search.space.words(trial.params)
        names = [f"{folder}/{word}{seed}" for seed in seeds]
        return [SweepCell(name, (name, word, f"trial={search.path}#{trial.number}")) for name in names]

    return SearchPlanner(search, cells_of, Ledger(folder), runner, attempts=1, report=report)


def run(folder: Path, num_trials: int) -> None:
    from sweeps.runners import LocalRunner

    folder.mkdir(parents=True, exist_ok=True)
    os.environ["RESULT"] = json.dumps(RESULT)
    program = folder.parent / "train.py"
    if not program.exists():
        program.write_text(FAKE)
    runner = LocalRunner([sys.executable, str(program)], jobs=2, threads=1, gpus=None, devices=0)
    with search_in(folder, num_trials=num_trials) as search:
        planner_of(search, folder, runner, report=lambda line: print(line, flush=True)).run()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    run(Path(sys.argv[1]), int(sys.argv[2]))
