"""What the scores of a model are is asked of what it provides to a loss."""

import sys

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf import register, unit_of_scores


@pytest.mark.parametrize(
    ("model", "unit"),
    [
        ("lightning_modules.biencoder.BiEncoder", "cosine"),
        ("lightning_modules.cot.CotEncoder", "cosine"),
        ("lightning_modules.crossencoder.CrossEncoderModule", "logit"),
        ("lightning_modules.biencoder.Absent", "cosine"),
        ("lightning_modules.absent.BiEncoder", "cosine"),
    ],
)
def test_a_model_scores_by_cosines_where_it_provides_them(model, unit):
    assert unit_of_scores(model) == unit


def test_a_model_from_elsewhere_is_not_run_to_ask_it(tmp_path, monkeypatch):
    (tmp_path / "their_model.py").write_text("class Theirs:\n    provides = ('scores',)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert unit_of_scores("their_model.Theirs") == "cosine"
    assert "their_model" not in sys.modules


def test_a_number_without_a_model_is_refused():
    register()
    config = OmegaConf.create({"loss": {"temperature": "${for_scores:{cosine:0.05,logit:1}}"}})
    with pytest.raises(OmegaConfBaseException, match="no model is chosen"):
        OmegaConf.to_container(config, resolve=True)
