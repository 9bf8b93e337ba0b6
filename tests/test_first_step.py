"""What a training imports before its first step: a user waits for it."""

import json

from forks import python

PROGRAM = """
import json, runpy, sys
import launch.curriculum

def fit(run):
    print(json.dumps(sorted(sys.modules)))
    raise SystemExit

launch.curriculum.StageRun._fit = fit
runpy.run_path("train.py", run_name="__main__")
"""

MOST = 5200
"""Modules, with every optional package installed; 5,034 were counted, 5,410 with scikit-learn."""

LATER = {"sklearn", "wandb", "datasets", "optuna", "sentence_transformers", "fastapi", "onnxruntime", "faiss"}


def test_few_modules_are_imported_before_the_first_step(tmp_path):
    words = ("debug=fast", "benchmark=none", f"output_dir={tmp_path}")
    done = python("-c", PROGRAM, *words)
    modules = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('["')))
    assert {name.partition(".")[0] for name in modules} & LATER == set()
    assert len(modules) <= MOST
