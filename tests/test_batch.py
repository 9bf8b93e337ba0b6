"""A batch on its way to a GPU."""

import numpy as np
import torch
from torch.utils.data._utils.pin_memory import pin_memory

from juzhen.core.batch import Batch
from juzhen.core.examples import Kind
from juzhen.encoders.forward import pack
from juzhen.encoders.template_encoder import TemplateTokens


def batch(tokens) -> Batch:
    rows = torch.arange(2)
    return Batch("demo", Kind.SCORED_PAIR, tokens, rows, {"text_a": rows, "text_b": rows}, rows)


def test_a_loader_that_pins_pins_every_tensor(monkeypatch):
    """A CPU build of torch cannot pin: here a pinned tensor is one plus 1."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 1)
    tokens = TemplateTokens.of(pack([[5, 6, 7], [8, 9]]), torch.zeros(2, dtype=torch.long))
    pinned = pin_memory(batch(tokens))
    assert pinned.task == "demo"
    assert pinned.columns["text_b"].tolist() == pinned.rows.tolist() == [1, 2]
    assert pinned.tokens.views.tolist() == [1, 1]
    assert pinned.tokens.input_ids.tolist() == [9, 10, 6, 7, 8]
    slots = [group.slots for group in tokens.groups if group.slots is not None]
    assert [group.slots.tolist() for group in pinned.tokens.groups] == [(one + 1).tolist() for one in slots]


def test_only_a_gpu_is_sent_to_without_waiting(monkeypatch):
    """MPS and others give wrong numbers then (https://github.com/pytorch/pytorch/issues/83015)."""
    asked = []
    monkeypatch.setattr(
        torch.Tensor, "to", lambda tensor, device, **options: asked.append((device, options)) or tensor
    )
    for device in ("cpu", "mps", "cuda"):
        batch(pack([[5, 6], [7, 8]])).to(device)
    assert dict(asked) == {"cpu": {}, "mps": {}, "cuda": {"non_blocking": True}}


def test_boundaries_are_those_of_the_sentences_and_stay_with_their_tokens():
    tokens = pack([[5, 6, 7], [8], [9, 9]])
    assert tokens.boundaries.tolist() == [0, 1, 3, 6]
    assert tokens.boundaries.dtype is torch.int32
    assert tokens.longest == 3
    pieces = list(tokens.micro_batches(3))
    assert [piece.boundaries.tolist() for piece in pieces] == [
        np.cumsum([0, *piece.lengths.tolist()]).tolist() for piece in pieces
    ]
