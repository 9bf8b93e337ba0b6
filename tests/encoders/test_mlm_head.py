"""The head on hidden tokens alone gives what transformers' whole model gives at these places."""

import shutil

import pytest
import torch
from transformers import AutoModelForMaskedLM

from juzhen.encoders import save_encoder
from juzhen.encoders.masking import MaskedTokenHead

TEXTS = ["今天天气很好吗", "我你他们是的在不", "好"]


@pytest.fixture
def with_head(any_folder, tmp_path, load):
    """A folder whose weights hold a head, and its encoder."""
    folder = tmp_path / "with_head"
    shutil.copytree(any_folder, folder)
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_pretrained(any_folder)
    for name, parameter in model.named_parameters():
        if "bias" in name:  # new heads have none to speak of, and it would not show if they were lost
            torch.nn.init.normal_(parameter)
    model.save_pretrained(folder)
    return model.eval(), load(folder, dropout=0.0).eval()


def test_logits_are_those_of_the_whole_model(with_head):
    whole, encoder = with_head
    head = MaskedTokenHead(encoder.backbone).eval()
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    chosen = torch.arange(0, len(tokens.input_ids), 3)
    with torch.no_grad():
        found = head(encoder.token_states(tokens)[chosen])
        expected = []
        for place in tokens.inverse_permutation.argsort().tolist():
            ids = encoder.tokenizer(TEXTS[place], return_tensors="pt")["input_ids"]
            expected.append(whole(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0])
    assert torch.allclose(found, torch.cat(expected)[chosen], atol=1e-5)
    assert found.std() > 0.1


def test_the_output_matrix_is_the_embedding_table_and_both_learn(with_head):
    _, encoder = with_head
    head = MaskedTokenHead(encoder.backbone)
    table = encoder.backbone.get_input_embeddings().weight
    assert head.model.get_output_embeddings().weight is table
    together = [*encoder.parameters(), *head.parameters()]
    own = {id(one) for one in together} - {id(one) for one in encoder.parameters()}
    transformer = sum(one.numel() for one in encoder.parameters())
    # No second transformer hides in the head.
    assert sum(one.numel() for one in together if id(one) in own) < transformer
    head(encoder.token_states(encoder.collate(encoder.tokenize(TEXTS)))).logsumexp(-1).sum().backward()
    assert all(one.grad is not None for one in together if id(one) in own)
    assert table.grad.abs().sum() > 0


def test_pieces_give_the_same_states(with_head):
    _, encoder = with_head
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    whole = encoder.token_states(tokens)
    encoder.micro_batch_tokens = 6
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    assert torch.allclose(encoder.token_states(tokens), whole, atol=1e-5)
    states, embeddings = encoder.states_and_embeddings(tokens)
    assert torch.allclose(states, whole, atol=1e-5)
    assert torch.allclose(embeddings, encoder(tokens), atol=1e-5)


def test_a_saved_encoder_has_no_head_and_gets_a_new_one(with_head, tmp_path, load):
    _, encoder = with_head
    save_encoder(encoder, tmp_path / "saved", card={"name": "saved"})
    again = load(tmp_path / "saved", dropout=0.0)
    torch.manual_seed(1)
    head = MaskedTokenHead(again.backbone)
    tokens = again.collate(again.tokenize(TEXTS))
    assert torch.isfinite(head(again.token_states(tokens))).all()
