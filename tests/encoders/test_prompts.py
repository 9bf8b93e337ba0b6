"""Prompts, the texts that an encoder wants before a sentence: known, chosen, honoured wherever texts become tokens."""

import json
import shutil

import numpy as np
import pytest
import torch

from juzhen.backends import open_backend
from juzhen.cli.encode import encode as run_encode
from juzhen.core.examples import Examples, Kind
from juzhen.encoders import SentenceEncoder, save_encoder
from juzhen.encoders.augmentation import TokenViews, Views
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.chunks import truncated_sentences
from juzhen.encoders.embedding_cache import EmbeddingCache, encoder_digest
from juzhen.encoders.masking import Masking, Vocabulary
from juzhen.encoders.pooling import POOLINGS
from juzhen.encoders.preflight import check_encoder_files, prompt_at_start
from juzhen.encoders.tokens import _key

PROMPTS = {"query": "你是: ", "passage": "在这: "}
TEXTS = ["今天天气很好吗", "我", "ab cd", "今" * 40]
QUERY_TOKENS = 4
"""[CLS] 你 是 and one for the colon, which the small tokenizer does not know."""


@pytest.fixture
def queries(bert_folder, load):
    """A tiny BERT that reads every sentence behind a prompt."""
    return load(bert_folder, prompts=PROMPTS, default_prompt_name="query")


def with_prompts(folder, target, *, include=True, default="query"):
    """A copy of a folder in the layout of sentence-transformers, with prompts."""
    shutil.copytree(folder, target)
    told = {"prompts": PROMPTS, "default_prompt_name": default}
    (target / "config_sentence_transformers.json").write_text(json.dumps(told), encoding="utf-8")
    (target / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True, "include_prompt": include}
    (target / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling")]
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(kinds)
    ]
    (target / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    return target


def encode(encoder, texts=TEXTS, **options):
    return encoder.encode(texts, show_progress=False, **options)


def test_a_prompt_is_text_before_the_text(queries, bert_folder, load):
    plain = load(bert_folder)
    expected = encode(plain, [PROMPTS["query"] + text for text in TEXTS])
    np.testing.assert_array_equal(encode(queries), expected)
    np.testing.assert_array_equal(encode(plain, prompt=PROMPTS["query"]), expected)
    passages = encode(plain, [PROMPTS["passage"] + text for text in TEXTS])
    np.testing.assert_array_equal(encode(queries, prompt_name="passage"), passages)
    np.testing.assert_array_equal(encode(queries, prompt=""), encode(plain))
    np.testing.assert_array_equal(encode(queries), expected, err_msg="a choice is for one call")
    pair = queries.score((TEXTS[0], TEXTS[1]), show_progress=False)
    both = expected[:2] / np.linalg.norm(expected[:2], axis=1, keepdims=True)
    assert pair == pytest.approx(float(both[0] @ both[1]), abs=1e-6)


@pytest.mark.parametrize("pooling", [pooling for pooling in POOLINGS if pooling != "last"])
@pytest.mark.sampled(3)
def test_a_prompt_that_is_not_pooled_is_seen_all_the_same(any_folder, load, pooling):
    settings = {"prompts": PROMPTS, "default_prompt_name": "query", "pooling": pooling}
    encoder = load(any_folder, **settings, include_prompt=False).eval()
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    assert tokens.unpooled == QUERY_TOKENS == encoder.unpooled
    for text, embedding in zip(TEXTS, encoder(tokens), strict=True):
        alone = encoder.collate(encoder.tokenize([text]))
        first, last = (one[QUERY_TOKENS:] for one in _layers(encoder, alone))
        places = torch.arange(len(last)).unsqueeze(1) + QUERY_TOKENS + 1
        expected = {
            "mean": last.mean(0),
            "cls": last[0],
            "max": last.amax(0),
            "first_last": (first.mean(0) + last.mean(0)) / 2,
            "weighted": (last * places).sum(0) / places.sum(),
            "mean_sqrt_len": last.sum(0) / len(last) ** 0.5,
        }[pooling]
        torch.testing.assert_close(embedding, expected, rtol=1e-4, atol=1e-5)
    pooled = encode(load(any_folder, **settings, include_prompt=True))
    assert np.abs(pooled - encode(encoder)).max() > 1e-3


def _layers(encoder, tokens):
    states, real = encoder._layer_states(tokens, needs_layers=True)
    return states[0][real], states[-1][real]


def test_a_sentence_that_a_prompt_swallows_keeps_its_last_token(queries):
    tokens = queries.collate([[2, 3]])
    tokens.unpooled = 9
    assert tokens.num_unpooled.tolist() == [1]
    assert queries(tokens).isfinite().all()


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "first_last"])
def test_prompts_are_saved_with_the_encoder(bert_folder, load, tmp_path, include, pooling):
    encoder = load(
        bert_folder, prompts=PROMPTS, default_prompt_name="query", include_prompt=include, pooling=pooling
    )
    folder = save_encoder(encoder, tmp_path / "saved", card={})
    again = SentenceEncoder.load(folder)
    assert again.prompts == encoder.prompts
    np.testing.assert_array_equal(encode(again), encode(encoder))
    assert repr(PROMPTS["query"]) in (folder / "README.md").read_text(encoding="utf-8")


def test_a_folder_without_prompts_is_written_as_before(bert_folder, load, tmp_path):
    folder = save_encoder(load(bert_folder), tmp_path / "saved", card={})
    told = json.loads((folder / "config_sentence_transformers.json").read_text(encoding="utf-8"))
    assert (told["prompts"], told["default_prompt_name"]) == ({}, None)
    assert "include_prompt" not in (folder / "1_Pooling" / "config.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("settings", "text", "unpooled"),
    [
        ({}, PROMPTS["query"], QUERY_TOKENS),
        ({"include_prompt": True}, PROMPTS["query"], 0),
        ({"default_prompt_name": "passage"}, PROMPTS["passage"], QUERY_TOKENS),
        ({"default_prompt_name": "none"}, "", 0),
        ({"prompts": {"query": "吗"}}, "吗", 2),
    ],
)
def test_a_configuration_goes_before_what_a_folder_says(
    bert_folder, load, tmp_path, settings, text, unpooled
):
    encoder = load(with_prompts(bert_folder, tmp_path / "model", include=False), **settings)
    assert (encoder.prompt, encoder.unpooled) == (text, unpooled)


def test_the_files_tell_the_prompt_before_torch_is_loaded(bert_folder, tmp_path):
    folder, plain = with_prompts(bert_folder, tmp_path / "model"), tmp_path / "plain"
    shutil.copytree(bert_folder, plain)
    config = BackboneConfig(path=str(folder), initialize="pretrained")
    assert prompt_at_start(config, start=None) == PROMPTS["query"]
    assert prompt_at_start(BackboneConfig(path=str(plain)), start=str(folder)) == PROMPTS["query"]
    config.prompts, config.default_prompt_name = PROMPTS, "query"
    check_encoder_files(config, start=str(folder))


def test_caches_know_the_prompt(queries, tmp_path):
    plain, passages = queries.with_prompt(prompt=""), queries.with_prompt("passage")
    assert len({encoder_digest(one, "torch") for one in (queries, plain, passages)}) == 3
    assert len({_key(one, TEXTS) for one in (queries, plain, passages)}) == 3
    cache = EmbeddingCache(tmp_path)
    encode(plain, cache=cache)
    np.testing.assert_array_equal(encode(queries, cache=cache), encode(queries))
    np.testing.assert_array_equal(encode(queries, cache=cache, prompt=""), encode(plain))


def test_the_verb_encodes_behind_the_prompt_that_it_is_given(bert_folder, tmp_path):
    folder, lines = with_prompts(bert_folder, tmp_path / "model"), tmp_path / "lines.txt"
    lines.write_text("今天\n我\n", encoding="utf-8")
    encoder = SentenceEncoder.load(folder)
    for options in ({}, {"prompt_name": "passage"}, {"prompt": ""}):
        run_encode(folder, lines, **options)
        expected = encode(encoder, ["今天", "我"], **options)
        np.testing.assert_array_equal(np.load(tmp_path / "lines.npy"), expected)


def test_tokens_of_a_prompt_count_in_the_length(queries):
    lengths = queries.tokenize(TEXTS).lengths
    assert lengths.max() == queries.max_length
    room = queries.max_length - QUERY_TOKENS - 1
    examples = Examples(
        "x", "train", Kind.SENTENCE, ["今" * room, "今" * (room + 1)], {"text": np.arange(2)}, None
    )
    assert truncated_sentences(queries, examples).cut == 1
    assert truncated_sentences(queries.with_prompt(prompt=""), examples).cut == 0


def test_views_and_masks_leave_the_prompt_alone(queries):
    ids = queries.tokenize(["今天天气很好吗我你他们"])[0]
    head = ids[:QUERY_TOKENS].tolist()
    generator = np.random.default_rng(0)
    shuffled = TokenViews(
        Views(("shuffle",), 0.5, 0.5, 0.5, 5, 0.5, None),
        queries.tokenizer,
        max_length=32,
        prompt=queries.prompt,
    )
    vocabulary = Vocabulary.of(queries.tokenizer, size=len(queries.tokenizer), prompt=queries.prompt)
    assert vocabulary.spared == QUERY_TOKENS
    masking = Masking(0.9, "token", mean_span=1.0, mask_share=1.0, random_share=0.0)
    for turn in range(20):
        assert shuffled(ids, generator)[:QUERY_TOKENS].tolist() == head
        tokens = queries.collate([ids])
        seen, hidden = masking(tokens, torch.tensor([turn]), vocabulary, seed=1, step=turn)
        assert seen[:QUERY_TOKENS].tolist() == head
        assert not hidden[:QUERY_TOKENS].any()
        assert hidden.any()


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.slow
def test_graphs_pool_what_torch_pools(bert_folder, load, pooling):
    pytest.importorskip("onnxruntime")
    include = pooling == "last"  # which takes no token of a prompt
    settings = {"prompts": PROMPTS, "default_prompt_name": "query", "include_prompt": include}
    encoder = load(bert_folder, pooling=pooling, **settings)
    graph = open_backend(encoder, "onnx")
    np.testing.assert_allclose(encode(encoder, backend=graph), encode(encoder), atol=1e-5)
