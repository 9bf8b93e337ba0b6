import subprocess
import sys
from pathlib import Path

import pytest

from schema.result import Result
from sweeps.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path, small_matrix_results):
    for number, result in enumerate(small_matrix_results):
        folder = tmp_path / "runs" / str(number)
        folder.mkdir(parents=True)
        result.write(folder)
    return tmp_path / "runs"


def test_table_writes_what_it_shows(runs, tmp_path, capsys):
    markdown, table = tmp_path / "matrix.md", tmp_path / "matrix.csv"
    assert main(["table", str(runs), "--markdown", str(markdown), "--csv", str(table)]) == 0
    assert "untrained" in capsys.readouterr().out
    assert "| lexical | 1 |" in markdown.read_text(encoding="utf-8")
    assert table.read_text(encoding="utf-8").startswith("row,setup,split")


def test_compare_prints_references(runs, capsys):
    assert main(["compare", str(runs)]) == 0
    out = capsys.readouterr().out
    assert "chinese_transfer: qmc_domain, qmc-base" in out
    assert "no reference: " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table", "nowhere"], "nowhere: no such folder"),
        (["table", "RUNS", "--metric", "sperman"], "metric=sperman"),
        (["table", "RUNS", "--csv", "/nowhere/at/all.csv"], "cannot write there"),
    ],
)
def test_mistakes_are_one_line_and_status_2(runs, capsys, arguments, message):
    assert main([str(runs) if one == "RUNS" else one for one in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_exported_results_give_the_same_table_without_folders_of_this_machine(runs, tmp_path, capsys):
    (runs / "0" / "result.json").write_text("{", encoding="utf-8")
    (runs / "1" / "encoder").mkdir()
    result = Result.read(runs / "1")
    result.config["data_dir"] = "/home/me/data"
    result.environment["command"] = ["train.py", "init_from=/home/me/runs/a", "url=https://a.b/c"]
    result.write(runs / "1")
    target = tmp_path / "kept"
    assert main(["export", str(runs), str(target)]) == 0
    shown = capsys.readouterr()
    assert "left out: " in shown.err
    files = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert files == sorted(f"{path.parent.name}/result.json" for path in runs.rglob("result.json"))[1:]
    kept = Result.read(target / "1")
    assert kept.config["data_dir"] == "data"
    assert kept.environment["command"] == ["train.py", "init_from=a", "url=https://a.b/c"]
    assert kept.scores == result.scores
    tables = []
    for folder in (runs, target):
        main(["table", str(folder)])
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]
    assert main(["export", str(runs), str(runs / "within")]) == 2


def test_an_unreadable_result_is_named_and_the_rest_is_shown(runs, capsys):
    (runs / "0" / "result.json").write_text("{", encoding="utf-8")
    assert main(["table", str(runs)]) == 0
    shown = capsys.readouterr()
    assert "left out: " in shown.err
    assert "lexical" in shown.out


def test_help_needs_no_heavy_library(tmp_path):
    program = (
        "import sys, runpy; sys.argv = ['sweeps', '--help']\n"
        "try: runpy.run_module('sweeps', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'hydra', 'scipy', 'sklearn', 'rich', 'transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "transfer matrix" in done.stdout


def test_no_module_of_sweeps_imports_torch():
    modules = [f"sweeps.{path.stem}" for path in (ROOT / "sweeps").glob("[a-z]*.py")]
    program = (
        f"import sys, importlib\nfor one in {modules}: importlib.import_module(one)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
