"""Folders that sentence-transformers wrote with the options of its modules: its numbers, or a refusal by name."""

import json
import warnings

import families
import numpy as np
import pytest
import torch

from juzhen.core.errors import UserError
from juzhen.encoders import CrossEncoder, SentenceEncoder, save_encoder
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.sparse.encoder import SparseEncoder

pytestmark = pytest.mark.oracle
TEXTS = ["今天天气很好 ab cd", "我", "A dog runs through the tall grass now", "x Y z 我们他们"]
CHAT = "{% for m in messages %}x {{ m.content }}{% endfor %}"
EXPANSION = {"strategy": "fixed", "length": 10}

OF_TRANSFORMERS = {
    "plain": ({}, None),
    "max_seq_length": ({"max_seq_length": 6}, None),
    "do_lower_case": ({"do_lower_case": True}, None),
    "model_max_length": ({"processor_kwargs": {"model_max_length": 6}}, None),
    "unpadded": ({"unpad_inputs": False}, None),
    "special tokens": ({"processing_kwargs": {"text": {"add_special_tokens": False}}}, "add_special_tokens"),
    "common": ({"processing_kwargs": {"common": {"max_length": 5}}}, "common: max_length"),
    "chat": ({"processor_kwargs": {"chat_template": CHAT}}, "modality_config: message"),
}
LENGTHS = {
    "max_length": ({"processing_kwargs": {"text": {"max_length": 5}}}, None),
    "query_length": ({"query_length": 4}, "query_length=4"),
    "document_length": ({"document_length": 4}, "document_length=4"),
    "expansion": ({"query_expansion": EXPANSION}, "query_expansion"),
}
OF_TOKENS = {
    "max_length": ({"processing_kwargs": {"text": {"max_length": 5}}}, "max_length"),
    "lengths": ({"query_length": 6, "document_length": 9}, None),
    "expansion": ({"query_expansion": EXPANSION}, None),
    "attended": ({"query_expansion": EXPANSION | {"attend": True}}, None),
    "at least": ({"query_length": 14, "query_expansion": {"strategy": "min", "length": 10}}, None),
    "token": ({"query_expansion": EXPANSION | {"token": "a"}}, None),
}


OF_VECTORS, OF_TOKENS = OF_TRANSFORMERS | LENGTHS, OF_TRANSFORMERS | OF_TOKENS


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("sentence_transformers", minversion="6")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A masked language model with a cased tokenizer, which is a plain transformer, too."""
    from transformers import AutoModelForMaskedLM

    folder = tmp_path_factory.mktemp("base")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForMaskedLM.from_config(families.config_of("bert"))
        for name, values in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(values)
    return families.write("bert", folder, model.eval(), segments=True)


def both(model, encoder, dense):
    """What each makes of queries and documents, and their scores."""
    for one, similarity in ((model, model.similarity), (encoder, encoder.similarity)):
        queries, documents = one.encode_query(TEXTS), one.encode_document(TEXTS)
        scores = similarity(queries, documents) if one is model else similarity(TEXTS, TEXTS)
        yield [*map(dense, (*queries, *documents)), np.asarray(scores)]


def check(model, folder, loaded, refusal, dense=np.asarray):
    model.save_pretrained(str(folder))
    if refusal is not None:
        with pytest.raises(UserError, match=refusal):
            loaded.load(folder)
        return
    same(model, loaded.load(folder), dense)


def same(model, encoder, dense=np.asarray):
    expected, found = both(model, encoder, dense)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * np.abs(other).max())


@pytest.mark.parametrize(("options", "refusal"), OF_VECTORS.values(), ids=OF_VECTORS)
def test_of_sentences(theirs, base, tmp_path, options, refusal):
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    modules = [Transformer(str(base), **options), Pooling(32), Normalize()]
    model = theirs.SentenceTransformer(
        modules=modules, device="cpu", prompts={"query": "ab ", "document": "今 "}
    )
    model.save_pretrained(str(tmp_path))
    if refusal is not None:
        with pytest.raises(UserError, match=refusal):
            SentenceEncoder.load(tmp_path)
        return
    encoder = SentenceEncoder.load(tmp_path)
    for name in ("encode", "encode_query", "encode_document"):
        np.testing.assert_allclose(getattr(encoder, name)(TEXTS), getattr(model, name)(TEXTS), atol=1e-5)


@pytest.mark.parametrize(("options", "refusal"), OF_VECTORS.values(), ids=OF_VECTORS)
def test_of_the_vocabulary(theirs, base, tmp_path, options, refusal):
    from sentence_transformers.sparse_encoder.modules import SpladePooling, Transformer

    def dense(row):
        return row.toarray().ravel() if hasattr(row, "toarray") else row.to_dense().numpy()

    modules = [Transformer(str(base), transformer_task="fill-mask", **options), SpladePooling()]
    model = theirs.SparseEncoder(modules=modules, device="cpu", prompts={"query": "ab ", "document": "今 "})
    check(model, tmp_path, SparseEncoder, refusal, dense)


@pytest.mark.parametrize(("options", "refusal"), OF_TOKENS.values(), ids=OF_TOKENS)
@pytest.mark.parametrize("name", [None, "meanmaxsim"])
def test_of_tokens(theirs, base, tmp_path, options, refusal, name):
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    states = {"module_input_name": "token_embeddings"}
    layers = [Dense(32, 8, bias=False, activation_function=torch.nn.Identity(), **states)]
    ends = [MultiVectorMask(["a"]), Normalize(**states)]  # either may be last
    modules = [Transformer(str(base), **options), *layers, *(ends if name is None else ends[::-1])]
    if "modality_config" in str(refusal):
        modules[0].modality_config["message"] = {
            "method": "forward",
            "method_output_name": "last_hidden_state",
        }
    model = theirs.MultiVectorEncoder(modules=modules, device="cpu", similarity_fn_name=name)
    check(model, tmp_path, MultiVectorEncoder, refusal)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["sentences", "table", "pairs", "vocabulary", "tokens"])
@pytest.mark.sampled(3)
def test_weights_in_half_precision_are_said(theirs, base, tmp_path, kind, dtype):
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from transformers import AutoTokenizer

    made, loaded = {
        "sentences": (theirs.SentenceTransformer, SentenceEncoder),
        "table": (theirs.SentenceTransformer, SentenceEncoder),
        "pairs": (theirs.CrossEncoder, CrossEncoder),
        "vocabulary": (theirs.SparseEncoder, SparseEncoder),
        "tokens": (theirs.MultiVectorEncoder, MultiVectorEncoder),
    }[kind]
    table = [StaticEmbedding(AutoTokenizer.from_pretrained(base), embedding_dim=8)]
    options = {"modules": table} if kind == "table" else {}
    options |= {"num_labels": 1} if kind == "pairs" else {}
    model = made(*[str(base)] * (kind != "table"), device="cpu", **options)
    for number, form in enumerate((dtype, torch.float32)):
        model.to(form).save_pretrained(str(tmp_path / str(number)))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            loaded.load(tmp_path / str(number))
        names = [str(line.message) for line in seen if str(dtype).removeprefix("torch.") in str(line.message)]
        assert len(names) == (1 - number)
    if kind == "sentences":  # they compute it in float32, as its settings say
        halved = save_encoder(SentenceEncoder.load(tmp_path / "0").to(dtype), tmp_path / "halved", card={})
        assert not any("float16" in line for line in SentenceEncoder.load(halved).load_warnings)


@pytest.mark.parametrize(
    ("kind", "loaded"), [("SparseEncoder", SparseEncoder), ("MultiVectorEncoder", MultiVectorEncoder)]
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_the_left_is_said(theirs, base, tmp_path, kind, loaded, side):
    model = getattr(theirs, kind)(str(base), device="cpu", processor_kwargs={"padding_side": side})
    model.save_pretrained(str(tmp_path))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loaded.load(tmp_path)
    assert sum("pads on the left" in str(line.message) for line in seen) == (side == "left")


@pytest.mark.parametrize(
    ("kind", "loaded"), [("SparseEncoder", SparseEncoder), ("MultiVectorEncoder", MultiVectorEncoder)]
)
@pytest.mark.parametrize(("name", "count"), [("query", 1), ("document", 0), (None, 0)])
@pytest.mark.sampled(2)
def test_a_default_prompt_that_encode_does_not_read_is_said(
    theirs, base, tmp_path, kind, loaded, name, count
):
    prompts = {"query": "ab ", "document": "今 "}
    model = getattr(theirs, kind)(str(base), device="cpu", prompts=prompts, default_prompt_name=name)
    model.save_pretrained(str(tmp_path))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loaded.load(tmp_path)
    assert sum("default_prompt_name" in str(line.message) for line in seen) == count


def test_a_score_of_two_classes_is_said_to_be_another_than_theirs(theirs, base, tmp_path):
    model = theirs.CrossEncoder(str(base), num_labels=2, device="cpu")
    model.save_pretrained(str(tmp_path))
    with pytest.warns(UserWarning, match=r"predict of sentence-transformers gives 2.*logits\(\)"):
        encoder = CrossEncoder.load(tmp_path)
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    np.testing.assert_allclose(encoder.logits(TEXTS, TEXTS[::-1]), model.predict(pairs), atol=1e-5)
    assert encoder.score(pairs).shape == (len(TEXTS),)


WHOLE, FAST = "[unused0]", "PreTrainedTokenizerFast"
OF_PYLATE = {
    "whole": ({}, None),
    "with space": ({"query_prefix": f"{WHOLE} ", "document_prefix": ""}, None),
    "prompt": ({"prompts": {"query": f"{WHOLE} ab "}}, None),
    **{
        f"{value} {key}": ({key: value}, f"{key} is missing or null")
        for key in ("query_prefix", "document_prefix", "document_length")
        for value in (None, "missing")
    },
}


@pytest.mark.parametrize(("changes", "refusal"), OF_PYLATE.values(), ids=OF_PYLATE)
def test_markers_and_lengths_of_pylate(theirs, base, tmp_path, changes, refusal):
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    states = {"module_input_name": "token_embeddings"}
    layer = Dense(32, 8, bias=False, activation_function=torch.nn.Identity(), **states)
    modules = [Transformer(str(base)), layer, MultiVectorMask(), Normalize(**states)]
    prompts = {"query": f"{WHOLE} "}  # a text in their own layout, and one token in that of PyLate
    theirs.MultiVectorEncoder(modules=modules, device="cpu", prompts=prompts).save_pretrained(str(tmp_path))
    for name, old, new in (
        ("tokenizer.json", '"q":', f'"{WHOLE}":'),
        ("tokenizer_config.json", "BertTokenizer", FAST),
    ):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
    same(theirs.MultiVectorEncoder(str(tmp_path), device="cpu"), MultiVectorEncoder.load(tmp_path))
    listed = json.loads((tmp_path / "modules.json").read_text())[:2]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    settings = {"model_type": "ColBERT", "query_prefix": WHOLE, "document_prefix": "b ", "query_length": 8}
    settings |= {"document_length": 12, "skiplist_words": ["c"]} | changes
    settings = {key: value for key, value in settings.items() if value != "missing"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    if refusal is not None:
        with pytest.raises(UserError, match=refusal):
            MultiVectorEncoder.load(tmp_path)
        return
    same(theirs.MultiVectorEncoder(str(tmp_path), device="cpu"), MultiVectorEncoder.load(tmp_path))


@pytest.mark.parametrize("family", ["qwen3", "modernbert"])
def test_of_tokens_of_other_families(theirs, tmp_path, family):
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    (tmp_path / "base").mkdir()
    families.write(family, tmp_path / "base", families.build(family), segments=False)
    states = {"module_input_name": "token_embeddings"}
    modules = [
        Transformer(str(tmp_path / "base"), query_expansion=EXPANSION),
        MultiVectorMask(),
        Normalize(**states),
    ]
    check(theirs.MultiVectorEncoder(modules=modules, device="cpu"), tmp_path / "m", MultiVectorEncoder, None)
