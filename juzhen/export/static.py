"""A table of tokens in the place of a transformer: the method of model2vec, and its files.

Every token of the vocabulary is encoded alone; the vectors are turned to their principal components, and weighted by
how rare a token is (SIF: Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", eq. 4).
A text is then the mean of its tokens, https://github.com/MinishLab/model2vec. Its package distils with older versions
of transformers alone; its files are read by it, and by sentence-transformers as a StaticEmbedding.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors.numpy import save_file
from sklearn.decomposition import PCA
from tokenizers import Tokenizer

from juzhen.core.atomic_write import write_json, write_text
from juzhen.core.columns import require_finite
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.special_tokens import special_around
from juzhen.encoders.token_table import TokenTable

DIM = 256

RARITY = 1e-4
"""SIF's a: a token of probability p has the weight a / (a + p)."""

TOKENS = 16_384
"""Tokens of the vocabulary that are encoded at a time."""


def write_static(encoder: SentenceEncoder, folder: Path, *, dim: int | None) -> None:
    """Fills an empty folder.

    dim  numbers of an embedding; None: 256, or as many as the encoder has
    """
    tokenizer = Tokenizer.from_str(encoder.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    table = token_vectors(encoder, tokenizer.get_vocab_size(), DIM if dim is None else dim)
    save_file({"embeddings": table}, folder / "model.safetensors")
    write_text(folder / "tokenizer.json", tokenizer.to_str(), in_own_folder=True)
    settings = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "apply_pca": table.shape[1],
        "sif_coefficient": RARITY,
        "hidden_dim": table.shape[1],
        "seq_length": 1_000_000,
        "max_length": None,
        "normalize": True,
        "embedding_dtype": str(table.dtype),
    }
    write_json(folder / "config.json", settings, indent=2, in_own_folder=True)
    modules = [
        {"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    write_json(folder / "modules.json", modules, indent=2, in_own_folder=True)
    (folder / "1_Normalize").mkdir()
    write_json(folder / "1_Normalize" / "config.json", {}, in_own_folder=True)


def token_vectors(encoder: SentenceEncoder, size: int, dim: int) -> Float[np.ndarray, "tokens dim"]:
    """A weighted vector for every token; 0 of special ones, which say nothing of a text."""
    ids = encoder.tokenizer("a")["input_ids"]
    before, after = special_around(encoder.tokenizer)
    around = ids[:before], ids[len(ids) - after :]
    special = [number for number in encoder.tokenizer.all_special_ids if number < size]
    vectors = np.empty((size, encoder.dim), dtype=np.float32)
    for start in range(0, size, TOKENS):
        lists = [[*around[0], number, *around[1]] for number in range(start, min(start + TOKENS, size))]
        tokens = encoder.collate(TokenTable.of(lists))
        tokens.unpooled = 0
        vectors[start : start + len(lists)] = encoder.infer(tokens)
    require_finite(vectors, range(size), key="token")
    plain = np.setdiff1d(np.arange(size), special)
    components = min(dim, encoder.dim, len(plain))
    table = np.zeros((size, components), dtype=np.float32)
    table[plain] = PCA(components, svd_solver="full", random_state=0).fit_transform(vectors[plain])
    probability = _probabilities(encoder.tokenizer.backend_tokenizer, size)
    return table * (RARITY / (RARITY + probability))[:, None].astype(np.float32)


def _probabilities(tokenizer: Any, size: int) -> Float[np.ndarray, "tokens"]:
    """How frequent each token is: as a unigram tokenizer says, else by Zipf's law of its place in the vocabulary."""
    model = json.loads(tokenizer.to_str())["model"]
    if model["type"] == "Unigram":
        logarithms = np.array([score for _, score in model["vocab"]], dtype=np.float64)
        shares = np.zeros(size)
        shares[: len(logarithms)] = np.exp(np.minimum(logarithms, 0))
        return shares / shares.sum()
    shares = 1 / np.arange(1, size + 1)
    return shares / shares.sum()
