"""What is set on an encoder works from the next text on and is saved, or is refused with what to do."""

import numpy as np
import pytest
import torch

from juzhen.core.errors import UserError
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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("pooling", "nope", "Did you mean|no such pooling|Known"),
        ("poolings", "cls", "unknown attribute. Did you mean pooling"),
        ("max_seq_length", 8, "unknown attribute"),
        ("query_prompt", "q", "unknown attribute"),
        ("max_length", 10_000, "expected a whole number, 3 to 32"),
        ("max_length", True, "expected a whole number"),
        ("normalize", "yes", "expected True or False"),
        ("micro_batch_tokens", 0, "at least 1"),
        ("prompts", Prompts({"query": "我" * 99}, "query"), "leaves none for the sentence"),
        (
            "prompts",
            Prompts({"query": "我"}, "document"),
            "default_prompt_name=document: unknown choice. Known: query",
        ),
        ("prompt", "我" * 99, "leaves none for the sentence"),
        ("pad", 7, "follows from the loaded weights"),
        ("dim", 7, "follows from the loaded weights"),
        ("tokenizer", None, "Load another encoder"),
        ("backbone", "bert", "follows from the loaded weights"),
        ("encode", "fast", "follows from the loaded weights"),
    ],
)
def test_what_has_no_effect_is_refused_and_changes_nothing(load, bert_folder, name, value, message):
    encoder = load(bert_folder)
    before = encoder.encode(TEXTS)
    with pytest.raises(UserError, match=message):
        setattr(encoder, name, value)
    np.testing.assert_array_equal(encoder.encode(TEXTS), before)


def test_settings_of_a_cross_encoder(load, bert_folder):
    pairs = CrossEncoder(load(bert_folder), outputs=1, segments=False, symmetric=False, seed=0).eval()
    both = [("今天", "天气"), ("天气", "今天")]
    assert len({*pairs.score(both).tolist()}) == 2
    pairs.symmetric = True
    assert np.ptp(pairs.score(both)) < 1e-6
    for name, value, message in (
        ("symmetric", "yes", "expected True or False"),
        ("pooling", "mean", r"it is encoder\.inner\.pooling"),
        ("outputs", 3, "follows from the loaded weights"),
        ("backbone", torch.nn.Linear(1, 1), "follows from the loaded weights"),
        ("activation", "sigmoid", "unknown attribute"),
    ):
        with pytest.raises(UserError, match=message):
            setattr(pairs, name, value)
    for name, value in (("normalize", True), ("prompts", {"query": "我"})):
        with pytest.raises(UserError, match="belongs to a cross-encoder"):
            setattr(pairs.inner, name, value)
