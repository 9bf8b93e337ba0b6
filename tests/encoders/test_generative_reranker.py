"""Generative rerankers: their tokens, scores and folders are those of the whole language model and of its author."""

import json

import decoders
import numpy as np
import pytest
import rerankers
import torch
from decoders import DECODERS
from hypothesis import given, settings
from hypothesis import strategies as st
from rerankers import PAIRS
from safetensors.torch import load_file
from tokenizers import processors
from transformers import AutoModelForCausalLM, AutoTokenizer

from juzhen.core.examples import Examples, Kind
from juzhen.encoders import CrossEncoder, load_backbone
from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig
from juzhen.families.answers.encoder import GenerativeReranker
from juzhen.families.answers.prompt import CHAT, AnswerPrompt, chat_template
from juzhen.families.registry import FAMILIES, family_in, family_of


def load(folder, **settings):
    return load_backbone(
        BackboneConfig(path=str(folder), initialize="pretrained", pooling="last", **settings), seed=0
    )


def near(scores, expected, most=1e-5):
    scores, expected = np.asarray(scores), np.asarray(expected)
    assert np.isfinite(scores).all()
    assert np.abs(scores - expected).max() <= most * max(1.0, np.abs(expected).max())


def whole_text(encoder, query, document):
    prompt = encoder.template
    return prompt.before + query + prompt.between + document + prompt.after


def whole_ids(encoder, query, document):
    """Tokens of the filled-in text; of a long one the end of the document is left out, and the text behind it stays."""
    tokenizer, most = encoder.inner.tokenizer, encoder.inner.max_length
    ids = tokenizer(whole_text(encoder, query, document), add_special_tokens=False)["input_ids"]
    tail = encoder.template.tail.tolist()
    return ids if len(ids) < most else ids[: most - len(tail)] + tail


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return rerankers.write("qwen3", tmp_path_factory.mktemp("lm") / "m", tied=False)


@pytest.fixture(scope="module")
def encoder(folder):
    return GenerativeReranker.around(load(folder)).eval()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.sampled(4)
def test_a_score_is_yes_without_no_of_the_whole_model(family, tied, tmp_path):
    place = rerankers.write(family, tmp_path / "m", tied=tied)
    encoder = GenerativeReranker.around(load(place)).eval()
    model, vocabulary = (
        AutoModelForCausalLM.from_pretrained(place).eval(),
        encoder.inner.tokenizer.get_vocab(),
    )
    expected = []
    for pair in PAIRS:
        with torch.no_grad():
            logits = model(torch.tensor([whole_ids(encoder, *pair)])).logits[0, -1]
        expected.append(float(logits[vocabulary["yes"]] - logits[vocabulary["no"]]))
    near(encoder.score(PAIRS), expected)
    near([encoder.score(*pair) for pair in PAIRS], expected)
    near(encoder.score(PAIRS * 9)[-len(PAIRS) :], expected)
    assert (encoder.rows is None) == tied
    assert tied or encoder.rows.shape == (2, 32)


@pytest.mark.oracle
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["qwen3", "qwen2", "llama", "gemma"])
def test_sentence_transformers_reads_and_writes_the_same(family, tied, tmp_path):
    peer = pytest.importorskip("sentence_transformers", minversion="6.2")
    model = rerankers.theirs(rerankers.write(family, tmp_path / "m", tied=tied), tmp_path / "theirs")
    encoder = CrossEncoder.load(tmp_path / "theirs")
    assert isinstance(encoder, GenerativeReranker)
    assert encoder.instruction == "judge it"
    # One by one: beside longer texts their padding moves positions, which rounds otherwise in float32 (1.5e-4).
    expected = model.predict(PAIRS, batch_size=1)
    near(encoder.score(PAIRS), expected)
    again = peer.CrossEncoder(str(encoder.save(tmp_path / "ours")), device="cpu")
    near(again.predict(PAIRS, batch_size=1), expected)
    assert CrossEncoder.load(tmp_path / "ours").score(PAIRS).tobytes() == encoder.score(PAIRS).tobytes()
    near(
        [hit.score for hit in encoder.rank("a dog", ["x y", "b"])],
        [h["score"] for h in model.rank("a dog", ["x y", "b"])],
    )
    encoder.instruction = "be strict"
    near(encoder.score(PAIRS), model.predict(PAIRS, prompt="be strict", batch_size=1))
    in_double = encoder.double().score(PAIRS)
    for batch_size, most in ((1, 1e-6), (64, 1e-5)):  # angles are float32 in transformers all the same
        near(in_double, model.double().predict(PAIRS, prompt="be strict", batch_size=batch_size), most)


@pytest.mark.oracle
@pytest.mark.parametrize("answers", [(7,), (9, 7)])
def test_a_template_of_theirs_and_one_answer_alone(answers, tmp_path):
    pytest.importorskip("sentence_transformers", minversion="6.2")
    place = rerankers.write("qwen3", tmp_path / "m", by_bytes=False)
    text = "judge {query}\n> {document}."
    model = rerankers.theirs(place, tmp_path / "theirs", text=text, instruction=None, answers=answers)
    encoder = CrossEncoder.load(tmp_path / "theirs")
    assert encoder.instruction is None
    near(encoder.score(PAIRS), model.predict(PAIRS))


@pytest.mark.slow
def test_packed_equals_padded_with_gradients_and_in_micro_batches(folder):
    outcomes = []
    for packs, budget in ((True, None), (True, 300), (False, None)):
        encoder = GenerativeReranker.around(load(folder)).eval()
        encoder.inner._packs, encoder.inner.micro_batch_tokens = packs, budget
        if not packs:
            encoder.backbone.set_attn_implementation("sdpa")
        tables = encoder.tables(*map(list, zip(*PAIRS, strict=True)))
        logits = encoder(encoder.join(*tables))
        logits.sigmoid().sum().backward()
        named = dict(encoder.named_parameters())
        assert named["rows"].grad.abs().max() > 0
        outcomes.append((logits.detach(), torch.cat([values.grad.flatten() for values in named.values()])))
    for values in zip(*outcomes, strict=True):
        for other in values[1:]:
            assert (other - values[0]).norm() <= 1e-5 * values[0].norm()


TEXTS = st.text(st.sampled_from("aZ7今天!.,-> \n\t”é<|:'s"), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(query=TEXTS, document=TEXTS)
def test_tokens_of_the_sides_are_those_of_the_whole_text(encoder, query, document):
    ids, _ = encoder.template.join(*encoder.tables([query], [document]), max_length=encoder.inner.max_length)
    assert ids[0].tolist() == whole_ids(encoder, query, document)


@pytest.mark.parametrize("most", [225, 240, 256])
def test_the_document_is_cut_and_the_question_stays(folder, most):
    encoder = GenerativeReranker.around(load(folder, max_length=most)).eval()
    ids, _ = encoder.template.join(*encoder.tables(*map(list, zip(*PAIRS, strict=True))), max_length=most)
    for row, pair in zip(ids, PAIRS, strict=True):
        assert row.tolist() == whole_ids(encoder, *pair)
    assert ids.lengths.max() == most
    texts = dict(zip(("text_a", "text_b"), map(list, zip(*PAIRS, strict=True)), strict=True))
    rows = Examples.from_texts("a", "dev", kind=Kind.LABELLED_PAIR, texts=texts, targets=np.ones(len(PAIRS)))
    long = [
        len(encoder.inner.tokenizer(whole_text(encoder, *p), add_special_tokens=False)["input_ids"])
        for p in PAIRS
    ]
    cut = family_of(encoder).cut(encoder, rows)
    assert (cut.cut, cut.looked_at) == (sum(length > most for length in long), len(PAIRS))


def test_a_batch_holds_queries_and_documents_as_such(encoder):
    """A text that is a query in one row and a document in another one is read as what it is there."""
    texts = {
        "anchor": ["a dog", "x", "今天"],
        "positive": ["x", "a dog", "y"],
        "negative": ["b", "c", "今天"],
    }
    rows = Examples.from_texts("a", "train", kind=Kind.TRIPLET, texts=texts)
    collate = FAMILIES["generative_reranker"].collate(encoder)
    batch = collate.training_batch(rows, np.array([2, 0]), index=0)
    pairs = [("今天", "y"), ("a dog", "x"), ("今天", "今天"), ("a dog", "b")]
    with torch.no_grad():
        near(encoder(batch.tokens)[batch.columns["pair"]][:, 0], encoder.score(pairs))
    expected = [
        max(len(whole_ids(encoder, row[0], other)) for other in row[1:])
        for row in zip(*texts.values(), strict=True)
    ]
    assert collate.row_lengths(rows).tolist() == expected


def test_only_the_rows_of_the_answers_change_in_the_saved_head(folder, tmp_path):
    encoder = GenerativeReranker.around(load(folder))
    with torch.no_grad():
        encoder.rows.add_(1.0)
    saved = encoder.save(tmp_path / "saved")
    before, after = (load_file(place / "model.safetensors")["lm_head.weight"] for place in (folder, saved))
    assert (before != after).any(dim=1).nonzero().flatten().tolist() == sorted(encoder.answers)
    assert family_in(saved) is FAMILIES["generative_reranker"]
    assert json.loads((saved / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]
    assert "logit(yes) − logit(no)" in (saved / "README.md").read_text()
    near(CrossEncoder.load(saved).score(PAIRS), encoder.eval().score(PAIRS))


def test_a_model_without_a_head_answers_by_its_table_of_tokens(tmp_path):
    place = decoders.write("qwen3", tmp_path / "m", ends="none")
    encoder = GenerativeReranker.around(
        load(place), true_answer="a", false_answer="b", template="{query}>{document}"
    )
    assert encoder.rows is None
    saved = encoder.save(tmp_path / "saved")
    assert json.loads((saved / "config.json").read_text())["tie_word_embeddings"] is True
    near(CrossEncoder.load(saved).score(PAIRS), encoder.eval().score(PAIRS), 1e-6)
    encoder.eval().bfloat16()
    assert np.isfinite(encoder.score(PAIRS)).all()


@pytest.mark.oracle
@pytest.mark.parametrize("head", ["own", "tied"])
def test_sentence_transformers_opens_an_adapter_whose_base_has_a_head(head, tmp_path):
    peer = pytest.importorskip("sentence_transformers", minversion="6.2")
    pytest.importorskip("peft")
    place = rerankers.write("qwen3", tmp_path / "m", tied=head == "tied")
    encoder = GenerativeReranker.around(load(place, adapter=AdapterConfig(rank=4))).eval()
    with torch.no_grad():
        for name, values in encoder.named_parameters():
            if "lora_B" in name:
                values.normal_()
    saved = encoder.save(tmp_path / "saved")
    near(CrossEncoder.load(saved).score(PAIRS), encoder.score(PAIRS), 1e-6)
    assert {
        name for name, values in encoder.named_parameters() if values.requires_grad and "lora" not in name
    } == set()
    near(peer.CrossEncoder(str(saved), device="cpu").predict(PAIRS), encoder.score(PAIRS))


def test_a_sign_of_jinja_in_the_text_is_a_sign():
    tokenizer = rerankers.byte_tokenizer()
    tokenizer.chat_template = chat_template('{{ "q" }} {% x %}\n{query} \\ }} "\n> {document}\n')
    prompt = AnswerPrompt.of(tokenizer, None)
    assert (prompt.before, prompt.after) == ('{{ "q" }} {% x %}\n', "\n")
    assert prompt.between == ' \\ }} "\n> '


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("instruction", [None, "judge: "])
@pytest.mark.sampled(2)
def test_pairs_without_a_chat_template_are_those_of_the_tokenizer(
    folder, encoder, instruction, special, tmp_path
):
    saved = encoder.save(tmp_path / "saved")
    if special:  # a token at the start, one between the two, and one at the end
        tokenizer = AutoTokenizer.from_pretrained(saved)
        start, turn, end = (tokenizer.convert_ids_to_tokens(number) for number in (0, 1, 2))
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{start} $A",
            pair=f"{start} $A {turn} $B {end}",
            special_tokens=[(start, 0), (turn, 1), (end, 2)],
        )
        tokenizer.save_pretrained(saved)
    text = {"text": {"method": "forward", "method_output_name": "logits"}}
    rerankers.answer_folder(saved, modality_config=text)
    prompts = {} if instruction is None else {"prompts": {"web": instruction}, "default_prompt_name": "web"}
    path = saved / "config_sentence_transformers.json"
    others = {"prompts": {}, "default_prompt_name": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | others | prompts))
    plain, model = CrossEncoder.load(saved), AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer, expected = plain.inner.tokenizer, []
    for query, document in PAIRS:
        options = {
            "truncation": "longest_first",
            "max_length": plain.inner.max_length,
            "return_tensors": "pt",
        }
        inputs = tokenizer((instruction or "") + query, document, **options)
        with torch.no_grad():
            logits = model(inputs["input_ids"]).logits[0, -1]
        expected.append(float(logits[plain.answers[0]] - logits[plain.answers[1]]))
    near(plain.score(PAIRS), expected)
    assert plain.instruction == instruction
    again = CrossEncoder.load(plain.save(tmp_path / "again"))
    assert np.array_equal(again.score(PAIRS), plain.score(PAIRS))
    plain.set_instruction("other: ")
    assert plain.template.around("x", is_query=True) == "other: x"


def test_contents_in_parts_are_found_out():
    tokenizer = rerankers.byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.content[0].text }}> {% endfor %}"
    assert AnswerPrompt.of(tokenizer, None).format == "structured"


def test_the_text_of_qwen3_reranker_is_that_of_its_card(encoder):
    assert CHAT.count("<|im_start|>") == 3
    text = whole_text(encoder, "问", "答")
    assert text.startswith("<|im_start|>system\nJudge whether the Document meets")
    assert "\n<Query>: 问\n<Document>: 答<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n" in text
    assert AutoTokenizer.from_pretrained(encoder.inner.tokenizer.name_or_path).chat_template is None


@pytest.mark.oracle
def test_lengths_around_the_limit_are_cut_as_sentence_transformers_does(tmp_path):
    pytest.importorskip("sentence_transformers", minversion="6.2")
    place = rerankers.write("qwen3", tmp_path / "m", by_bytes=False)
    model = rerankers.theirs(
        place, tmp_path / "theirs", text="{query} > {document}.", instruction=None, answers=[5, 6]
    )
    pairs = [("a " * count, "x y " * 20) for count in range(1, 70)]
    pairs += [("a b c", "x " * count) for count in range(50, 66)]
    near(CrossEncoder.load(tmp_path / "theirs").score(pairs), model.predict(pairs))
