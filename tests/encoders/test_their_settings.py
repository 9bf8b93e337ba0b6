"""Each key of the files of sentence-transformers: the same numbers, or a refusal by its name."""

import inspect
import json
import shutil

import numpy as np
import pytest
import torch

from juzhen.core.errors import UserError
from juzhen.encoders import CrossEncoder, SentenceEncoder, save_encoder
from juzhen.encoders.folder_settings import KEYS, LENGTH_FILE
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.late.folder import MultiVectorSettings
from juzhen.families.sparse.encoder import SparseEncoder

TEXTS = ["今天天气很好", "我们去上学 ab cd", "A 我"]
PAIRS = [("今天天气很好", "我"), ("A cd", "今天")]
MODEL_FILE, MODULES_FILE = "config_sentence_transformers.json", "modules.json"


def made(kind, folder):
    """A tiny encoder of a kind in a folder, as it is saved here."""
    encoder = SentenceEncoder.load(folder)
    if kind == "sentences":
        return encoder
    if kind == "pairs":
        return CrossEncoder(encoder, outputs=1, segments=True, symmetric=False, seed=0).eval()
    if kind == "sparse":
        sparse = SparseEncoder.around(encoder).eval()
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            for name, values in sparse.head.named_parameters():
                if name.endswith("bias"):
                    values.normal_()
        return sparse
    reading = MultiVectorSettings(query_length=8, document_length=12, expand_to=8)
    return MultiVectorEncoder.around(encoder, dim=4, reading=reading).eval()


LOADED = {
    "sentences": (SentenceEncoder, lambda encoder: encoder.encode(TEXTS)),
    "pairs": (CrossEncoder, lambda encoder: encoder.score(PAIRS)),
    "sparse": (SparseEncoder, lambda encoder: encoder.encode(TEXTS).toarray()),
    "tokens": (MultiVectorEncoder, lambda encoder: encoder.similarity(TEXTS, TEXTS)),
}


@pytest.fixture(scope="module", params=LOADED)
def saved(request, bert_folder, tmp_path_factory):
    """A kind of encoder that tells A and a apart, and the folder that sentence-transformers opens."""
    place = tmp_path_factory.mktemp(request.param)
    cased = shutil.copytree(bert_folder, place / "cased")
    for name, place_of, key in (
        ("tokenizer.json", "normalizer", "lowercase"),
        ("tokenizer_config.json", None, "do_lower_case"),
    ):
        settings = json.loads((cased / name).read_text())
        (settings[place_of] if place_of else settings)[key] = False
        (cased / name).write_text(json.dumps(settings))
    return request.param, save_encoder(made(request.param, cased), place / "saved", card={})


@pytest.fixture
def loaded(saved, tmp_path):
    """Numbers of a copy of the folder in which a file says more."""
    kind, source = saved
    if kind == "pairs":  # what we read it by is left out, as sentence-transformers has none
        source = shutil.copytree(source, tmp_path / "theirs")
        for name in ("crossencoder.json", "head.safetensors"):
            (source / name).unlink()

    def load(file, **more):
        folder = tmp_path / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        settings = json.loads((folder / file).read_text())
        if file == MODULES_FILE:
            settings[0] |= more
        else:
            settings |= more
        (folder / file).write_text(json.dumps(settings))
        kind_of, numbers = LOADED[kind]
        return numbers(kind_of.load(folder))

    return load


NOTHING = {
    LENGTH_FILE: {
        "unpad_inputs": False,
        "processing_kwargs": {"text": {"padding": True, "truncation": True}, "image": {"size": 3}},
        "model_kwargs": {"attn_implementation": "sdpa"},
        "processor_kwargs": {},
        "query_expansion": None,
        "key_of_tomorrow": {},
    },
    MODEL_FILE: {
        "requirements": {"sentence_transformers": ">=6"},
        "activation_fn": "torch.nn.Sigmoid",
        "later": None,
    },
    MODULES_FILE: {"kwargs": ["task"], "later": False},
}


def test_what_changes_nothing_is_passed_over(saved, loaded):
    expected = loaded(LENGTH_FILE)
    for file, more in NOTHING.items():
        assert np.array_equal(loaded(file, **more), expected), file


MESSAGES = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}, "message": {}}
UNREAD = [
    (LENGTH_FILE, "key_of_tomorrow", 3),
    (LENGTH_FILE, "tokenizer_name_or_path", "another/one"),
    (LENGTH_FILE, "processor_kwargs", {"add_prefix_space": True}),
    (LENGTH_FILE, "tokenizer_args", {"do_lower_case": False}),
    (LENGTH_FILE, "config_kwargs", {"num_hidden_layers": 1}),
    (LENGTH_FILE, "processing_kwargs", {"text": {"add_special_tokens": False}}),
    (LENGTH_FILE, "processing_kwargs", {"common": {"truncation": False}}),
    (LENGTH_FILE, "processing_kwargs", {"later": {"max_length": 3}}),
    (LENGTH_FILE, "modality_config", MESSAGES),
    (LENGTH_FILE, "modality_config", {"text": {"method": "get_text_features"}}),
    (LENGTH_FILE, "module_output_name", "sentence_embedding"),
    (LENGTH_FILE, "transformer_task", "any-to-any"),
    (MODEL_FILE, "key_of_tomorrow", ["x"]),
    (MODEL_FILE, "prompts", ["query: "]),
    (MODEL_FILE, "prompts", {"query": 5}),
    (MODEL_FILE, "default_prompt_name", 5),
    (MODULES_FILE, "key_of_tomorrow", 1),
]


LENGTHS = {"query_length": 3, "document_length": 3, "query_expansion": {"strategy": "fixed", "length": 8}}
UNREAD += [(LENGTH_FILE, key, value) for key, value in LENGTHS.items()]
UNREAD += [(LENGTH_FILE, "processing_kwargs", {"text": {"max_length": 6}})]
UNREAD += [(LENGTH_FILE, "max_seq_length", value) for value in (0, "8", True, [8])]
OF_PAIRS = ("prompts", "default_prompt_name", *LENGTHS)
"""Keys that pairs have not, and are therefore not refused by."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("file", "key", "value"), UNREAD, ids=lambda value: str(value)[:40])
def test_what_would_change_numbers_is_refused_by_name(saved, loaded, file, key, value):
    if (saved[0] == "pairs" and key in OF_PAIRS) or (saved[0] == "tokens" and key == "max_seq_length"):
        pytest.skip("it has none")
    if saved[0] != "tokens" and value == {"text": {"max_length": 6}}:
        pytest.skip("it is honoured")
    with pytest.raises(UserError, match=f"{key}|tokens" if key == "max_seq_length" else key):
        loaded(file, **{key: value})


@pytest.mark.parametrize("key", LENGTHS)
@pytest.mark.sampled(3)
def test_lengths_of_sides_are_not_those_of_pairs(saved, loaded, key):
    value = LENGTHS[key] if saved[0] == "pairs" else None  # they read a pair as none of the two
    assert np.array_equal(loaded(LENGTH_FILE, **{key: value}), loaded(LENGTH_FILE))


@pytest.mark.sampled(2)
def test_small_letters_and_lengths_are_honoured(saved, loaded):
    expected, lowered = loaded(LENGTH_FILE), loaded(LENGTH_FILE, do_lower_case=True)
    assert np.abs(lowered - expected).max() > 1e-5  # the A of TEXTS
    if saved[0] == "tokens":
        return
    by_calls = loaded(LENGTH_FILE, processing_kwargs={"text": {"max_length": 6}}, max_seq_length=9)
    assert np.abs(by_calls - expected).max() > 1e-5
    assert np.array_equal(loaded(LENGTH_FILE, max_seq_length=6), by_calls)
    assert np.array_equal(
        loaded(LENGTH_FILE, processor_kwargs={"model_max_length": 6}, max_seq_length=9), by_calls
    )


def test_the_sum_of_late_interaction_is_the_mean_times_the_tokens_of_the_query(bert_folder, tmp_path):
    encoder = made("tokens", bert_folder)
    folder = save_encoder(encoder, tmp_path / "saved", card={})
    mean = encoder.similarity(TEXTS, TEXTS)
    path = folder / MODEL_FILE
    settings = json.loads(path.read_text())
    for name in ("maxsim", None, "MaxSim", "cosine"):
        path.write_text(json.dumps(settings | {"similarity_fn_name": name}))
        sums = MultiVectorEncoder.load(folder)
        np.testing.assert_allclose(sums.similarity(TEXTS, TEXTS), mean * 8, rtol=1e-6)
        np.testing.assert_allclose(sums.score(TEXTS, TEXTS), np.diag(mean) * 8, rtol=1e-6)
        assert sums.search(TEXTS[0], TEXTS)[0].score == pytest.approx(mean[0].max() * 8)
        again = MultiVectorEncoder.load(save_encoder(sums, tmp_path / "again", card={}))
        assert np.array_equal(again.similarity(TEXTS, TEXTS), sums.similarity(TEXTS, TEXTS))
        assert again.facts != encoder.facts
    assert not MultiVectorEncoder.load(save_encoder(encoder, tmp_path / "mean", card={})).sums


@pytest.mark.oracle
def test_each_key_of_their_files_is_decided(bert_folder):
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    from sentence_transformers.cross_encoder.modules import LogitScore
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sentence_transformer import modules
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    kinds = [modules.Pooling, modules.Dense, modules.LayerNorm, modules.Normalize, modules.Dropout]
    beside = {"self", "args", "kwargs", "init_weight", "init_bias", "layer_weights"}
    for kind in (*kinds, modules.WeightedLayerPooling, SpladePooling, MultiVectorMask, LogitScore):
        written = {*kind.config_keys, *inspect.signature(kind.__init__).parameters}
        assert written - beside <= KEYS[kind.__name__].keys(), kind
    options = {*inspect.signature(modules.Transformer.__init__).parameters} - {"self", "model_name_or_path"}
    assert {*modules.Transformer.config_keys, *options} <= KEYS["Transformer"].keys()
    kinds = {
        "SentenceTransformer": {"truncate_dim": 8},
        "SparseEncoder": {"max_active_dims": 8},
        "MultiVectorEncoder": {},
        "CrossEncoder": {},
    }
    for name, more in kinds.items():
        model = getattr(theirs, name)(str(bert_folder), device="cpu", **more)
        model.keep_in_fp32_modules = ["x"]
        assert model._get_model_config().keys() <= KEYS[MODEL_FILE].keys(), name
