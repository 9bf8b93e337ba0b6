"""Ways that compute an encoder: those of ours agree, and a way with a mistake is told it by its name."""

import json

import numpy as np
import pytest
from jobs import tiny_encoder

from juzhen import CrossEncoder
from juzhen.cli.main import main
from juzhen.encoders import save_encoder
from juzhen.encoders.pooling import unit
from juzhen.export import backend_comparison as ways
from juzhen.export.backend_comparison import compare_backends
from juzhen.export.verification import reference

TEXTS = ["今天天气很好", "A dog\nruns", "怎么修改支付密码，原来的手机号已经不用了，" * 4]
OURS = ("torch-padded", "torch", "sentence-transformers")


@pytest.fixture(scope="module")
def encoder(tiny_backbone):
    encoder = tiny_encoder(tiny_backbone).eval()
    encoder.max_length = 48
    encoder.prompts = {"query": "问题：", "passage": "段落："}
    encoder.default_prompt_name = "query"
    return encoder


def changed(encoder, name, value):
    other = encoder.with_prompt()
    setattr(other, name, value)
    return lambda texts: other.encode(texts, show_progress=False)


def beside_others(encode):
    return lambda texts: encode(texts) if len(texts) == 1 else encode(texts) + np.linspace(0, 1, 32)


MISTAKES = {
    "prompt: none stands before it": lambda e: lambda texts: e.encode(texts, prompt=""),
    "prompt: passage": lambda e: lambda texts: e.encode(texts, prompt_name="passage"),
    "prompt: it stands there twice": lambda e: lambda texts: e.encode([e.prompt + text for text in texts]),
    "truncation: it is cut to 16 tokens": lambda e: changed(e, "max_length", 16),
    "pooling: cls": lambda e: changed(e, "pooling", "cls"),
    "order: it is the vector of text 3": lambda e: lambda texts: e.encode(texts[::-1]),
    "special tokens: none stand": lambda e: (
        lambda texts: np.stack(
            [
                e(e.collate([e.tokenizer(e.prompt + text, add_special_tokens=False)["input_ids"][:48]]))[
                    0
                ].detach()
                for text in texts
            ]
        )
    ),
    "batch: the text alone is right": lambda e: beside_others(e.encode),
}


@pytest.mark.parametrize("reason", MISTAKES)
def test_a_mistake_is_named(encoder, reason):
    encode = MISTAKES[reason](encoder)
    way = ways._compared(
        encoder, TEXTS, reference(encoder, TEXTS), "way", lambda: encode, "", lambda name: None
    )
    assert way.reason.startswith(reason)
    assert way.differing
    assert way.text in TEXTS


def test_lengths_and_sizes_are_told(encoder):
    expected = reference(encoder, TEXTS)

    def compared(encode):
        return ways._compared(encoder, TEXTS, expected, "way", lambda: encode, "", lambda name: None)

    assert "normalisation: of length 1," in compared(lambda texts: unit(encoder.encode(texts))).reason
    assert (
        "8 dimensions, the encoder has"
        in compared(lambda texts: encoder.encode(texts, truncate_dim=8)).reason
    )
    own = compared(encoder.encode)
    assert (own.differing, own.text, own.reason) == (0, None, "")


def test_ways_of_ours_agree(encoder):
    pytest.importorskip("sentence_transformers")
    results = compare_backends(encoder, TEXTS, only=OURS)
    assert [way.name for way in results] == list(OURS)
    assert all(way.largest < 1e-6 and not way.differing for way in results)


def test_bf16_rounds_and_what_is_missing_is_left_out(encoder, monkeypatch):
    monkeypatch.setattr(ways, "find_spec", lambda name: None)
    (rounded, theirs) = compare_backends(encoder, TEXTS, only=("torch_bf16", "sentence-transformers"))
    assert rounded.largest > 1e-5
    assert rounded.reason == "precision: products in bfloat16"
    assert theirs.largest is None
    assert "not installed" in theirs.reason


def test_pairs_of_a_cross_encoder(tiny_backbone):
    encoder = CrossEncoder(
        tiny_encoder(tiny_backbone), outputs=1, segments=False, symmetric=True, seed=0
    ).eval()
    packed, theirs = compare_backends(encoder, TEXTS)
    assert packed.largest < 1e-6
    assert "both orders" in theirs.reason or "not installed" in theirs.reason


def test_the_verb(encoder, tmp_path, capsys):
    save_encoder(encoder, tmp_path / "encoder", card={})
    (tmp_path / "texts.txt").write_text("今天天气很好\n你好\n", encoding="utf-8")
    words = ["verify", str(tmp_path / "encoder"), str(tmp_path / "texts.txt"), "--ways", "torch"]
    assert main([*words, "--json", str(tmp_path / "out.json")]) == 0
    told = capsys.readouterr().out
    assert "| torch |" in told
    assert "2 texts, compared with transformers" in told
    assert [way["name"] for way in json.loads((tmp_path / "out.json").read_text())] == ["torch"]
    nowhere = "http://127.0.0.1:9"  # is asked before anything is compared
    assert main([*words, "--with", nowhere, "--json", str(tmp_path / "other.json")]) == 2
    out, err = capsys.readouterr()
    assert (out, nowhere in err, (tmp_path / "other.json").exists()) == ("", True, False)
