"""The words of a search: what they span, and what is refused before anything is trained."""

import sys
from types import SimpleNamespace

import pytest
from forks import ROOT
from hydra.core.plugins import Plugins
from omegaconf import OmegaConf
from search_cells import settings, space

from juzhen.core.errors import UserError
from launch.check import check_command_line

pytest.importorskip("optuna")

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution


def test_the_space_is_what_hydra_words_say():
    read = space(
        "seed=3",
        "a=tag(log,interval(1e-5,1e-3))",
        "b=int(interval(1,4))",
        "c=range(8,65,8)",
        "d=x,[y,z]",
        "e=choice(5 percent,0 percent)",
        "seed=4",
    )
    assert read.fixed == ("seed=4",)
    assert read.varied == {
        "a": FloatDistribution(1e-5, 1e-3, log=True),
        "b": IntDistribution(1, 4),
        "c": IntDistribution(8, 64, step=8),
        "d": CategoricalDistribution(["x", "[y,z]"]),
        "e": CategoricalDistribution([r"5\ percent", r"0\ percent"]),
    }
    values = {"a": 0.1 + 0.2, "b": 2, "c": 8, "d": "[y,z]", "e": r"5\ percent"}
    assert read.words(values) == ["seed=4", "a=0.30000000000000004", "b=2", "c=8", "d=[y,z]", r"e=5\ percent"]


def sweep(*words: str, launcher=None, **keys) -> None:
    """What `-m hydra/sweeper=optuna` does before anything is composed."""
    Plugins.instance()  # executes plugins anew: a class imported before has another parent than it believes
    from hydra_plugins.juzhen_sweeps.sweeper import SearchSweeper

    sweeper = SearchSweeper(params={}, **vars(settings()) | {"seeds": None} | keys)
    sweeper.launcher = launcher or SimpleNamespace(runner=None)
    sweeper.config = OmegaConf.create({"hydra": {"runtime": {"choices": {"hydra/launcher": "joblib"}}}})
    sweeper.context = SimpleNamespace(config_loader=None)
    sweeper.sweep(list(words))


def without_optuna(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    sweep("rate=interval(0,1)")


SPACES = {
    "seed=1": "nothing to search: give a key several values",
    "a=tag(lgo,interval(1,2))": "expected the tag log",
    "a=tag(log,choice(1,2))": "that for numbers",
    "a=interval(3,1)": "two finite numbers, the lower first",
    "a=interval(0,inf)": "two finite numbers",
    "a=tag(log,interval(0,1))": "low > 0",
    "a=tag(log,range(4,8,2))": "step",
}
SETTINGS = [
    ({"pruner": "medain"}, "hydra.sweeper.pruner=medain: unknown choice. Did you mean median"),
    ({"sampler": "grid"}, "Known: random, tpe"),
    ({"study": "a/b"}, "a name without"),
    ({"num_trials": 0}, "num_trials=0: expected a whole number, at least 1"),
    ({"seeds": (1, 1)}, "a seed is there twice"),
]
KEYS = [
    ({"num_trial": 5}, "unexpected keyword argument 'num_trial'"),
    ({"seeds": [1, 2]}, "seed=… is given, too. Keep one"),
    ({"rows": {"one": "loss=x"}}, r"a search has no rows \(one\)"),
    (
        {"launcher": object()},
        "hydra/launcher=joblib: a search needs a launcher with one process for each trial",
    ),
]
REFUSED = [
    *((lambda _, word=word: space(word), told) for word, told in SPACES.items()),
    *((lambda _, change=change: settings(**change), told) for change, told in SETTINGS),
    *((lambda _, keys=keys: sweep("rate=interval(0,1)", "seed=1", **keys), told) for keys, told in KEYS),
    (without_optuna, r"a search needs optuna. Type: pip install -e .*\[search\]"),
    (
        lambda _: check_command_line(["hydra/sweeper=optuna"], conf_dir=ROOT / "conf"),
        r"hydra/sweeper=optuna: a sweep is several runs. Add -m",
    ),
]
OF_OPTUNA = {"low > 0": ValueError, "step": ValueError, KEYS[0][1]: TypeError}
"""What a message of others is raised as."""


@pytest.mark.parametrize(("call", "told"), REFUSED)
def test_a_search_that_cannot_be_meant_is_refused_before_anything_is_trained(call, told, monkeypatch):
    with pytest.raises(OF_OPTUNA.get(told, UserError), match=told):
        call(monkeypatch)
