"""Where a new head over the vocabulary begins: at naming the tokens that are there, and few others."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

LENGTH, MOST = 16, 2**15
"""Tokens of a made-up text, and of all of them."""
RIDGE = 1e-3
INPUT, NAMED, SPREADS = 0.1, 4.0, 3.0


@torch.no_grad()
def name_what_is_there(encoder: Any, *, seed: int) -> bool:
    """Sets a new head of a `SparseEncoder` so that a token says itself; whether it is a head of the kind that can be.

    A drawn head says half of the vocabulary of any token, in weights that tell nothing. Heads of BERT and its kin are
    a layer, a normalization and the table of tokens: the layer becomes the ridge regression from states of texts of
    random tokens to the rows of their tokens in the table (small numbers, where GELU is near a line), and scale and
    bias are such that the token itself has the logit NAMED, and 0 lies SPREADS standard deviations above the others.
    """
    model = encoder.head.model
    table = model.get_output_embeddings()
    inner = [module for module in model.modules() if isinstance(module, nn.Linear) and module is not table]
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    if len(inner) != 1 or len(norms) != 1 or table.bias is None or norms[0].weight is None:
        return False
    layer, norm = inner[0], norms[0]
    states, numbers, is_said = _states(encoder, seed=seed)
    rows = table.weight - table.weight.mean(dim=0)
    targets = INPUT * rows.shape[1] ** 0.5 * nn.functional.normalize(rows, dim=1)[numbers]
    targets[~is_said] = 0
    mean = states.mean(dim=0)
    centred = (states - mean).double()
    square = centred.T @ centred
    square.diagonal().add_(RIDGE * square.diagonal().mean())
    weight = torch.linalg.solve(square, centred.T @ targets.double()).float().T
    layer.weight.copy_(weight)
    if layer.bias is not None:
        layer.bias.copy_(targets.mean(dim=0) - weight @ mean)
    norm.weight.fill_(1)
    table.bias.fill_(0)
    some = is_said.nonzero().squeeze(1)[:512]
    logits = encoder.head(states[some])
    zero = logits.mean() + SPREADS * logits.std()
    scale = NAMED / (logits.gather(1, numbers[some, None]).median() - zero).clamp(min=1e-3)
    norm.weight.fill_(scale)
    table.bias.fill_(-scale * zero)
    return True


def _states(encoder: Any, *, seed: int) -> tuple[Float[Tensor, "tokens dim"], Int[Tensor, "tokens"], Tensor]:
    """States of texts of random tokens, the numbers of these, and which of them are no special ones."""
    tokenizer, rng = encoder.tokenizer, np.random.default_rng(seed)
    ordinary = np.array(sorted({*tokenizer.get_vocab().values()} - {*tokenizer.all_special_ids}))
    drawn = np.resize(rng.permutation(ordinary), max(min(len(ordinary), MOST), LENGTH)).tolist()
    begin, end = (
        [number] if number is not None else []
        for number in (
            tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id,
            tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id,
        )
    )
    texts = [begin + drawn[start : start + LENGTH] + end for start in range(0, len(drawn), LENGTH)]
    was_training = encoder.training
    encoder.eval()
    states, numbers = [], []
    for start in range(0, len(texts), 64):
        tokens = encoder.collate(texts[start : start + 64])
        states.append(encoder.token_states(tokens).float())
        numbers.append(tokens.input_ids)
    encoder.train(was_training)
    found = torch.cat(numbers)
    return torch.cat(states), found, ~torch.isin(found, torch.tensor(tokenizer.all_special_ids))
