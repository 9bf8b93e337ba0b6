"""Disk cache of embeddings: the same weights encode the same sentence once over all runs.

One folder per encoder and backend is named by a digest of everything that determines the embeddings. It holds segments
with digests of texts and their embeddings.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from juzhen.core.array_cache import FILE, ArrayCache
from juzhen.core.columns import require_finite, sound_rows
from juzhen.encoders.pooled_encoder import SIZES, PooledEncoder
from juzhen.encoders.tokens import tokenizer_digest

DIGEST_BYTES = 16

FULL, HALF = "<f4", "<f2"
"""numpy types of cached numbers."""

SEGMENT_BYTES = 64 * 2**20
"""More rows than fit in this go to several segments."""

MOST_SMALL = 32
"""Small segments, of at most SMALL_ROWS rows, are merged when there are more than this."""
SMALL_ROWS = 4096

MAX_BYTES = 64 * 2**30

SEGMENT = FILE
"""Pattern of the name of a segment's file."""

MATHS = "1"
"""To be raised when the same weights give other embeddings than before, beyond rounding."""

WITHOUT_EFFECT = ("_name_or_path", "transformers_version", "_attn_implementation", "architectures", SIZES)
"""Keys of config.json that do not change the numbers, such as the source or the speed of a model."""


class EmbeddingCache:
    """Disk cache of embeddings for `encode(texts, cache=…)`, below `<folder>/embeddings/`.

    Above 64 GiB, the least recently used embeddings are deleted.

    Args:
        folder: Folder of the cache.
    """

    def __init__(self, folder: str | Path) -> None:
        self.arrays = ArrayCache(Path(folder) / "embeddings", holds="embeddings", max_bytes=MAX_BYTES)
        self.folder = self.arrays.folder

    def partition(self, encoder: PooledEncoder, variant: str, *, dtype: str = FULL) -> "CachePartition":
        """Return the partition of the current weights of an encoder.

        Args:
            encoder: The encoder.
            variant: Backend and settings that change the vectors.
            dtype: FULL (float32) or HALF (float16).

        Returns:
            The partition.
        """
        name = variant if dtype == FULL else f"{variant} {dtype}"
        return CachePartition(self.arrays, encoder_digest(encoder, name), dim=encoder.dim, dtype=dtype)


class CachePartition:
    """Embeddings of one encoder. If the disk is not writable, the work continues without it.

    Args:
        arrays: Cache of arrays on the disk.
        name: Digest of the encoder.
        dim: Dimensions of an embedding.
        dtype: FULL (float32) or HALF (float16).
    """

    def __init__(self, arrays: ArrayCache, name: str, *, dim: int, dtype: str = FULL) -> None:
        self._arrays = arrays
        self.name = name
        self.dim = dim
        self._dtype = dtype
        self._segments: dict[str, Mapping[str, np.ndarray]] = {
            key: stored for key in arrays.keys(name) if (stored := arrays.read(key)) is not None
        }

    def fill(self, texts: Sequence[str], embeddings: Float[np.ndarray, "sentences dim"]) -> np.ndarray:
        """Copy cached embeddings into their rows.

        Args:
            texts: One for each row.
            embeddings: Filled in place.

        Returns:
            Rising numbers of the rows without a cached embedding, int64. Cached NaN and infinity count as missing.
        """
        stored = self.find(texts)
        rows = np.flatnonzero(stored.places >= 0)
        embeddings[rows] = found = stored[rows]
        return np.setdiff1d(np.arange(len(texts)), rows[sound_rows(found)], assume_unique=True)

    def find(self, texts: Iterable[str]) -> "Vectors":
        """Location of the embeddings of texts. Only their digests are read.

        Args:
            texts: One for each row of the result.

        Returns:
            The stored embeddings of the texts. Unknown texts are marked.
        """
        wanted = np.frombuffer(b"".join(map(_digest, texts)), dtype="<u8").reshape(-1, 2)
        heads, owners = np.unique(wanted[:, 0], return_inverse=True)
        places, tails = np.full(len(heads), -1), np.zeros(len(heads), dtype=np.uint64)
        first = 0
        for segment in self._segments.values() if len(heads) else ():
            stored = np.ascontiguousarray(segment["texts"]).view("<u8")
            nearest = np.minimum(np.searchsorted(heads, stored[:, 0]), len(heads) - 1)
            hits = np.flatnonzero(heads[nearest] == stored[:, 0])
            places[nearest[hits]], tails[nearest[hits]] = first + hits, stored[hits, 1]
            first += len(stored)
        rows = np.where(tails[owners] == wanted[:, 1], places[owners], -1)
        return Vectors(list(self._segments.values()), rows, dim=self.dim)

    def add(
        self, texts: Sequence[str], embeddings: Float[np.ndarray, "sentences dim"], *, needed: bool = False
    ) -> None:
        """Add embeddings for later readers of this partition.

        Args:
            texts: The texts.
            embeddings: Their embeddings.
            needed: Keep them in the memory of this process if the disk is not writable.

        Raises:
            UserError: A value is NaN or infinite.
        """
        require_finite(embeddings, texts)
        digests = np.frombuffer(b"".join(map(_digest, texts)), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
        size = max(SEGMENT_BYTES // (DIGEST_BYTES + self.dim * np.dtype(self._dtype).itemsize), 1)
        for start in range(0, len(texts), size):
            rows = slice(start, start + size)
            segment = {"texts": digests[rows], "vectors": embeddings[rows].astype(self._dtype, copy=False)}
            if not self._write(segment, needed):
                return
        self._merge_small()

    def _write(self, segment: Mapping[str, np.ndarray], needed: bool) -> bool:
        """Write a new segment, and return whether its embeddings can be found from now on."""
        key = f"{self.name}/{_new_digest(segment['texts'].tobytes()).hexdigest()}"
        stored = self._arrays.write(key, segment) or (segment if needed else None)
        if stored is not None:
            self._segments[key] = stored
        return stored is not None

    def _merge_small(self) -> None:
        """Merge the many small segments that single sentences create."""
        small = {
            key: segment for key, segment in self._segments.items() if len(segment["texts"]) <= SMALL_ROWS
        }
        if len(small) <= MOST_SMALL:
            return
        texts, vectors = (
            np.concatenate([segment[name] for segment in small.values()]) for name in ("texts", "vectors")
        )
        _, first = np.unique(texts, axis=0, return_index=True)
        if self._write({"texts": texts[first], "vectors": vectors[first]}, False):
            for key in small:
                self._segments.pop(key)
                self._arrays.remove(key)


class Vectors:
    """Embeddings of texts on disk. Only the requested rows are read.

    Attributes:
        segments: Segments of the file. Each has rows of vectors.
        places: Row of each text among all segments. −1 if it is missing.
        dim: Dimensions of a vector.
    """

    def __init__(
        self, segments: Sequence[Mapping[str, np.ndarray]], places: Int[np.ndarray, "texts"], *, dim: int
    ) -> None:
        self.places = places
        self.dim = dim
        self._segments = segments
        self._firsts = np.cumsum([0, *(len(segment["texts"]) for segment in segments)])[:-1]

    def __getitem__(self, texts: Int[np.ndarray, "some"]) -> Float[np.ndarray, "some dim"]:
        """Embeddings of the texts with these numbers, all of them there, in float32."""
        positions = self.places[texts]
        if len(self._segments) == 1:
            return np.asarray(self._segments[0]["vectors"][positions], dtype=np.float32)
        owners = np.searchsorted(self._firsts, positions, side="right") - 1
        vectors = np.empty((len(positions), self.dim), dtype=np.float32)
        for owner in np.unique(owners):
            rows = np.flatnonzero(owners == owner)
            vectors[rows] = self._segments[owner]["vectors"][positions[rows] - self._firsts[owner]]
        return vectors


_KNOWN: ContextVar[dict[tuple[Any, ...], tuple[str, PooledEncoder]] | None] = ContextVar(
    "known", default=None
)


@contextmanager
def unchanged_weights() -> Iterator[None]:
    """No encoder changes its weights or its tokenizer meanwhile: each digest is computed once.

    Only the caller can promise that. Neither the address nor the version of a tensor tells whether its numbers are
    those of before.
    """
    token = _KNOWN.set({})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def encoder_digest(encoder: PooledEncoder, variant: str) -> str:
    """32 hex digits over weights, architecture, tokenizer, prompt, pooling, normalization, lengths, templates, variant.

    Args:
        encoder: The encoder.
        variant: Anything else that changes the numbers, such as a backend or a precision.

    Returns:
        Lowercase hexadecimal digits.
    """
    digest = _new_digest()
    architecture = {
        key: value
        for key, value in encoder.backbone.config.to_dict().items()
        if key not in WITHOUT_EFFECT and "dropout" not in key
    }
    activations = [
        f"{layer.activation_name}{' + input' * getattr(layer, 'adds_input', False)}"
        for layer in encoder.output_layers
    ]
    settings = [
        MATHS,
        variant,
        encoder.pooling,
        encoder.normalize,
        encoder.max_length,
        activations,
        architecture,
    ]
    if encoder.takes_segments and not (encoder.gives_segments or encoder._packs):
        settings.append("no segments")
    if encoder.templates is not None:
        settings.append(encoder.templates.as_dict())
    if encoder.prompt:
        settings.append([encoder.prompt, encoder.unpooled])
    if (overlap := getattr(encoder, "chunk_overlap", None)) is not None:
        settings.append(["chunks", overlap])
    described = json.dumps(settings, sort_keys=True, default=str)
    state, known = sorted(encoder.state_dict().items()), _KNOWN.get()
    tensors = tuple((name, tensor.data_ptr(), tensor.dtype, tensor.shape) for name, tensor in state)
    key = described, id(encoder.tokenizer), tensors
    if known is not None and key in known:
        return known[key][0]
    digest.update(described.encode())
    digest.update(tokenizer_digest(encoder.tokenizer))
    for name, tensor in state:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    if known is not None:
        known[key] = digest.hexdigest(), encoder  # kept alive, so that no other one gets its addresses
    return digest.hexdigest()


def _new_digest(content: bytes = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
