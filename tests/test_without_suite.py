"""The library where the packages of the suite are not installed."""

import os
import re
import shutil
import tomllib

import pytest
from forks import printed
from sources import FRAMEWORKS

from tools.archives import unpacked

WITHOUT = f"""
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {FRAMEWORKS} else super().find_spec(name, path, target)

sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""
USES = """
from juzhen import SentenceEncoder, fit, load_ranking, mine
from juzhen.cli.runs import report
from juzhen.evaluation import evaluate

encoder = SentenceEncoder.load(ENCODER)
fit(encoder, [("今天下雨", "今天有雨", 1), ("今天下雨", "明天放假", 0)], epochs=1)
assert encoder.encode(["今天天气很好"]).shape == (1, 32)
assert encoder.score([("今天天气很好", "今天是个好天气")]).shape == (1,)
print(mine(load_ranking("demo_retrieval", "dev"), [encoder], folder="mined").report())
found = evaluate(encoder, ["demo_sts"])
print(found.scores["dev/demo_sts/spearman"].value)
report(RUNS, out=Path("report"))
"""


def test_the_package_asks_for_none_of_them(project_root):
    project = tomllib.loads((project_root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {re.split(r"[<>=\[]", line)[0].replace("-", "_") for line in project["dependencies"]}
    assert not names & {*FRAMEWORKS, "hydra_core"}
    assert {line.partition(">")[0] for line in extras["suite"]} >= {
        "hydra-core",
        "pytorch-lightning",
        "wandb",
    }
    assert "juzhen-embeddings[suite]" in extras["dev"]


@pytest.mark.slow
def test_load_fit_encode_score_mine_evaluate_and_report(project_root, encoder_folder, tmp_path):
    for run in sorted((unpacked() / "transfer" / "runs").iterdir())[:3]:
        shutil.copytree(run, tmp_path / "runs" / run.name)
    places = f"RUNS, ENCODER = Path('runs'), Path({str(encoder_folder)!r})"
    code = f"{WITHOUT}\nfrom pathlib import Path\n{places}\n{USES}"
    printed("-c", code, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(project_root)})
    assert (tmp_path / "report").is_dir()
