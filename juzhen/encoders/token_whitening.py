"""Whitening for an encoder of token embeddings alone: directions that all texts share come to count for less.

Sentence embeddings of a pretrained encoder lie in a narrow cone; whitening them is a cheap cure (Su et al. 2021,
https://arxiv.org/abs/2103.15316). Without layers an embedding is a mean over tokens, so that the linear map can be put
into the table of tokens itself: nothing has to be computed later, and transformers reads the folder as it is.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import helmert

from juzhen.core.errors import UserError
from juzhen.encoders.grow import GROWS
from juzhen.encoders.projection import OutputNorm
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.special_tokens import special_around
from juzhen.encoders.transformer import token_embeddings

FLOOR = 1e-3
"""Least variance of a direction that is divided by, as a share of the largest."""

FILLED = 0.8
"""Length of the longest token's embedding, as a share of what a normalized row can hold."""

SPARE = 3
"""Dimensions that a table gives up: two say how long a row is, one is the mean that the normalization takes off."""


def token_frequencies(encoder: SentenceEncoder, texts: Sequence[str]) -> Float[np.ndarray, "tokens"]:
    """How often each token occurs in the texts, as shares; special tokens are not counted."""
    counts = np.zeros(token_embeddings(encoder.backbone).num_embeddings)
    for ids in encoder.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]:
        np.add.at(counts, np.asarray(ids, dtype=np.int64), 1)
    if not counts.any():
        raise UserError("the texts have no token at all; give texts of the language that the encoder reads")
    return counts / counts.sum()


def whiten_tokens(
    encoder: SentenceEncoder,
    frequencies: Float[np.ndarray, "tokens"],
    *,
    power: float,
    special: float,
) -> SentenceEncoder:
    """A copy whose tokens, weighted by how often they occur, vary less unequally over directions.

    frequencies  shares of the tokens in text, as `token_frequencies` gives them
    power        0: nothing is changed but for what is said of positions · 1: all directions vary alike, as in the paper
    special      [CLS] and [SEP] add together what so many mean tokens would; then short sentences are a little alike

    Positions and segments no longer count. Embeddings keep their number of dimensions, SPARE of which are used up.
    Raises UserError for an encoder with layers, of another architecture than BERT, or of another pooling than mean.
    """
    _require_bag(encoder)
    if not 0 <= power <= 1 or special < 0:
        raise UserError(
            f"power {power}, special {special}: expected a power of 0 to 1, and 0 or more special tokens"
        )
    vectors = _vectors(encoder)
    vectors = vectors @ _kernel(vectors, frequencies, power=power)
    around = _special_tokens(encoder)
    vectors[around] = special / max(len(around), 1) * (frequencies @ vectors)
    return _with_table(encoder, _rows(vectors))


def _require_bag(encoder: SentenceEncoder) -> None:
    config = encoder.backbone.config
    if encoder.score_head is not None:
        raise UserError(
            "whitening of tokens changes the directions of embeddings, which the bilinear score of this encoder was "
            "learnt for; whiten an encoder without one"
        )
    if encoder.prompt:
        raise UserError(
            f"whitening counts the tokens of texts, and this encoder puts {encoder.prompt!r} before each; set "
            "default_prompt_name to null in its config_sentence_transformers.json first"
        )
    if any(one.kind == OutputNorm.kind for one in encoder.projections):
        raise UserError(
            "whitening of tokens is a linear map of embeddings, and this encoder has a LayerNorm after them; "
            "whiten it before, and add the LayerNorm then (backbone.layer_norm=true)"
        )
    if config.num_hidden_layers or config.model_type not in GROWS or encoder.pooling != "mean":
        raise UserError(
            f"whitening of tokens needs an encoder of token embeddings alone with mean pooling; this one is a "
            f"{config.model_type} with {config.num_hidden_layers} layers and pooling {encoder.pooling}. "
            "Train one with backbone.layers=0 (experiment=pretrain/mini_zh_tokens)"
        )


@torch.no_grad()
def _vectors(encoder: SentenceEncoder) -> Float[np.ndarray, "tokens dim"]:
    """What each token adds to a sentence, positions apart."""
    parts: Any = encoder.backbone.embeddings
    rows = parts.word_embeddings.weight + parts.token_type_embeddings.weight[0]
    return parts.LayerNorm(rows).double().numpy()


def _kernel(
    vectors: Float[np.ndarray, "tokens dim"], frequencies: Float[np.ndarray, "tokens"], *, power: float
) -> Float[np.ndarray, "dim fewer"]:
    """The linear map: principal directions of the tokens, each divided by its spread to the power; rows sum to 0."""
    centred = vectors - frequencies @ vectors
    variances, directions = np.linalg.eigh((centred * frequencies[:, None]).T @ centred)
    variances, directions = variances[: SPARE - 1 : -1], directions[:, : SPARE - 1 : -1]
    spread = np.sqrt(np.maximum(variances, FLOOR * variances[0]))
    return directions / spread**power @ helmert(len(variances) + 1)


def _rows(vectors: Float[np.ndarray, "tokens fewer"]) -> Float[np.ndarray, "tokens dim"]:
    """Rows that a normalization with weights (0, 0, 1, 1, …) turns into the vectors, all by the same factor.

    A normalized row has mean 0 and length √dim. The vectors sum to 0; two more entries, r and −r, fill up the length.
    """
    dim = vectors.shape[1] + 2
    scaled = vectors * (FILLED * np.sqrt(dim) / np.linalg.norm(vectors, axis=1).max())
    rest = np.sqrt((dim - (scaled**2).sum(1)) / 2)
    return np.concatenate([rest[:, None], -rest[:, None], scaled], axis=1)


def _special_tokens(encoder: SentenceEncoder) -> list[int]:
    """Numbers of the tokens that the tokenizer puts around every text."""
    ids = encoder.tokenizer("a")["input_ids"]
    before, after = special_around(encoder.tokenizer)
    return ids[:before] + ids[len(ids) - after :]


@torch.no_grad()
def _with_table(encoder: SentenceEncoder, rows: Float[np.ndarray, "tokens dim"]) -> SentenceEncoder:
    changed = copy.deepcopy(encoder)
    parts: Any = changed.backbone.embeddings
    parts.word_embeddings.weight.copy_(torch.from_numpy(rows))
    for table in (parts.position_embeddings, parts.token_type_embeddings):
        table.weight.zero_()
    parts.LayerNorm.weight.fill_(1)
    parts.LayerNorm.weight[:2] = 0
    parts.LayerNorm.bias.zero_()
    return changed
