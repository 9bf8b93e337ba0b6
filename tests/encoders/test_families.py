"""Every family of encoders gives what transformers gives for each text alone, or is refused by its name."""

import inspect
import itertools

import families
import numpy as np
import pytest
import torch

from juzhen.core.errors import UserError
from juzhen.encoders import CrossEncoder, SentenceEncoder
from juzhen.encoders.backbone import without_cache
from juzhen.encoders.embedding_cache import encoder_digest
from juzhen.encoders.projection import IDENTITY, Projection

TEXTS = [
    "我",
    "今天天气很好 ab cd",
    "a dog runs through the tall grass near a river",
    "今天 天气" * 12,
    "x y z",
]
PAIRS = [("今天天气", "a dog"), ("x", "the tall grass near a river"), ("我", "你")]

EQUAL = ("bert", "roberta", "distilbert", "electra", "mpnet", "albert", "deberta-v2", "modernbert", "xlnet")
CAUSAL = ("gpt2", "openai-gpt", "qwen3", "bloom")
HALVES = ("t5", "umt5")
NO_TYPES = (*CAUSAL, *HALVES, "roberta", "distilbert", "mpnet", "modernbert")
"""Families whose own tokenizers give no segments."""


def alone(encoder, *texts):
    """States of one text, or pair, as transformers gives them for what the tokenizer gives."""
    inputs = encoder.tokenizer(*texts, return_tensors="pt", truncation=True, max_length=64)
    taken = inspect.signature(encoder.backbone.forward).parameters
    options = {name: values for name, values in inputs.items() if name in taken}
    with torch.no_grad():
        return encoder.backbone(**options, **without_cache(encoder.backbone)).last_hidden_state[0]


def unit(values):
    return values / np.linalg.norm(values)


def difference(encoder, texts=TEXTS) -> float:
    """The largest difference of a unit embedding from that of the text alone, pooled here."""
    found = encoder.encode(texts, show_progress=False)
    expected = [alone(encoder, text).mean(dim=0).numpy() for text in texts]
    return max(float(np.abs(unit(a) - unit(b)).max()) for a, b in zip(found, expected, strict=True))


def written(family, folder):
    return families.write(family, folder, families.build(family), segments=family not in NO_TYPES)


@pytest.mark.parametrize("family", [*EQUAL, *CAUSAL, *HALVES])
@pytest.mark.sampled(3)
def test_a_family_is_computed_as_transformers_does_text_by_text(family, tmp_path):
    encoder = SentenceEncoder.load(written(family, tmp_path))
    assert difference(encoder) <= 1e-5
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    with torch.no_grad():
        whole = encoder(tokens)
    encoder.micro_batch_tokens = 20
    torch.testing.assert_close(encoder(tokens).detach(), whole, rtol=1e-5, atol=1e-5)


def test_a_cache_tells_apart_what_is_computed_otherwise(tmp_path):
    digests = set()
    for name, segments in (("with", True), ("without", False)):
        (tmp_path / name).mkdir()
        folder = families.write("gpt2", tmp_path / name, families.build("gpt2"), segments=segments)
        encoder = SentenceEncoder.load(folder)
        digests.add(encoder_digest(encoder, "torch"))
        layer = Projection(32, 32, bias=False, activation=IDENTITY)
        torch.nn.init.zeros_(layer.linear.weight)
        encoder.projections.append(layer)
        for layer.adds_input in (False, True):
            digests.add(encoder_digest(encoder, "torch"))
    assert len(digests) == 6


@pytest.mark.parametrize("family", ["bert", "albert", "deberta-v2", "gpt2", "t5"])
def test_a_cross_encoder_reads_pairs_as_transformers_does(family, tmp_path):
    inner = SentenceEncoder.load(written(family, tmp_path))
    encoder = CrossEncoder(inner, outputs=1, segments=True, symmetric=False, seed=0).eval()
    inner.pooling = "mean"
    states = torch.stack([alone(inner, *pair).mean(dim=0) for pair in PAIRS])
    expected = encoder.head(states).detach().numpy()[:, 0]
    np.testing.assert_allclose(encoder.score(PAIRS), expected, rtol=1e-5, atol=1e-5)


def test_a_decoder_of_bert_looks_to_the_left(tmp_path):
    config = families.config_of("bert")
    config.is_decoder = True
    model = families.made(config)
    assert difference(SentenceEncoder.load(families.write("bert", tmp_path, model, segments=True))) <= 1e-5


def test_a_text_that_spells_a_special_token_is_read_as_that_token(tmp_path):
    (tmp_path / "bert").mkdir()
    encoder = SentenceEncoder.load(written("bert", tmp_path / "bert"))
    spelt = ["今天 [SEP] 天气", "我 [MASK] 你", "a [PAD] dog"]
    assert encoder.tokenizer.sep_token_id in encoder.tokenize(spelt)[0].tolist()[1:-1]
    assert difference(encoder, spelt) <= 1e-5
    (tmp_path / "roberta").mkdir()
    encoder = SentenceEncoder.load(written("roberta", tmp_path / "roberta"))
    assert difference(encoder, spelt[:2]) <= 1e-5
    # As the guide says: positions are counted by place here, by number there, where padding counts for nothing.
    assert difference(encoder, spelt[2:]) > 1e-3


def test_sparse_attention_that_is_switched_off_is_taken(tmp_path):
    config = families.config_of("big_bird")
    config.attention_type = "original_full"
    folder = families.write("big_bird", tmp_path, families.made(config), segments=True)
    assert difference(SentenceEncoder.load(folder)) <= 1e-5


@pytest.mark.slow
def test_every_family_is_equal_or_refused_by_its_name(tmp_path):
    equal, refusals = set(), {}
    for family, segments in itertools.product(families.FAMILIES, (True, False)):
        model = families.build(family)
        if model is None:
            continue
        folder = tmp_path / f"{family}-{segments}"
        folder.mkdir()
        try:
            encoder = SentenceEncoder.load(families.write(family, folder, model, segments=segments))
        except UserError as error:
            refusals[family] = str(error)
        else:
            assert difference(encoder) <= 1e-5, family
            equal.add(family)
    print(f"\n{len(equal)} equal, {len(refusals)} refused: {', '.join(refusals)}")
    assert not {family: told for family, told in refusals.items() if family not in told}
    assert len(equal) > 130
    assert equal >= {*EQUAL, *CAUSAL, *HALVES}
