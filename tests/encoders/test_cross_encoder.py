"""Joint inputs: the tokenizer's own pairs, made by arithmetic; and the packed forward that reads them."""

import copy

import families
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from juzhen.backends.graph_backends import PaddedCrossEncoder
from juzhen.core.examples import Examples, Kind
from juzhen.data.readers import read_table
from juzhen.encoders import load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.pair_encoder import CrossEncoderCollator, PairTemplate, pack_joint
from juzhen.encoders.preflight import marks_segments
from juzhen.encoders.projection import similarity
from juzhen.encoders.resolve_path import is_cross_encoder
from juzhen.encoders.save import save_encoder
from juzhen.encoders.tokens import TokenTable

LONG = "今天天气很好吗我你他们是的在不了有和人这中大为上个国说要就出会也时年得" * 2
FIRST = ["今天天气很好", "我", LONG, LONG, "你好吗", "我们是人", "天"]
SECOND = ["天气好吗", "你好吗，我的朋友，今天一起去吃饭吗", "我", LONG, "你好吗", LONG[:21], "天" * 14]


@pytest.fixture
def joint(load):
    def build(folder, *, outputs=1, segments=True, symmetric=False, seed=0, **settings):
        inner = load(folder, **({"dropout": 0.0, "pooling": "cls"} | settings))
        return CrossEncoder(inner, outputs=outputs, segments=segments, symmetric=symmetric, seed=seed).eval()

    return build


def tables(encoder, first=FIRST, second=SECOND):
    return encoder.inner.tokenize(first), encoder.inner.tokenize(second)


@pytest.mark.parametrize("max_length", [8, 9, 24, 31, 32])
@pytest.mark.sampled(2)
def test_ids_and_segments_are_those_of_the_tokenizer(any_folder, joint, max_length):
    encoder = joint(any_folder, max_length=max_length)
    # Sentences that alone are longer than a joint input lose tokens before they are joined.
    firsts = [text[: max_length - 2] for text in FIRST]
    ids, segments = encoder.template.join(*tables(encoder, firsts), max_length=max_length)
    told = encoder.inner.tokenizer(
        firsts, SECOND, truncation="longest_first", max_length=max_length, return_token_type_ids=True
    )
    for row, (first, second) in enumerate(zip(firsts, SECOND, strict=True)):
        both_too_long = min(len(first), len(second)) > max_length
        if not both_too_long:
            assert ids[row].tolist() == told["input_ids"][row], row
            assert segments[row].tolist() == told["token_type_ids"][row], row
    assert max(ids.lengths) == max_length
    room = encoder.room(*(table.lengths for table in tables(encoder, firsts)))
    assert room.tolist() == ids.lengths.tolist()


@example(first=13, second=13, max_length=28)  # equally long, an odd number of tokens left
@given(first=st.integers(1, 40), second=st.integers(1, 40), max_length=st.integers(5, 60))
@settings(max_examples=200)
def test_the_longer_sentence_is_cut_first(tokenizer, first, second, max_length):
    template = PairTemplate(*[tuple(np.zeros(1, np.int32) for _ in range(3))] * 2, (0, 1), (1, 1), False)
    lengths = [np.array([count + 2]) for count in (first, second)]
    (kept_first,), (kept_second,) = template.lengths(*lengths, max_length=max_length)
    assert kept_first + kept_second == min(first + second, max_length - 3)
    told = tokenizer("天" * first, "地" * second, truncation="longest_first", max_length=max_length)
    words = tokenizer.convert_ids_to_tokens(told["input_ids"])
    assert (kept_first, kept_second) == (words.count("天"), words.count("地"))


@pytest.mark.parametrize("max_length", [8, 9])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.sampled(2)
def test_pairs_of_all_lengths_are_cut_as_by_the_tokenizer(any_folder, joint, max_length, side):
    encoder = joint(any_folder, max_length=max_length)
    encoder.inner.tokenizer.truncation_side = side
    template = PairTemplate.of(encoder.inner.tokenizer)
    texts = [LONG[:count] for count in range(1, 22)]
    pairs = [(first, second) for first in texts for second in texts]
    ids, _ = template.join(*encoder.tables(*zip(*pairs, strict=True)), max_length=max_length)
    told = encoder.inner.tokenizer(pairs, truncation="longest_first", max_length=max_length)
    assert ids.tolist() == told["input_ids"]


def test_the_front_is_cut_where_the_tokenizer_does_so(bert_folder, joint):
    encoder = joint(bert_folder, max_length=12)
    encoder.inner.tokenizer.truncation_side = "left"
    template = PairTemplate.of(encoder.inner.tokenizer)
    ids, _ = template.join(*tables(encoder, [LONG[:9]], ["我们是人"]), max_length=12)
    told = encoder.inner.tokenizer(LONG[:9], "我们是人", truncation="longest_first", max_length=12)
    assert ids[0].tolist() == told["input_ids"]


def padded_states(encoder, first, second):
    """Last states of [CLS] as transformers computes them from the tokenizer's own padded pairs."""
    encoder.backbone.set_attn_implementation("sdpa")
    inputs = encoder.inner.tokenizer(
        first,
        second,
        truncation="longest_first",
        max_length=encoder.inner.max_length,
        padding=True,
        return_tensors="pt",
        return_token_type_ids=True,
    )
    if not encoder.segments:
        inputs.pop("token_type_ids")
    with torch.no_grad():
        return encoder.backbone(**inputs).last_hidden_state, inputs["attention_mask"]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_packed_equals_transformers_own_padded_forward(any_folder, joint, pooling):
    encoder = joint(any_folder, pooling=pooling, outputs=2)
    short = [text[:13] for text in FIRST]
    with torch.no_grad():
        logits = encoder(encoder.join(*tables(encoder, short, [text[:13] for text in SECOND])))
        states, mask = padded_states(encoder, short, [text[:13] for text in SECOND])
        pooled = states[:, 0]
        if pooling == "mean":
            pooled = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        expected = encoder.head(pooled)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


def test_predict_of_several_classes_gives_the_logits(any_folder, joint):
    encoder, pairs = joint(any_folder, outputs=3), [*zip(FIRST, SECOND, strict=True)][:3]
    logits = encoder.logits(FIRST[:3], SECOND[:3])
    assert logits.shape == (3, 3)
    np.testing.assert_array_equal(encoder.predict(pairs), logits)
    np.testing.assert_allclose(encoder.predict(pairs[0]), logits[0], atol=1e-5)
    assert encoder.score(pairs).shape == (3,)


def test_segments_matter_and_are_those_of_the_second_sentence(bert_folder, joint):
    marked, plain = joint(bert_folder), joint(bert_folder, segments=False)
    tokens = marked.join(*tables(marked))
    assert plain.join(*tables(plain)).segments is None
    assert set(tokens.segments.tolist()) == {0, 1}
    assert (marked(tokens) - plain(plain.join(*tables(plain)))).abs().max() > 1e-3


def test_segments_that_a_tokenizer_lacks_are_not_set(joint, project_root):
    mini = project_root / "juzhen" / "builtin" / "mini_zh@2"
    encoder = joint(mini, max_length=32)
    assert not encoder.segments
    encoder.set(pooling=None, segments=None, symmetric=None)
    assert not marks_segments(BackboneConfig(path=str(mini)), start=None)
    assert marks_segments(BackboneConfig(path=str(mini.parent / "encoder")), start=None)


def test_micro_batches_keep_their_segments_and_give_the_same_gradients(bert_folder, joint):
    encoder, gradients = joint(bert_folder).train(), []
    for micro_batch_tokens in (None, 40):
        encoder.inner.micro_batch_tokens = micro_batch_tokens
        encoder.zero_grad()
        encoder(encoder.join(*tables(encoder))).logsumexp(0).sum().backward()
        gradients.append(torch.cat([one.grad.flatten() for one in encoder.parameters()]))
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-5 * gradients[0].norm().item())


def test_every_parameter_learns(any_folder, joint):
    encoder = joint(any_folder).train()
    encoder(encoder.join(*tables(encoder))).sigmoid().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        if not name.endswith(("key.bias", "k_lin.bias")):  # shifts all of a row's attention scores alike
            assert parameter.grad.abs().max() > 0, name


def test_a_filled_up_row_is_that_of_an_exact_one(bert_folder, joint, monkeypatch):
    encoder, found = joint(bert_folder), []
    tokens = encoder.join(*tables(encoder, FIRST * 6, SECOND * 6))
    assert len(tokens.input_ids) > 512
    for start in (512, 10**9):
        monkeypatch.setattr("juzhen.encoders.forward.FILL_FROM", start)
        found.append(encoder(tokens).detach())
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)


def test_logits_are_float32_under_autocast(bert_folder, joint):
    encoder = joint(bert_folder)
    with torch.autocast("cpu", torch.bfloat16):
        assert encoder(encoder.join(*tables(encoder))).dtype == torch.float32


def test_symmetric_scores_are_symmetric(bert_folder, joint):
    encoder = joint(bert_folder, symmetric=True)
    there, back = (
        encoder.logits(*sides, batch_tokens=99, show_progress=False)
        for sides in ((FIRST, SECOND), (SECOND, FIRST))
    )
    np.testing.assert_allclose(there, back, rtol=0, atol=1e-6)
    encoder.symmetric = False
    apart = [
        encoder.logits(*sides, batch_tokens=99, show_progress=False)
        for sides in ((FIRST, SECOND), (SECOND, FIRST))
    ]
    assert np.abs(apart[0] - apart[1]).max() > 1e-3
    np.testing.assert_allclose(there, (apart[0] + apart[1]) / 2, rtol=0, atol=1e-5)


def test_the_score_of_classes_is_the_logit_of_the_expected_grade():
    two, three = torch.randn(6, 2).double(), torch.randn(6, 3).double()
    torch.testing.assert_close(similarity(two), two[:, 1] - two[:, 0])
    grade = three.softmax(1) @ torch.tensor([1.0, 0.5, 0.0]).double()
    torch.testing.assert_close(similarity(three), grade.logit())
    torch.testing.assert_close(similarity(two[:, :1]), two[:, 0])
    extreme = (1e4 * torch.eye(3)).requires_grad_()
    similarity(extreme).sum().backward()
    assert extreme.grad.isfinite().all()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.sampled(2)
def test_saved_and_loaded_it_is_the_same(any_folder, joint, tmp_path, outputs):
    encoder = joint(any_folder, outputs=outputs, pooling="mean", symmetric=True, max_length=20, seed=4)
    with torch.no_grad():
        encoder.head.bias.add_(0.5)
    folder = save_encoder(encoder, tmp_path / "encoder", card={"name": "试验", "seed": 7})
    assert is_cross_encoder(tmp_path)
    again = CrossEncoder.load(tmp_path)
    assert (again.outputs, again.inner.pooling, again.symmetric, again.inner.max_length) == (
        outputs,
        "mean",
        True,
        20,
    )
    found = [one.logits(FIRST, SECOND, batch_tokens=64, show_progress=False) for one in (encoder, again)]
    assert found[0].tobytes() == found[1].tobytes()
    assert not list(folder.rglob("*.bin"))
    assert "试验" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_batch_holds_one_joint_input_per_row_or_two(bert_folder, joint):
    encoder = joint(bert_folder)
    texts = {"premise": FIRST, "hypothesis": SECOND}
    examples = Examples.from_texts("nli", "train", kind=Kind.NLI_PAIR, texts=texts, targets=np.arange(7) % 3)
    collate = CrossEncoderCollator(
        encoder.inner.tokenize,
        join=encoder.join,
        room=encoder.room,
        both_in_training=False,
        both_in_evaluation=True,
    )
    rows = np.array([4, 0, 2])
    once, twice = collate.training_batch(examples, rows, index=0), collate(examples, rows)
    assert (len(once.tokens), len(twice.tokens), len(twice)) == (3, 6, 3)
    assert once.tensors["classes"].tolist() == [1, 0, 2]
    one = encoder(once.tokens)[once.columns["pair"]]
    torch.testing.assert_close(encoder(twice.tokens)[twice.columns["pair"]], one, rtol=0, atol=1e-5)
    turned = encoder.logits(
        [SECOND[row] for row in rows], [FIRST[row] for row in rows], batch_tokens=99, show_progress=False
    )
    torch.testing.assert_close(
        encoder(twice.tokens)[twice.columns["swapped"]], torch.from_numpy(turned), rtol=0, atol=1e-5
    )
    assert collate.row_lengths(examples).max() == encoder.inner.max_length
    packed = sorted(once.tokens.lengths.tolist())
    assert packed == sorted(collate.row_lengths(examples)[rows].tolist())


def test_segments_follow_the_packed_order():
    ids = TokenTable.of([[1, 2, 3, 4], [5, 6], [7, 8, 9]])
    segments = TokenTable.of([[0, 0, 1, 1], [0, 1], [0, 0, 1]])
    tokens = pack_joint(ids, segments, max_group_tokens=None)
    assert tokens.input_ids.tolist() == [5, 6, 7, 8, 9, 1, 2, 3, 4]
    assert tokens.segments.tolist() == [0, 1, 0, 0, 1, 0, 0, 1, 1]


def test_real_pairs_are_joined_as_the_tokenizer_joins_them(real_data):
    config = BackboneConfig(path="builtin/encoder", initialize="random", max_length=32)
    encoder = CrossEncoder(load_backbone(config, seed=0), outputs=1, segments=True, symmetric=False, seed=0)
    table = read_table(real_data / "lcqmc" / "dev.tsv.zst", header=True, quoted=False)
    first, second = (
        list(table.columns[table.names.index(name)][:500]) for name in ("sentence1", "sentence2")
    )
    ids, segments = encoder.template.join(*tables(encoder, first, second), max_length=32)
    told = encoder.inner.tokenizer(
        first, second, truncation="longest_first", max_length=32, return_token_type_ids=True
    )
    shorter = np.minimum(*(table.lengths for table in tables(encoder, first, second)))
    known = np.flatnonzero(shorter < 32)  # of the others the tokenizer has seen more than we have
    assert len(known) > 490
    assert ids[known].tolist() == [told["input_ids"][row] for row in known]
    assert segments[known].tolist() == [told["token_type_ids"][row] for row in known]
    assert max(map(len, told["input_ids"])) == 32


@pytest.mark.parametrize("segments", [True, False])
def test_a_saved_tokenizer_marks_sentences_where_the_encoder_does(tiny_backbone, tmp_path, segments):
    """Of a tokenizer whose own file does not say so: sentence-transformers asks it alone."""
    inner = load_backbone(BackboneConfig(path=str(tiny_backbone), initialize="random"), seed=0)
    encoder = CrossEncoder(inner, outputs=1, segments=segments, symmetric=False, seed=0).eval()
    folder = encoder.save(tmp_path / "saved")
    names = AutoTokenizer.from_pretrained(folder)(["今天"], ["天气"]).keys()
    assert ("token_type_ids" in names) == segments
    again = CrossEncoder.load(folder)
    assert again.segments == segments
    pairs = [("今天天气很好", "今天是个好天气"), ("花呗", "怎么还花呗")]
    np.testing.assert_array_equal(again.score(pairs), encoder.score(pairs))


HEADS = [
    ("modernbert", {}),
    ("modernbert", {"classifier_pooling": "mean"}),
    ("nomic_bert", {}),
    ("eurobert", {}),
]


@pytest.mark.parametrize(("family", "settings"), HEADS, ids=str)
@pytest.mark.sampled(2)
def test_heads_of_transformers_give_their_logits(tmp_path, family, settings):
    config = families.config_of(family)
    config.num_labels = 1
    vars(config).update(settings)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = AutoModelForSequenceClassification.from_config(config).eval()
    (tmp_path / "theirs").mkdir()
    families.write(family, tmp_path / "theirs", theirs, segments=False)
    encoder = CrossEncoder.load(tmp_path / "theirs")
    pairs = list(zip(FIRST[:2], SECOND[:2], strict=True))
    with torch.no_grad():
        inputs = [encoder.inner.tokenizer(*pair, return_tensors="pt") for pair in pairs]
        expected = torch.cat([theirs(**one).logits for one in inputs])
        padded = PaddedCrossEncoder(copy.deepcopy(encoder))
        graph = [padded(one["input_ids"], one["attention_mask"])[1] for one in inputs]
    found = encoder.logits(*zip(*pairs, strict=True))
    for logits in (found, torch.cat(graph)):
        torch.testing.assert_close(torch.as_tensor(logits), expected, rtol=1e-5, atol=1e-5)
    again = CrossEncoder.load(save_encoder(encoder, tmp_path / "saved", card={}))
    assert np.array_equal(again.score(pairs), encoder.score(pairs))
    two = encoder.with_head([0.0, 1.0], seed=0)
    assert two.logits(*zip(*pairs, strict=True)).shape == (2, 2)
    assert two.inner.token_layers == (family == "eurobert")
