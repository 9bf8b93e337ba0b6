"""A student begins with what its teacher knows."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from juzhen.cli.main import main
from juzhen.core.paths import BUILTIN
from juzhen.distillation.student import most_needed, student_of, token_counts, with_tokens
from juzhen.encoders import SentenceEncoder, load_backbone
from juzhen.encoders.backbone_config import BackboneConfig

TEXTS = ["今天天气很好", "我想知道怎么还款", "一个男人正在弹吉他。"]


@pytest.fixture(scope="module")
def teacher():
    """Six random layers of 256 on the built-in tokenizer."""
    config = BackboneConfig(
        path=str(BUILTIN / "encoder"), initialize="random", layers=6, max_length=64, learning_rate=1e-4
    )
    return load_backbone(config, seed=1).eval()


@pytest.mark.parametrize(("layers", "places"), [(2, [2, 5]), (3, [1, 3, 5]), (6, range(6)), (1, [5])])
def test_every_kth_layer_is_taken_over_and_the_last_one(teacher, layers, places):
    student = student_of(teacher, layers=layers, seed=0)
    assert student.backbone.config.num_hidden_layers == layers
    for own, place in zip(student.backbone.encoder.layer, places, strict=True):
        other = teacher.backbone.encoder.layer[place]
        assert torch.equal(own.output.dense.weight, other.output.dense.weight)


def test_a_student_with_all_layers_is_the_teacher(teacher):
    student = student_of(teacher, layers=6, seed=0).eval()
    np.testing.assert_array_equal(student.encode(TEXTS), teacher.encode(TEXTS))


def test_a_smaller_vocabulary_reads_its_own_texts_as_before(teacher):
    student = student_of(teacher, layers=6, vocabulary=40, texts=TEXTS, seed=0).eval()
    assert len(student.tokenizer) == student.backbone.config.vocab_size == 40
    np.testing.assert_allclose(student.encode(TEXTS), teacher.encode(TEXTS), atol=1e-6)
    assert student.tokenizer.convert_ids_to_tokens(student.tokenizer("龘")["input_ids"])[1] == "[UNK]"


def test_a_narrower_student_begins_as_the_teachers_embeddings_of_its_tokens(teacher, tmp_path):
    small = student_of(teacher, layers=2, dim=128, vocabulary=40, texts=TEXTS, max_length=32, seed=0).eval()
    assert (small.dim, small.max_length, small.backbone.config.num_attention_heads) == (128, 32, 2)
    tokens = [small.tokenizer.convert_ids_to_tokens(number) for number in range(5, 40)]
    whole = teacher.encode(tokens, normalize=True)
    rows = small.backbone.embeddings.word_embeddings.weight[5:40].detach().numpy()
    one, two = rows - rows.mean(0), whole - whole.mean(0)
    assert np.corrcoef(np.triu(one @ one.T, 1).ravel(), np.triu(two @ two.T, 1).ravel())[0, 1] > 0.99
    changed = student_of(teacher, layers=4, dim=128, vocabulary=40, texts=TEXTS, max_length=32, seed=0).eval()
    # Layers change nothing yet.
    np.testing.assert_allclose(small.encode(TEXTS), changed.encode(TEXTS), atol=2e-5)


def unigram(further=""):
    """A tokenizer of pieces with scores, as sentencepiece makes them."""
    pieces = [(one, 0.0) for one in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces += [
        ("▁", -2.0),
        ("今天", -3.0),
        ("天气", -3.5),
        *((one, -6.0) for one in "今天气很好我" + further),
    ]
    made = Tokenizer(models.Unigram(pieces, unk_id=3))
    made.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def test_pieces_that_are_left_out_are_spelt_by_smaller_ones():
    tokenizer = unigram()
    assert tokenizer.tokenize("今天天气") == ["▁", "今天", "天气"]
    kept = sorted(number for token, number in tokenizer.get_vocab().items() if token != "天气")
    smaller = with_tokens(tokenizer, kept)
    assert smaller.tokenize("今天天气") == ["▁", "今天", "天", "气"]
    ids = smaller("今天")["input_ids"]
    assert smaller.convert_ids_to_tokens(ids) == ["<s>", "▁", "今天", "</s>"]
    assert smaller.pad_token_id == 1


def test_tokens_are_counted_and_the_needed_ones_kept():
    tokenizer = unigram()
    counts = token_counts(tokenizer, ["今天天气很好", "今天"])
    spelt = tokenizer.get_vocab()
    assert (counts[spelt["今天"]], counts[spelt["天"]], counts[spelt["我"]]) == (2, 3, 0)
    kept = most_needed(tokenizer, ["今天天气很好", "今天"], len(tokenizer) - 1)
    assert spelt["我"] not in kept
    assert len(kept) == len(tokenizer) - 1


def test_another_tokenizer_needs_fewer_dimensions(teacher):
    tokenizer = unigram("\u00ad")  # a token that no text may be
    student = student_of(teacher, layers=1, dim=64, tokenizer=tokenizer, seed=0)
    assert student.eval().encode("今天天气").shape == (64,)


@pytest.mark.slow
def test_the_verb_writes_a_folder_that_loads(teacher, tmp_path):
    from juzhen.encoders.save import save_encoder

    save_encoder(teacher, tmp_path / "teacher", card={"name": "teacher"})
    places = str(tmp_path / "teacher"), str(tmp_path / "small")
    words = ["--layers=1", "--dim=64", "--vocabulary=200", "--dataset", "demo_qmc"]
    assert main(["shrink", *places, *words]) == 0
    assert SentenceEncoder.load(tmp_path / "small").encode(TEXTS).shape == (3, 64)


@pytest.mark.slow
def test_a_prompt_is_for_tokens_that_begin_as_texts(tmp_path):
    words = ["shrink", "builtin/mini_zh", str(tmp_path / "student"), "--layers", "1", "--prompt", "问："]
    assert main([*words, "--dim", "64"]) == 0
    assert main(["shrink", "builtin/mini_zh", str(tmp_path / "plain"), "--layers", "1", "--dim", "64"]) == 0
    prompted, plain = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("student", "plain"))
    assert prompted != plain
