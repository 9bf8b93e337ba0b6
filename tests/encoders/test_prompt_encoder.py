"""Prompt encoders: templates around token numbers, two stages end to end, denoising, folders."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from juzhen.encoders import load_encoder, save_encoder
from juzhen.encoders.embedding_cache import encoder_digest
from juzhen.encoders.forward import PACKED
from juzhen.encoders.prompts import INJECTED, SENTENCE, Templates
from juzhen.encoders.sentence_encoder import PromptEncoder
from juzhen.encoders.template_encoder import Frame, Template, read_template, wrap
from juzhen.encoders.tokens import TokenTable

TEXTS = ["今天天气很好", "我", "你好吗，我的朋友，今天一起去吃饭吗", "天气 [MASK] 好", "abc 今天天气很好吗"]
ANCHOR, POSITIVE, NEGATIVE = "“[X]”的 [MASK]。", "我：“[X]” [MASK]", "不 [MASK] 是 [X]"
STAGE_2 = f"我 {INJECTED} 是 [MASK] 。"


def prompts(**changes) -> Templates:
    given = {"anchor": ANCHOR, "positive": POSITIVE, "negative": NEGATIVE, "stage_2": STAGE_2}
    return Templates(**(given | changes))


@pytest.fixture
def build(load, bert_folder):
    def build(folder=bert_folder, *, dropout=0.0, max_length=None, **changes) -> PromptEncoder:
        encoder = load(folder, dropout=dropout, max_length=max_length)
        # In float64: the weights are large, and rounding would be, too.
        return PromptEncoder.around(encoder, prompts(**changes)).double().train()

    return build


def tokens_of(encoder, views=None):
    views = None if views is None else np.asarray(views)
    return encoder.collate(encoder.tokenize(TEXTS), views)


@pytest.mark.parametrize(
    "template", ['The sentence of "[X]" means [MASK].', "“[X]”这句话的意思是[MASK]。", "[X]"]
)
@pytest.mark.parametrize("text", ["今天天气很好", "A dog runs.", "it's 3.5 %", '他说："好"。', "[MASK]"])
def test_arithmetic_gives_what_tokenising_the_whole_text_gives(tokenizer, template, text):
    frame = Frame.of(tokenizer)
    parts = [read_template(template, SENTENCE, tokenizer, frame)]
    table = TokenTable.of([tokenizer(text)["input_ids"]])
    wrapped = wrap(table, parts, np.zeros(1, int), frame=frame)
    whole = tokenizer(template.replace(SENTENCE, text))["input_ids"]
    assert wrapped.tolist() == [whole]
    assert [whole[place] for place in parts[0].masks] == [tokenizer.mask_token_id] * template.count("[MASK]")


@given(
    st.lists(st.tuples(st.lists(st.integers(5, 90), max_size=9), st.integers(0, 2)), min_size=1, max_size=9)
)
@settings(max_examples=100)
def test_wrapping_equals_plain_lists(rows):
    templates = [
        Template(np.array(a), np.array(b), ()) for a, b in (([100, 101], [102]), ([], [103]), ([104], []))
    ]
    frame = Frame(np.array([2]), np.array([3]))
    table = TokenTable.of([[2, *body, 3] for body, _ in rows])
    views = np.array([view for _, view in rows])
    expected = [[2, *templates[view].prefix, *body, *templates[view].suffix, 3] for body, view in rows]
    assert wrap(table, templates, views, frame=frame).tolist() == expected


def by_hand(encoder, text, view="anchor"):
    """One sentence, padded forward, tokens put together as text; the last [MASK] is that of the template."""
    tokenizer, backbone = encoder.tokenizer, encoder.backbone
    template = getattr(encoder.templates, view).replace("[MASK]", tokenizer.mask_token)
    ids = torch.tensor([tokenizer(template.replace(SENTENCE, text))["input_ids"]])
    masks = (ids[0] == tokenizer.mask_token_id).nonzero().flatten()
    place = masks[0] if template.startswith("不") else masks[-1]
    state = backbone(ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0, place]
    if encoder.templates.stage_2 is None:
        return state
    stage_2 = encoder.templates.stage_2.replace("[MASK]", tokenizer.mask_token)
    ids = torch.tensor([tokenizer(stage_2)["input_ids"]])
    words = backbone.get_input_embeddings()(ids).clone()
    words[ids == tokenizer.convert_tokens_to_ids(INJECTED)] = state
    states = backbone(inputs_embeds=words, attention_mask=torch.ones_like(ids)).last_hidden_state
    return states[ids == tokenizer.mask_token_id][-1]


@pytest.mark.parametrize("stage_2", [STAGE_2, None])
@pytest.mark.sampled(2)
def test_two_stages_equal_sentence_by_sentence(any_folder, build, stage_2):
    encoder = build(any_folder, stage_2=stage_2).eval()
    plain = copy.deepcopy(encoder)
    plain.backbone.set_attn_implementation("eager")
    for number, view in enumerate(("anchor", "positive", "negative")):
        expected = torch.stack([by_hand(plain, text, view) for text in TEXTS])
        found = encoder(tokens_of(encoder, [number] * len(TEXTS)))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize("denoise", ["none", "positions", "pads"])
@pytest.mark.parametrize("stage_2", [STAGE_2, None])
def test_packed_equals_padded(bert_folder, build, stage_2, denoise):
    encoder = build(stage_2=stage_2, denoise=denoise)
    assert encoder.backbone.config._attn_implementation == PACKED
    padded = copy.deepcopy(encoder)
    padded.backbone.set_attn_implementation("eager")
    padded._packs = False
    views = [0, 1, 2, 0, 1]
    gradients = []
    for one in (encoder, padded):
        embeddings = one(tokens_of(one, views))
        embeddings.square().sum().backward()
        gradients.append((embeddings, one.backbone.get_input_embeddings().weight.grad))
    for packed, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(packed, expected, rtol=1e-5, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize("end_to_end", [True, False])
def test_gradients_reach_stage_1_through_h(build, end_to_end):
    """Words of the sentence are in stage 1 only: they learn exactly when gradients pass through h."""
    encoder = build(end_to_end=end_to_end)
    ids = tokens_of(encoder, [1] * len(TEXTS)).input_ids
    encoder(tokens_of(encoder, [0] * len(TEXTS))).square().sum().backward()
    gradient = encoder.backbone.get_input_embeddings().weight.grad.norm(dim=1)
    only_in_text = encoder.tokenizer.convert_tokens_to_ids(["天", "气", "朋"])[:2]
    assert set(only_in_text) <= set(ids.tolist())
    assert all((gradient[number] > 0) == end_to_end for number in only_in_text)
    assert gradient[encoder.tokenizer.mask_token_id] > 0  # stage 2 learns either way
    assert gradient[encoder.tokenizer.convert_tokens_to_ids(INJECTED)] == 0  # its row is replaced


@pytest.mark.parametrize("read", ["last", "mean"])
def test_any_number_of_masks(build, read):
    encoder = build(anchor="[MASK] 我 [MASK]“[X]”[MASK] 是 [MASK]。", read=read, stage_2=None).eval()
    encoder_ids = encoder.collate(encoder.tokenize(["天 [MASK]"]))
    states = encoder._states(encoder_ids)
    own = (encoder_ids.input_ids == encoder.tokenizer.mask_token_id).nonzero().flatten().tolist()
    assert len(own) == 5  # four of the template, one of the sentence
    wanted = [own[0], own[1], own[3], own[4]] if read == "mean" else [own[4]]
    torch.testing.assert_close(encoder(encoder_ids)[0], states[wanted].mean(0), check_dtype=False)


def test_long_sentences_are_cut_and_templates_never(build):
    encoder = build(max_length=24).eval()
    table = encoder.tokenize(["今天气很好" * 30])
    for view in range(3):
        tokens = encoder.collate(table, np.array([view]))
        template = encoder.template_tokens[view]
        assert tokens.input_ids.numel() <= 24
        ids = tokens.input_ids.numpy()
        start = len(encoder.frame.before)
        assert ids[start : start + len(template.prefix)].tolist() == template.prefix.tolist()
        end = len(ids) - len(encoder.frame.after)
        assert ids[end - len(template.suffix) : end].tolist() == template.suffix.tolist()
    assert max(encoder.collate(table, np.array([view])).input_ids.numel() for view in range(3)) == 24


@pytest.mark.parametrize("denoise", ["positions", "pads"])
def test_denoising_equals_doing_it_per_sentence(build, denoise):
    encoder = build(stage_2=None, denoise=denoise).eval()
    noisy = build(stage_2=None).eval()
    noisy.load_state_dict(encoder.state_dict())
    tokens = tokens_of(encoder, [0, 1, 2, 0, 1])
    found, given = encoder(tokens), noisy(tokens)
    backbone = copy.deepcopy(encoder.backbone)
    backbone.set_attn_implementation("eager")
    lengths = encoder.tokenize(TEXTS).lengths - 2
    for row, view in enumerate([0, 1, 2, 0, 1]):
        template = encoder.template_tokens[view]
        head, tail = [*encoder.frame.before, *template.prefix], [*template.suffix, *encoder.frame.after]
        gap = [encoder.pad] * int(lengths[row]) if denoise == "pads" else []
        ids = torch.tensor([[*head, *gap, *tail]])
        after = len(head) + int(lengths[row])
        positions = torch.tensor([[*range(len(head) + len(gap)), *range(after, after + len(tail))]])
        states = backbone(ids, attention_mask=torch.ones_like(ids), position_ids=positions).last_hidden_state
        noise = states[0, (ids[0] == encoder.tokenizer.mask_token_id).nonzero().flatten()[-1]]
        torch.testing.assert_close(found[row], given[row] - noise, rtol=1e-5, atol=1e-6, check_dtype=False)


def test_denoising_is_computed_once_per_template_and_length(build):
    encoder = build(stage_2=None, denoise="positions").eval()
    table = encoder.tokenize(["今天", "天气", "很好", "我"])
    blank, positions, places = encoder._blanks(encoder.collate(table, np.array([0, 0, 1, 1])))
    assert len(blank) == 3
    assert sorted(places.tolist())[-1] == 2
    assert positions.numel() == blank.input_ids.numel()


@pytest.mark.parametrize(
    "changes", [{}, {"stage_2": None, "denoise": "pads"}, {"match_norm": True, "read": "mean"}]
)
def test_saved_and_loaded_encode_the_same(build, tmp_path, changes):
    encoder = build(**changes).float()
    save_encoder(encoder, tmp_path / "encoder", card={"name": "some"})
    again = load_encoder(tmp_path / "encoder")
    assert isinstance(again, PromptEncoder)
    assert (again.templates, again.max_length, again.input_length) == (
        encoder.templates,
        encoder.max_length,
        encoder.input_length,
    )
    first, second = (one.encode(TEXTS, batch_tokens=100, show_progress=False) for one in (encoder, again))
    assert np.array_equal(first, second)
    assert "juzhen.PromptEncoder" in (tmp_path / "encoder" / "modules.json").read_text()
    assert (INJECTED in again.tokenizer.get_vocab()) == ("stage_2" not in changes)
    assert encoder_digest(again, "x") == encoder_digest(encoder, "x")
    other = PromptEncoder.around(encoder, prompts(**changes | {"anchor": POSITIVE}))
    assert encoder_digest(other, "x") != encoder_digest(encoder, "x")


def test_pieces_change_nothing(build):
    encoder = build(denoise="positions", dropout=0.0)
    whole = encoder(tokens_of(encoder, [0, 1, 2, 0, 1]))
    encoder.micro_batch_tokens = 20
    parts = encoder(tokens_of(encoder, [0, 1, 2, 0, 1]))
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-6, check_dtype=False)


def test_the_state_can_be_brought_to_the_length_of_words(build):
    encoder = build(match_norm=True).eval()
    encoder(tokens_of(encoder))
    table = encoder.backbone.get_input_embeddings().weight
    state = encoder.stage_1(tokens_of(encoder))
    ratio = state.norm(dim=1).mean() / table.norm(dim=1).mean()
    torch.testing.assert_close(encoder.norm_ratio, ratio)
    scaled = copy.deepcopy(encoder)
    scaled.templates = prompts(match_norm=False)
    assert not torch.allclose(scaled(tokens_of(encoder)), encoder(tokens_of(encoder)))
