"""What the scores of a model are is read off its source; models of other people count too."""

import sys

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf import for_scores
from conf.for_scores import unit_of_scores
from juzhen.core.errors import UserError

BASE = """
class Base:
    offers: tuple = ("scores", "cosines")


class Silent:
    pass
"""
MODELS = """
from models.base import Base as Parent, Silent


class Plain(Parent):
    pass


class Logits(Parent):
    offers = ("scores", "logits")


class More(Logits):
    pass


class Mute(Silent):
    pass
"""


@pytest.fixture
def root(tmp_path):
    for name, text in (("base", BASE), ("own", MODELS)):
        (tmp_path / "models").mkdir(exist_ok=True)
        (tmp_path / "models" / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("model", "unit"),
    [
        ("models.own.Plain", "cosine"),
        ("models.own.Logits", "logit"),
        ("models.own.More", "logit"),
        ("models.own.Parent", "cosine"),
        ("models.own.Absent", "cosine"),
        ("models.absent.Plain", "cosine"),
    ],
)
def test_the_nearest_class_that_says_it_counts(model, unit, root):
    assert unit_of_scores(model, root=root) == unit


def test_a_class_that_offers_nothing_is_named(root):
    with pytest.raises(UserError, match=r"models.own.Mute names no `offers`"):
        unit_of_scores("models.own.Mute", root=root)


def test_a_model_from_elsewhere_is_not_run_to_ask_it(root, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "their_model.py").write_text("class Theirs:\n    offers = ('scores',)\n")
    monkeypatch.syspath_prepend(str(elsewhere))
    assert unit_of_scores("their_model.Theirs", root=root) == "cosine"
    assert "their_model" not in sys.modules


def test_a_number_without_a_model_is_refused():
    for_scores.register()
    config = OmegaConf.create({"loss": {"temperature": "${for_scores:{cosine:0.05,logit:1}}"}})
    with pytest.raises(OmegaConfBaseException, match="no model is chosen"):
        OmegaConf.to_container(config, resolve=True)
