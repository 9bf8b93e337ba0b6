"""Whitened token embeddings: what the new table computes, that it is white, and what is refused."""

import numpy as np
import pytest
import torch

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.encoders import load_encoder
from juzhen.encoders.grow import with_layers
from juzhen.encoders.projection import OutputNorm
from juzhen.encoders.token_whitening import SPARE, token_frequencies, whiten_tokens

TEXTS = ["今天天气很好", "我们说的是天气", "你好吗", "他们在这为国说要就出会时年得"]


@pytest.fixture
def bag(bert_folder):
    """A tiny encoder without layers."""
    return with_layers(load_encoder(bert_folder), 0, seed=0).eval()


def embedded(encoder, texts=TEXTS):
    return encoder.encode(texts, batch_tokens=100, progress=False).astype(np.float64)


def vectors(encoder):
    """What each token adds to a sentence."""
    parts = encoder.backbone.embeddings
    with torch.no_grad():
        rows = parts.word_embeddings.weight + parts.token_type_embeddings.weight[0]
        return parts.LayerNorm(rows).double().numpy()


def cosines(values):
    values = values / np.linalg.norm(values, axis=1, keepdims=True)
    return values @ values.T


def test_frequencies_are_of_the_texts_own_tokens(bag):
    found = token_frequencies(bag, ["今天今天", "今"])
    ids = bag.tokenizer.convert_tokens_to_ids(["今", "天"])
    np.testing.assert_allclose(found[ids], [0.6, 0.4])
    assert found.sum() == pytest.approx(1)
    with pytest.raises(UserError, match="no token at all"):
        token_frequencies(bag, ["", " "])


def even_frequencies(bag):
    """All tokens alike, but for the special ones around a text."""
    frequencies = np.ones(bag.backbone.config.vocab_size)
    frequencies[[bag.tokenizer.cls_token_id, bag.tokenizer.sep_token_id]] = 0
    return frequencies / frequencies.sum()


def spread(encoder, frequencies):
    """Standard deviations of the tokens along the directions of a table, the largest first."""
    kept = vectors(encoder)[frequencies > 0]
    return np.linalg.svd(kept - kept.mean(0), compute_uv=False)[: kept.shape[1] - SPARE]


def test_tokens_vary_alike_in_all_directions(bag):
    frequencies = even_frequencies(bag)
    plain = spread(whiten_tokens(bag, frequencies, power=0, special=0), frequencies)
    half = spread(whiten_tokens(bag, frequencies, power=0.5, special=0), frequencies)
    whole = spread(whiten_tokens(bag, frequencies, power=1, special=0), frequencies)
    assert plain[0] / plain[-1] > 4
    np.testing.assert_allclose(half[0] / half[-1], (plain[0] / plain[-1]) ** 0.5, rtol=1e-3)
    np.testing.assert_allclose(whole[0] / whole[-1], 1, rtol=1e-3)


def test_an_embedding_is_the_mean_of_the_mapped_tokens_and_of_the_special_ones(bag):
    frequencies = token_frequencies(bag, TEXTS)
    original = vectors(bag)
    for special in (0.0, 4.0):
        changed = whiten_tokens(bag, frequencies, power=0.5, special=special)
        table = vectors(changed)
        mean = frequencies @ table
        expected = [
            (table[ids].sum(0) + special * mean) / (len(ids) + 2)
            for ids in bag.tokenizer(TEXTS, add_special_tokens=False)["input_ids"]
        ]
        np.testing.assert_allclose(embedded(changed), expected, atol=1e-5)
        assert original.shape == table.shape


def test_without_power_only_the_directions_of_least_variance_are_lost(bag):
    frequencies = even_frequencies(bag)
    table, original = (
        vectors(one)[frequencies > 0] for one in (whiten_tokens(bag, frequencies, power=0, special=0), bag)
    )
    centred = [values - values.mean(0) for values in (table, original)]
    _, _, directions = np.linalg.svd(centred[1], full_matrices=False)
    kept = centred[1] @ directions[:-SPARE].T
    np.testing.assert_allclose(cosines(centred[0]), cosines(kept), atol=1e-5)


def test_transformers_layout_and_further_layers_keep_it(bag, tmp_path):
    from juzhen.encoders import save_encoder

    changed = whiten_tokens(bag, token_frequencies(bag, TEXTS), power=0.5, special=2).eval()
    read = load_encoder(save_encoder(changed, tmp_path / "white", card={"name": "white"})).eval()
    np.testing.assert_allclose(embedded(read), embedded(changed), atol=1e-6)
    np.testing.assert_allclose(embedded(with_layers(read, 2, seed=1).eval()), embedded(changed), atol=1e-5)


def test_what_cannot_be_whitened_is_refused(bert_folder, bag):
    frequencies = token_frequencies(bag, TEXTS)
    with pytest.raises(UserError, match="bert with 2 layers and pooling mean"):
        whiten_tokens(load_encoder(bert_folder), frequencies, power=0.5, special=0)
    with pytest.raises(UserError, match="expected a power of 0 to 1"):
        whiten_tokens(bag, frequencies, power=1.5, special=0)
    bag.projections.append(OutputNorm(bag.dim))
    with pytest.raises(UserError, match="LayerNorm after them; whiten it before"):
        whiten_tokens(bag, frequencies, power=0.5, special=0)


def test_the_command_writes_an_encoder(tmp_path, capsys):
    words = ["whiten", "builtin/mini_zh", str(tmp_path / "white"), "--dataset", "demo_sts", "--limit", "200"]
    assert main(words) == 0
    assert "whitened by the tokens of 200 texts" in capsys.readouterr().out
    assert embedded(load_encoder(tmp_path / "white").eval()).shape == (4, 256)
    assert main([*words[:4], "nothing"]) == 2
    assert "no conf/dataset/nothing.yaml" in capsys.readouterr().err
