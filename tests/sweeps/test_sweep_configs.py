"""Each matrix of conf/sweep really is a list of runs: Hydra expands it with -m and leaves it alone without."""

import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

CONF = Path(__file__).parents[2] / "conf"
SWEEPS = [
    path
    for path in sorted((CONF / "sweep").glob("*.yaml"))
    if "dataset"
    in OmegaConf.load(path).hydra.sweeper.params  # the others have other groups than this program
]

TRAIN = """
defaults:
  - loss: cosent
  - suite: other
  - dataset: [first]
  - _self_
  - sweep: null
hydra:
  output_subdir: null
  sweep: {dir: runs, subdir: "${hydra:job.num}"}
"""
PROGRAM = """
import hydra

@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(config):
    print("RAN", "+".join(config.get("dataset") or {}) or "untrained", config.loss.name, config.suite.name)

main()
"""


def choices(path: Path) -> dict[str, list[object]]:
    """Group → its choices, each a name or a list of names, as Hydra reads them."""
    params = OmegaConf.load(path).hydra.sweeper.params
    overrides = OverridesParser.create().parse_overrides([f"{key}={value}" for key, value in params.items()])
    return {
        one.key_or_group: list(one.sweep_iterator()) if one.is_sweep_override() else [one.value()]
        for one in overrides
    }


def names(choice: object) -> list[str]:
    return OmegaConf.to_container(OmegaConf.create(choice)) if str(choice).startswith("[") else [str(choice)]


def run(folder: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "train.py", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line.removeprefix("RAN ") for line in done.stdout.splitlines() if line.startswith("RAN ")]


@pytest.fixture(params=SWEEPS, ids=lambda path: path.stem)
def job(request, tmp_path):
    """A folder with a train.py that only names its job, and every group choice that the sweep names."""
    found = choices(request.param)
    for group, wanted in (found | {"base": ["x"]}).items():
        (tmp_path / "conf" / group).mkdir(parents=True)
        for name in {name for choice in wanted for name in names(choice)}:
            text = f"{name}: {{name: {name}}}" if group == "dataset" else f"name: {name}"
            (tmp_path / "conf" / group / f"{name}.yaml").write_text(text)
    (tmp_path / "conf" / "dataset" / "first.yaml").write_text("first: {name: first}")
    (tmp_path / "conf" / "loss" / "cosent.yaml").write_text("name: cosent")
    (tmp_path / "conf" / "suite" / "other.yaml").write_text("name: other")
    (tmp_path / "conf" / "sweep").mkdir()
    (tmp_path / "conf" / "sweep" / request.param.name).write_text(request.param.read_text())
    (tmp_path / "conf" / "train.yaml").write_text(TRAIN)
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path, f"sweep={request.param.stem}", found


def test_hydra_runs_every_row(job):
    folder, sweep, found = job
    rows = ["+".join(names(choice)) or "untrained" for choice in found["dataset"]]
    (loss,), (suite,) = found["loss"], found["suite"]
    assert run(folder, "-m", sweep) == [f"{row} {loss} {suite}" for row in rows]


@pytest.mark.parametrize("job", SWEEPS[:1], ids=lambda path: path.stem, indirect=True)
def test_the_list_yields_to_the_command_line_and_needs_m(job):
    folder, sweep, found = job
    assert run(folder, sweep) == ["first cosent other"]
    assert run(folder, "-m", sweep, "dataset=[first]", "loss=cosent") == [f"first cosent {found['suite'][0]}"]


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_choice_exists(path):
    for group, wanted in choices(path).items():
        known = {one.stem for one in (CONF / group).glob("*.yaml")}
        assert {name for choice in wanted for name in names(choice)} <= known, group
