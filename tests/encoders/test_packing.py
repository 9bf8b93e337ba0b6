"""Packed and padded forwards are the same function: outputs and gradients, for each family that packs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from juzhen.encoders.forward import LENGTH_RATIO, PACKED, pack, padded_inputs
from juzhen.encoders.tokens import TokenTable

TEXTS = ["今天天气很好", "我", "你好吗，我的朋友，今天一起去吃饭吗", "天气", "今天天气很好吗"] * 3


@given(st.lists(st.lists(st.integers(5, 90), min_size=1, max_size=40), min_size=1, max_size=30))
@settings(max_examples=60)
def test_packing_loses_nothing(token_lists):
    tokens = pack(token_lists)
    packed = list(tokens.input_ids.split(tokens.lengths.tolist()))
    assert [packed[place].tolist() for place in tokens.inverse_permutation.tolist()] == token_lists
    assert sum(group.num_sentences for group in tokens.groups) == len(token_lists)
    assert sum(group.num_tokens for group in tokens.groups) == tokens.input_ids.numel()
    positions = tokens.positions.split(tokens.lengths.tolist())
    assert all(one.tolist() == list(range(len(one))) for one in positions)
    input_ids, mask = padded_inputs(tokens, pad=0)
    assert torch.equal(input_ids[mask.bool()], tokens.input_ids)
    assert mask.sum(1).tolist() == tokens.lengths.tolist()


def groups_by_hand(lengths, max_tokens):
    """Ascending lengths in groups: a sentence too long for the group, or one too many, begins another."""
    groups = []
    for length in lengths:
        if groups:
            is_like = length <= LENGTH_RATIO * groups[-1][0] + 2
            if is_like and (max_tokens is None or sum(groups[-1]) + length <= max_tokens):
                groups[-1].append(length)
                continue
        groups.append([length])
    return groups


@given(
    st.lists(st.lists(st.integers(5, 90), min_size=1, max_size=60), min_size=1, max_size=30),
    st.one_of(st.none(), st.integers(1, 200)),
    st.data(),
)
@settings(max_examples=150)
@pytest.mark.slow
def test_packing_equals_plain_loops(table, max_tokens, data):
    rows = data.draw(st.lists(st.integers(0, len(table) - 1), min_size=1, max_size=30))
    tokens = pack(TokenTable.of(table)[rows], max_group_tokens=max_tokens)
    by_length = sorted(range(len(rows)), key=lambda place: len(table[rows[place]]))  # stable, as packing is
    assert tokens.input_ids.tolist() == [token for place in by_length for token in table[rows[place]]]
    assert tokens.input_ids.dtype == torch.int64
    assert tokens.inverse_permutation.tolist() == [by_length.index(place) for place in range(len(rows))]
    lengths = [len(table[rows[place]]) for place in by_length]
    assert tokens.lengths.tolist() == lengths
    expected = groups_by_hand(lengths, max_tokens)
    assert len(tokens.groups) == len(expected)
    for group, its in zip(tokens.groups, expected, strict=True):
        assert (group.num_sentences, group.length, group.num_tokens) == (len(its), its[-1], sum(its))
        if its[0] == its[-1]:
            assert group.slots is None
            assert group.mask is None
            continue
        mask = [[place < length for place in range(its[-1])] for length in its]
        assert group.mask.tolist() == [[[row]] for row in mask]
        flat = [seen for row in mask for seen in row]
        assert group.slots.tolist() == [place for place, seen in enumerate(flat) if seen]


def packing_encoder(load, folder, pooling):
    encoder = load(folder, pooling=pooling, dropout=0.0)
    if not encoder._packs:
        pytest.skip(f"{encoder.backbone.config.model_type} is padded, as it always was")
    return encoder


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "first_last", "weighted", "last"])
@pytest.mark.sampled(2)
def test_packed_equals_padded(any_folder, load, pooling):
    encoder = packing_encoder(load, any_folder, pooling)
    assert encoder.backbone.config._attn_implementation == PACKED
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    directions = torch.randn(len(TEXTS), encoder.dim, generator=torch.Generator().manual_seed(0))
    directions /= directions.norm(dim=-1, keepdim=True)  # the size of gradients that a cosine sends back

    def run(*, packs):
        encoder._packs = packs
        encoder.zero_grad()
        embeddings = encoder(tokens)
        (embeddings * directions).sum(-1).mean().backward()  # a mean over rows, as losses are
        return embeddings.detach(), {name: one.grad.clone() for name, one in encoder.named_parameters()}

    packed, packed_gradients = run(packs=True)
    encoder.backbone.set_attn_implementation("sdpa")
    padded, padded_gradients = run(packs=False)
    torch.testing.assert_close(packed, padded, rtol=0, atol=1e-5)
    # In proportion to the whole: the weights here are large, and so are single entries of their gradients.
    length = torch.stack([one.norm() for one in padded_gradients.values()]).norm().item()
    for name, gradient in padded_gradients.items():
        difference = (packed_gradients[name] - gradient).abs().max().item()
        assert difference <= 1e-5 * length, name


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_gradients_of_an_unscaled_sum_in_double_precision(any_folder, load, pooling):
    """Where rounding cannot hide a mistake."""
    encoder = packing_encoder(load, any_folder, pooling).double()
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    direction = torch.randn(len(TEXTS), encoder.dim, generator=torch.Generator().manual_seed(0))
    gradients = []
    for packs in (True, False):
        encoder._packs = packs
        if not packs:
            encoder.backbone.set_attn_implementation("sdpa")
        encoder.zero_grad()
        (encoder(tokens) * direction).sum().backward()
        gradients.append(torch.cat([one.grad.flatten() for one in encoder.parameters()]))
    # Pooling is in float32 by design: its rounding is the same on both ways, up to the order of a sum.
    difference = (gradients[0] - gradients[1]).norm() / gradients[1].norm()
    assert difference < 1e-6


def test_dropout_differs_between_sentences_and_steps(bert_folder, load):
    encoder = load(bert_folder, dropout=0.5).train()
    tokens = encoder.collate(encoder.tokenize(["今天天气很好", "今天天气很好"]))
    first, second = encoder(tokens)
    assert not torch.equal(first, second), "two views of a sentence must see different dropout"
    assert not torch.equal(encoder(tokens)[0], first)


def test_layers_share_what_a_group_adds_to_its_scores(bert_folder, load):
    encoder = load(bert_folder, dropout=0.5).train()
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    padded = [group for group in tokens.groups if group.mask is not None]
    made = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is torch.ops.aten.masked_fill_.Scalar:
                made.append(args[1].shape)
            return function(*args, **(kwargs or {}))

    with Seen():
        encoder(tokens)
        encoder(tokens)
    assert encoder.backbone.config.num_hidden_layers > 1
    assert 0 < len(made) == len(padded)
    assert not tokens.to("cpu").groups[-1].biases


def test_the_backbone_alone_still_takes_padded_input(bert_folder, load):
    encoder = load(bert_folder).eval()
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    input_ids, mask = padded_inputs(tokens, pad=0)
    alone = encoder.backbone(input_ids=input_ids, attention_mask=mask).last_hidden_state[:, 0]
    encoder.pooling = "cls"
    torch.testing.assert_close(alone[tokens.inverse_permutation], encoder(tokens), rtol=0, atol=1e-5)


@given(
    st.lists(st.lists(st.integers(5, 90), min_size=1, max_size=20), min_size=1, max_size=30),
    st.integers(1, 60),
)
@settings(max_examples=60)
def test_pieces_are_the_whole_in_packed_order(token_lists, max_tokens):
    tokens = pack(token_lists, max_group_tokens=max_tokens)
    pieces = list(tokens.micro_batches(max_tokens))
    assert torch.equal(torch.cat([piece.input_ids for piece in pieces]), tokens.input_ids)
    assert torch.equal(torch.cat([piece.lengths for piece in pieces]), tokens.lengths)
    for piece in pieces:
        assert piece.input_ids.numel() <= max_tokens or len(piece) == 1
        assert sum(group.num_tokens for group in piece.groups) == piece.input_ids.numel()


def test_pieces_give_the_gradients_of_the_whole_batch(bert_folder, load):
    encoder = load(bert_folder, dropout=0.0).train()
    token_lists = encoder.tokenize(TEXTS)
    gradients = []
    for micro_batch_tokens in (None, 16):
        encoder.micro_batch_tokens = micro_batch_tokens
        encoder.zero_grad()
        embeddings = torch.nn.functional.normalize(encoder(encoder.collate(token_lists)), dim=-1)
        # coupled: every sentence is compared with every other
        torch.logsumexp((embeddings @ embeddings.T / 0.5).flatten(), 0).backward()
        gradients.append({name: one.grad.clone() for name, one in encoder.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=0, atol=1e-6)


def test_pieces_are_computed_again_with_the_same_dropout(bert_folder, load):
    encoder = load(bert_folder, dropout=0.3).train()
    encoder.micro_batch_tokens = 16
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    seen = []
    encoder.backbone.register_forward_hook(lambda *call: seen.append(call[2].last_hidden_state.detach()))
    encoder(tokens).sum().backward()
    first, again = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert len(first) == len(list(tokens.micro_batches(16))) > 1
    for state in first:
        assert any(state.shape == other.shape and torch.equal(state, other) for other in again)


@pytest.mark.parametrize("autocast", [False, True])
def test_a_filled_up_row_gives_what_an_exact_one_gives(bert_folder, load, monkeypatch, autocast):
    encoder = load(bert_folder, dropout=0.0).train()
    tokens = encoder.collate(
        encoder.tokenize([text * (1 + place % 3) for place, text in enumerate(TEXTS * 4)])
    )
    assert len(tokens.input_ids) > 512
    assert len(tokens.input_ids) % 64
    widths, outcomes = [], []
    encoder.backbone.register_forward_hook(lambda *call: widths.append(call[2].last_hidden_state.shape[1]))
    for start in (512, 10**9):
        monkeypatch.setattr("juzhen.encoders.forward.FILL_FROM", start)
        encoder.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            embeddings = torch.nn.functional.normalize(encoder(tokens), dim=-1)
        (embeddings[::2] * embeddings[1::2]).sum(-1).mean().backward()
        gradients = torch.cat([one.grad.flatten() for one in encoder.parameters()])
        outcomes.append((embeddings.detach(), gradients))
    assert widths == [-(-len(tokens.input_ids) // 64) * 64, len(tokens.input_ids)]
    tolerance = 1e-2 if autocast else 1e-5
    torch.testing.assert_close(outcomes[0][0], outcomes[1][0], rtol=0, atol=tolerance)
    torch.testing.assert_close(outcomes[0][1], outcomes[1][1], rtol=0, atol=tolerance)
