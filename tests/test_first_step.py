"""What a training imports before its first step: a user waits for it."""

import json

import pytest
from forks import python

PROGRAM = """
import json, sys
import train
from juzhen.cli.program import run_program

look = train.first_look

def fit(run):
    print(json.dumps(sorted(sys.modules)))
    raise SystemExit

def first_look(job, **options):
    look(job)
    import launch.curriculum
    launch.curriculum.StageRun._fit = fit

train.first_look = first_look
sys.argv[0] = "train.py"
sys.exit(run_program(train.main))
"""

MOST = 3800
"""Modules, with every optional package installed; 3,728 were counted, 5,034 with what LATER and UNUSED name."""

LATER = {
    "sklearn",
    "pandas",
    "wandb",
    "datasets",
    "optuna",
    "sentence_transformers",
    "fastapi",
    "onnxruntime",
    "faiss",
}
UNUSED = {"matplotlib", "torchao", "peft", "scipy.signal", "scipy.stats", "scipy.optimize"}
"""What Lightning and transformers import by themselves (conf/own_classes.py)."""


@pytest.mark.slow
def test_few_modules_are_imported_before_the_first_step(tmp_path):
    words = ("debug=fast", "benchmark=none", f"output_dir={tmp_path}")
    done = python("-c", PROGRAM, *words)
    modules = set(json.loads(next(line for line in done.stdout.splitlines() if line.startswith('["'))))
    assert modules & (LATER | UNUSED) == set()
    assert len(modules) <= MOST


@pytest.mark.slow
def test_what_was_left_out_is_there_for_everybody_else(tmp_path):
    program = (
        "from conf.own_classes import load_lightning; load_lightning(); load_lightning()\n"
        "from lightning_utilities.core.imports import RequirementCache, package_available\n"
        "from transformers.utils import is_scipy_available\n"
        "import pytorch_lightning, scipy.stats\n"
        "print(package_available('scipy'), bool(RequirementCache('scipy')), is_scipy_available())\n"
    )
    assert python("-c", program).stdout.split() == ["True"] * 3
