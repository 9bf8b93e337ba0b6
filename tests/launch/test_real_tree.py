"""Every file of the real configuration tree composes and is accepted; what --help prints is true."""

import re
import shlex

import pytest
import yaml
from forks import ROOT, python

from launch.check import check_command_line
from tools.generated import users_files

CONF = ROOT / "conf"
HELP = CONF / "hydra" / "help" / "juzhen.yaml"

GROUPS = sorted(
    folder.name for folder in CONF.iterdir() if folder.name != "hydra" and any(folder.glob("*.yaml"))
)
SWEEPS = sorted(file.stem for file in (CONF / "sweep").glob("*.yaml"))
LONG_SWEEPS = {
    "cot_ablation",
    "cross_encoder_cpu",
    "domains",
    "general_ways",
    "retrieval_cpu",
    "simclue",
    "transfer_cpu",
    "transfer_matrix_zh",
    "transfer_picture",
}
"""Many rows each."""
LONG_GROUPS = {"benchmark", "loss", "model"}
"""Many options each; what they hold is looked at in other tests too: each set, each loss and each model by itself."""


def marked(names, long):
    return [pytest.param(name, marks=[pytest.mark.slow] if name in long else []) for name in names]


def check(*arguments: str) -> None:
    check_command_line(arguments, conf_dir=CONF)


@pytest.mark.parametrize(
    "group", marked([name for name in GROUPS if name not in ("dataset", "sweep")], LONG_GROUPS)
)
@pytest.mark.sampled(9)
def test_every_option_of_a_group_is_accepted(group: str) -> None:
    small = [] if group in ("benchmark", "experiment") else ["benchmark=none"]
    options = (
        "glob(*, exclude=[distill*,guided])" if group == "model" else "glob(*)"
    )  # those need a teacher, see below
    check("-m", f"{group}={options}", *small, *(["backbone.path=folder"] if group == "backbone" else []))


@pytest.mark.parametrize(
    ("model", "loss"),
    [("distill", "distill"), ("distill_translations", "distill_mse"), ("guided", "info_nce_guided")],
)
@pytest.mark.sampled(3)
def test_a_student_is_accepted_with_a_teacher(model: str, loss: str) -> None:
    check(f"model={model}", "model.teacher=folder", f"loss={loss}", "benchmark=none")


@pytest.mark.parametrize("group", ["model", "loss", "backbone"])
def test_every_file_says_its_name(group: str) -> None:
    files = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (CONF / group).glob("*.yaml")
    }
    names = {stem: one.get("variant", one.get("name")) for stem, one in files.items()}
    others = {stem: name for stem, name in names.items() if name != stem}
    unnamed = {"model": {}, "loss": {"by_kind": None}, "backbone": {"local": None}}
    assert others == unnamed[group]


@pytest.mark.slow
def test_every_dataset_is_accepted() -> None:
    names = sorted(file.stem for file in {*(CONF / "dataset").glob("*.yaml")} - users_files())
    check(f"dataset=[{','.join(names)}]", "benchmark=none")


@pytest.mark.parametrize("name", marked(SWEEPS, LONG_SWEEPS))
@pytest.mark.slow
def test_every_choice_of_a_sweep_is_accepted(name: str) -> None:
    check(
        "-m", f"sweep={name}", "benchmark=none"
    )  # the sets of a suite, in every row, would take half of the time


def test_the_suites_that_sweeps_name_exist() -> None:
    suites = {file.stem for file in (CONF / "benchmark").glob("*.yaml")}
    for name in SWEEPS:
        values = yaml.safe_load((CONF / "sweep" / f"{name}.yaml").read_text(encoding="utf-8"))
        suite = values["hydra"]["sweeper"].get("params", {}).get("benchmark")
        assert suite is None or set(str(suite).split(",")) <= suites, name


@pytest.mark.slow
def test_the_commands_in_the_help_text_are_accepted() -> None:
    template = yaml.safe_load(HELP.read_text(encoding="utf-8"))["template"]
    commands = re.findall(r"python train\.py(.*?)(?:\s{2,}|\)| \| |$)", template, flags=re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        check(*(word for word in shlex.split(command) if not word.startswith("data=")))


@pytest.mark.slow
def test_the_help_text_lists_the_groups_and_needs_no_torch() -> None:
    script = "import runpy, sys; sys.argv = ['train.py', '--help']; " + (
        "runpy.run_path('train.py', run_name='__main__')"
    )
    guard = "import sys; sys.modules['torch'] = None; "  # importing torch would now raise
    done = python("-c", guard + script)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^loss: .*\bby_kind\b", done.stdout, flags=re.MULTILINE)
    assert "Powered by Hydra" not in done.stdout
