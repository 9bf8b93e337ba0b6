"""A digest of everything that decides an encoder's embeddings."""

import hashlib
import json

import torch

from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.token_table import tokenizer_digest

MATHS = "1"
"""To be raised when the same weights give other embeddings than before, beyond rounding."""

WITHOUT_EFFECT = ("_name_or_path", "transformers_version", "_attn_implementation", "architectures")
"""Entries of config.json that say where a model is from, or how fast it runs."""


def encoder_digest(encoder: PooledEncoder, variant: str) -> str:
    """32 hex digits over weights, architecture, tokenizer, prompt, pooling, normalization, lengths, templates, variant.

    variant  what else changes the numbers: the back end, a precision
    """
    digest = hashlib.blake2b(digest_size=16)
    architecture = {
        key: value
        for key, value in encoder.backbone.config.to_dict().items()
        if key not in WITHOUT_EFFECT and "dropout" not in key
    }
    activations = [projection.activation_name for projection in encoder.projections]
    settings = [
        MATHS,
        variant,
        encoder.pooling,
        encoder.normalize,
        encoder.max_length,
        activations,
        architecture,
    ]
    if encoder.prompts is not None:
        settings.append(encoder.prompts.as_dict())
    if encoder.prompt:
        settings.append([encoder.prompt, encoder.unpooled])
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    digest.update(tokenizer_digest(encoder.tokenizer))
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
