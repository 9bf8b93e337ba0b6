"""No file that a stranger could have written names code to run: results, data sets, journals, encoders, checkpoints."""

import ast
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from callbacks.reporting import PruneOnDev
from callbacks.trial import TrialAddress, open_journal
from conf.own_classes import own_class
from juzhen.cli.main import main
from launch.check import check_command_line
from sweeps import runners
from sweeps.ledger import Ledger, SweepCell
from sweeps.runners import Ended
from sweeps.search import PRUNERS


def test_a_module_and_a_loss_of_the_project_are_found():
    from juzhen.losses.pairwise_ranking import CoSENT
    from lightning_modules.lexical import Lexical

    assert own_class("lightning_modules.lexical.Lexical") is Lexical
    assert own_class("juzhen.losses.pairwise_ranking.CoSENT") is CoSENT


def having_a_trap(run, place):
    """The folder of a run whose result names other code there."""
    path = run / "result.json"
    text = path.read_text(encoding="utf-8")
    found = re.search(rf'"{place}": {{\s*"_target_": "([\w.]+)"', text)
    path.write_text(text.replace(f'"{found[1]}"', '"a_trap.Trap"'), encoding="utf-8")
    return run


def test_a_loss_in_a_result_of_a_stranger_runs_nothing(trap, tiny_lexical):
    """Of a model that learns nothing the loss is never asked for."""
    main(["evaluate", str(having_a_trap(tiny_lexical, "loss")), "--again", "--without-leaks"])
    assert not trap.exists()


FORBIDDEN = {
    "hydra.utils": {"get_class", "get_method", "get_object", "instantiate", "call"},
    "importlib": {"import_module", "__import__"},
    "pickle": {"load", "loads", "Unpickler"},
    "cloudpickle": {"load", "loads"},
    "yaml": {"load", "load_all", "full_load", "unsafe_load"},
}
"""Module → what runs the code that its argument names."""

MAY = {
    ("conf/own_classes.py", "import_module"),
    ("juzhen/cli/verbs.py", "import_module"),  # a name of the table in it
    ("juzhen/core/lazy_names.py", "import_module"),  # what a package, or rooms.toml, names
    ("juzhen/models/__init__.py", "import_module"),  # the modules of that package
    ("juzhen/core/safe_open.py", "load"),  # by a SafeLoader, which makes plain values alone
    ("tools/docs/site.py", "import_module"),  # a package of juzhen, from the list beside it
}


def test_no_other_place_can_run_what_a_file_names(project_root):
    packages = {path.parent for path in project_root.glob("*/__init__.py")}
    packages |= {project_root / "hydra_plugins", project_root / "juzhen"}
    found = set()
    for path in [*project_root.glob("*.py"), *(file for one in packages for file in one.rglob("*.py"))]:
        name = path.relative_to(project_root).as_posix()
        if not name.startswith("tests/"):
            found |= {(name, word) for word in dangerous(ast.parse(path.read_text(encoding="utf-8")))}
    assert found == MAY


def dangerous(tree: ast.AST):
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module, names=names) if module in FORBIDDEN:
                yield from (one.name for one in names if one.name in FORBIDDEN[module])
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=word)) if word in FORBIDDEN.get(
                module, ()
            ):
                yield word
            case ast.Call(func=ast.Name(id=word)) if word in ("eval", "exec", "__import__"):
                yield word
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="load"), keywords=words):
                if not any(one.arg == "weights_only" and is_true(one.value) for one in words):
                    yield "torch.load"
            case ast.keyword(arg="trust_remote_code" | "allow_pickle", value=value) if is_true(value):
                yield node.arg


def is_true(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def test_the_reader_of_sources_finds_what_it_looks_for():
    text = """
from hydra.utils import instantiate
import importlib, pickle
importlib.import_module("a"); pickle.loads(b""); eval("1"); torch.load("a")
torch.load("a", weights_only=True); read(trust_remote_code=True); np.load("a", allow_pickle=True)
"""
    expected = {
        "instantiate",
        "import_module",
        "loads",
        "eval",
        "torch.load",
        "trust_remote_code",
        "allow_pickle",
    }
    assert set(dangerous(ast.parse(text))) == expected


optuna = pytest.importorskip("optuna")


def journal(folder, **attributes):
    """A study with one trial at work, as a search leaves it."""
    storage = open_journal(folder / "s.journal")
    study = optuna.create_study(storage=storage, study_name="s", direction="maximize")
    for name, value in attributes.items():
        study.set_user_attr(name, value)
    study.ask()
    return TrialAddress(str(folder / "s.journal"), 0)


@pytest.mark.parametrize("pruner", PRUNERS)
def test_the_pruners_of_our_own_searches_are_made(pruner, tmp_path):
    described = PRUNERS[pruner](3, 2)
    callback = PruneOnDev(journal(tmp_path, pruner=described), monitor="dev/selection/spearman")
    callback.setup(SimpleNamespace(is_global_zero=True), None, "fit")
    made = callback._study.pruner
    assert described["_target_"] == f"optuna.pruners.{type(made).__name__}"
    if pruner == "median":
        assert (made._n_startup_trials, made._n_warmup_steps) == (3, 2)


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, sprung):
        self.sprung = sprung

    def __reduce__(self):
        return Path.touch, (self.sprung,)


@pytest.mark.parametrize("name", ["12_0_result.pkl", "state.json"])
def test_what_a_job_of_a_cluster_left_is_not_unpickled(name, tmp_path, monkeypatch):
    monkeypatch.setattr(runners, "SHARED_DISK_SECONDS", 0.0)
    sprung = tmp_path / "sprung"
    (tmp_path / name).write_bytes(pickle.dumps(("success", Trap(sprung))))
    cell = SweepCell(str(tmp_path / "a"), ())
    work = runners.ClusterAttempt(Ledger(tmp_path), cell, tmp_path / "state.json", "12", lambda: True)
    gone = Ended(1, "job 12 is gone: cancelled, out of time, or its node is gone")
    assert work.poll() == gone
    assert not sprung.exists()
    pickle.loads((tmp_path / name).read_bytes())
    assert sprung.exists()
    for text in ("[]", "{}", '{"status": "0"}', "{"):
        (tmp_path / "state.json").write_text(text)
        assert work.poll() == gone


def test_the_folder_that_nodes_read_pickles_from_is_ours_alone(tmp_path):
    runners.make_private(tmp_path / "jobs" / "a")
    assert (tmp_path / "jobs" / "a").stat().st_mode & 0o077 == 0
    (tmp_path / "jobs" / "a").chmod(0o775)
    runners.make_private(tmp_path / "jobs" / "a")
    assert (tmp_path / "jobs" / "a").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "words",
    [
        "+hydra.job.env_set.OMP_NUM_THREADS=1",
        "hydra.run.dir=/tmp/elsewhere",
        "hydra/job_logging=stdout",
        "hydra/job_logging=none hydra/hydra_logging=disabled",
        "-m seed=1,2 hydra/launcher=basic",
        "-m seed=1,2 hydra/launcher=slurm",
    ],
)
@pytest.mark.sampled(3)
def test_what_a_person_types_is_theirs_to_choose(words, project_root):
    check_command_line(words.split(), conf_dir=project_root / "conf")
