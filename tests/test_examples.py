"""The examples run as they stand: here with little work, with `-m slow` in full."""

import json
import os
import runpy
import sys
from pathlib import Path

import pytest
from forks import ROOT, in_a_fork

EXAMPLES = ROOT / "examples"
SCRIPTS = {
    "train_encoder": ["--epochs", "0.01"],
    "own_loss": ["--steps", "1"],
    "score_file": [],
    "search": ["--top", "2"],
    "rerank": ["--steps", "1", "--queries", "2"],
    "compare_runs": ["--samples", "20"],
    "clients": [],
}
"""Each script and the options by which it does little."""

FULL = [pytest.param(name, [], marks=pytest.mark.slow, id=f"{name}-in-full") for name in SCRIPTS]


def run_script(name: str, words: list[str], folder: Path) -> None:
    os.chdir(folder)
    sys.argv = [f"{name}.py", *words]
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def run_notebook(path: Path, folder: Path) -> None:
    """Its code cells in order, as one program."""
    os.chdir(folder)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    known = {"__name__": "__main__"}
    for number, source in enumerate(code):
        exec(compile(source, f"cell {number}", "exec"), known)
    assert known["after"].value > known["before"].value


@pytest.mark.parametrize(("name", "words"), [*SCRIPTS.items(), *FULL])
@pytest.mark.slow
def test_every_script_runs_in_an_empty_folder(name, words, tmp_path, capfd):
    code = in_a_fork(run_script, name, words, tmp_path)
    said = capfd.readouterr()
    assert code == 0, said.err
    assert said.out


@pytest.mark.parametrize(
    ("name", "words", "way_out"),
    [
        ("score_file", ["nowhere.csv"], "nowhere.csv"),
        ("score_file", ["--columns", "sentence1", "other"], "other"),
        ("score_file", ["--encoder", "runs/nowhere"], "runs/nowhere"),
        ("search", ["--top", "0"], "--top"),
        ("rerank", ["--queries", "0"], "--queries"),
        ("own_loss", ["--steps", "0"], "--steps"),
        ("compare_runs", ["--samples", "0"], "--samples"),
        ("compare_runs", ["--dataset", "nowhere"], "nowhere"),
        ("compare_runs", ["runs/nowhere"], "runs/nowhere"),
        ("train_encoder", ["--epochs", "nan"], "epochs"),
        ("clients", ["--url", "http://127.0.0.1:9"], "127.0.0.1:9"),
    ],
)
@pytest.mark.slow
def test_a_mistake_is_one_line(name, words, way_out, tmp_path, capfd):
    assert in_a_fork(run_script, name, words, tmp_path) != 0
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if line.startswith("error:") and way_out in line]


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    assert in_a_fork(run_notebook, EXAMPLES / "quickstart.ipynb", tmp_path) == 0


def test_every_example_is_tested_and_told_of():
    told = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in EXAMPLES.iterdir()} - {"README.md", "__pycache__"}
    assert names == {*(f"{name}.py" for name in SCRIPTS), "quickstart.ipynb"}
    assert all(f"]({name})" in told for name in names)
    notebook = json.loads((EXAMPLES / "quickstart.ipynb").read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") for cell in notebook["cells"])  # they would grow old
