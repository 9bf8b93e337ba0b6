"""What is read from a model's source is what its class says."""

import pytest
from omegaconf import OmegaConf

from launch.model_facts import model_facts
from launch.naming import run_name
from schema.own_classes import own_class


def targets(project_root):
    for path in sorted((project_root / "conf" / "model").glob("*.yaml")):
        if target := OmegaConf.load(path).get("_target_"):
            yield target


def test_facts_are_those_of_the_class(project_root):
    found = set(targets(project_root))
    assert "lightning_modules.lexical.Lexical" in found
    for target in found:
        model, facts = own_class(target), model_facts(target)
        assert (facts.trains, facts.scored) == (model.trains, model.scored), target
        assert facts.uses_loss == (model.trains and (model.reads is None or model.gives is not None)), target


LOSS = {"_target_": "losses.cosent.CoSENT"}


@pytest.mark.parametrize(
    ("model", "datasets", "expected"),
    [
        ("biencoder.BiEncoder", ["a", "b"], "a+b-biencoder-cosent-s1"),
        ("biencoder.BiEncoder", [], "untrained-biencoder-s1"),
        ("lexical.Lexical", ["a"], "lexical-s1"),
        ("lexical.Lexical", [], "lexical-s1"),
        ("mlm.MaskedLanguageModel", ["a"], "a-mlm-s1"),
        ("crops.Crops", ["a"], "a-crops-cosent-s1"),
    ],
)
def test_a_run_is_not_called_after_what_it_has_no_use_for(model, datasets, expected):
    config = {
        "dataset": {name: {} for name in datasets},
        "model": {"_target_": f"lightning_modules.{model}"},
        "loss": LOSS,
        "seed": 1,
    }
    assert run_name(config) == expected
