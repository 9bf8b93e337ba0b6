"""What is set on an encoder works from the next text on and is saved, or is refused with what to do."""

import numpy as np
import pytest
import torch

from juzhen.encoders import CrossEncoder, load_encoder, save_encoder
from juzhen.encoders.prompts import Prompts

TEXTS = ["今天天气很好吗", "我你他们", "今天今天今天今天今天"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pooling", "cls"),
        ("normalize", True),
        ("max_length", 5),
        ("prompts", Prompts({"query": "我们"}, "query")),
        ("projections", torch.nn.ModuleList()),
    ],
)
def test_a_setting_has_its_effect_and_is_saved(load, bert_folder, tmp_path, name, value):
    encoder = load(bert_folder, normalize=False)
    before = encoder.encode(TEXTS)
    setattr(encoder, name, value)
    after = encoder.encode(TEXTS)
    assert np.array_equal(before, after) == (name == "projections")
    again = load_encoder(save_encoder(encoder, tmp_path / "saved", card={"name": "x"}))
    np.testing.assert_allclose(again.encode(TEXTS), after, atol=1e-6)


def test_a_mapping_of_prompts_is_a_prefix(load, bert_folder):
    encoder = load(bert_folder)
    plain = encoder.encode_query("今天")
    encoder.prompts = {"query": "我们"}
    assert not np.allclose(encoder.encode_query("今天"), plain)
    np.testing.assert_array_equal(encoder.encode("今天"), plain)


def test_settings_of_a_cross_encoder(load, bert_folder):
    pairs = CrossEncoder(load(bert_folder), outputs=1, segments=False, symmetric=False, seed=0).eval()
    both = [("今天", "天气"), ("天气", "今天")]
    assert len({*pairs.score(both).tolist()}) == 2
    pairs.symmetric = True
    assert np.ptp(pairs.score(both)) < 1e-6
