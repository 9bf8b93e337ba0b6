"""Embeddings on disk: the same weights encode the same sentence once, over all runs.

One folder per encoder and back end, named by a digest of all that decides the embeddings. In it segments: files of
(digest of the text, embedding) rows, named by a digest of their own bytes. A segment is written whole, renamed into
place and never changed, so processes need no lock: two that write the same rows cost space and nothing else.
"""

import hashlib
import io
import json
import re
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from juzhen.core.errors import UserError
from juzhen.core.opened import open_input, require_file
from juzhen.core.owned import own_folder
from juzhen.core.whole import remove_file, whole_file
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.special_tokens import tokenizer_digest

DIGEST_BYTES = 16

FULL, HALF = "<f4", "<f2"
"""Numbers as they are kept: all digits, or half of the space; names of numpy's."""

SEGMENT_BYTES = 64 * 2**20
"""More rows than fit in this go to several segments."""

MOST_SMALL = 32
"""Small segments, of at most SMALL_ROWS rows, are merged when there are more than this."""
SMALL_ROWS = 4096


SEGMENT = r"[0-9a-f]{32}\.npy"
"""Pattern of the name of a segment: a digest of its bytes."""

MATHS = "1"
"""To be raised when the same weights give other embeddings than before, beyond rounding."""

WITHOUT_EFFECT = ("_name_or_path", "transformers_version", "_attn_implementation", "architectures")
"""Entries of config.json that say where a model is from, or how fast it runs."""


class EmbeddingCache:
    """Embeddings below `<folder>/embeddings/`. Nothing is ever removed: delete the folder to have the space back."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser() / "embeddings"

    def shelf(self, encoder: PooledEncoder, variant: str, *, dtype: str = FULL) -> "Shelf":
        """What is kept for the weights that `encoder` has now; `variant` is the back end and all else that counts.

        dtype  of the numbers on disk: FULL or HALF
        """
        name = variant if dtype == FULL else f"{variant} {dtype}"
        return Shelf(self.folder / encoder_digest(encoder, name), dim=encoder.dim, dtype=dtype)


class Shelf:
    """Embeddings of one encoder.

    A segment that cannot be read is named in a warning, removed, and its sentences are encoded again. Where
    nothing can be written, a warning says so and the work goes on.
    """

    def __init__(self, folder: Path, *, dim: int, dtype: str = FULL) -> None:
        self.folder = folder
        self._row = np.dtype([("text", f"V{DIGEST_BYTES}"), ("embedding", dtype, (dim,))])
        self._segments = self._read_segments()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def fill(self, texts: Sequence[str], embeddings: Float[np.ndarray, "sentences dim"]) -> np.ndarray:
        """Writes the embeddings that are known into their rows; gives the row numbers that are not, in order."""
        known = self.find(texts)
        is_there = known.places >= 0
        embeddings[is_there] = known[np.flatnonzero(is_there)]
        return np.flatnonzero(~is_there)

    def find(self, texts: Iterable[str]) -> "Found":
        """Where the embeddings of the texts lie; nothing is read but their names."""
        numbers: dict[bytes, int] = {}
        first = 0
        for rows in self._segments.values():
            numbers |= {text: number for number, text in enumerate(rows["text"].tolist(), start=first)}
            first += len(rows)
        places = np.fromiter((numbers.get(_digest(text), -1) for text in texts), dtype=np.int64)
        return Found(self._segments, places, dim=self._row["embedding"].shape[0])

    def add(
        self, texts: Sequence[str], embeddings: Float[np.ndarray, "sentences dim"], *, needed: bool = False
    ) -> None:
        """Keeps the embeddings of the texts for all who open this shelf later.

        needed  where that is not possible they are kept for this process, in a folder for what is temporary
        """
        rows = np.empty(len(texts), dtype=self._row)
        rows["text"] = np.frombuffer(b"".join(_digest(text) for text in texts), dtype=f"V{DIGEST_BYTES}")
        rows["embedding"] = embeddings
        size = max(SEGMENT_BYTES // self._row.itemsize, 1)
        try:
            for start in range(0, len(rows), size):
                self._write(rows[start : start + size])
            self._merge_small()
        except (OSError, UserError) as error:
            reason = getattr(error, "strerror", None) or error
            warnings.warn(
                f"{self.folder}: embeddings cannot be kept here ({reason}); the work goes on without",
                stacklevel=2,
            )
            if needed and self._scratch is None:
                self._scratch = tempfile.TemporaryDirectory(prefix="juzhen-", ignore_cleanup_errors=True)
                self.folder = Path(self._scratch.name) / "embeddings" / self.folder.name
                self.add(texts, embeddings, needed=True)

    def _read_segments(self) -> dict[Path, np.ndarray]:
        segments: dict[Path, np.ndarray] = {}
        if self.folder.is_symlink() or self.folder.parent.is_symlink():  # to a folder of somebody else
            return segments
        for path in sorted(one for one in self.folder.glob("*.npy") if re.fullmatch(SEGMENT, one.name)):
            try:
                segments[path] = self._read(path)
            except FileNotFoundError:
                continue  # another process has merged it
            except (OSError, ValueError, EOFError) as error:
                warnings.warn(
                    f"{path}: no segment of embeddings that can be used ({error}); its sentences are encoded again",
                    stacklevel=2,
                )
                with suppress(OSError):
                    remove_file(path, earlier=SEGMENT)
        return segments

    def _read(self, path: Path) -> np.ndarray:
        """The rows of a segment, mapped. Raises OSError, ValueError or EOFError for anything but a whole one."""
        with open_input(path) as file:
            if hashlib.file_digest(file, _new_digest).hexdigest() != path.stem:
                raise ValueError("its bytes are not those that were written")
        rows = np.load(require_file(path), mmap_mode="r", allow_pickle=False)
        if rows.dtype != self._row or rows.ndim != 1:
            raise ValueError("rows of another form")
        return rows

    def _write(self, rows: np.ndarray) -> None:
        """A new segment, down to the disk. Raises OSError where that is not possible."""
        buffer = io.BytesIO()
        np.save(buffer, rows, allow_pickle=False)
        content = buffer.getbuffer()
        own_folder(self.folder.parent, earlier="[0-9a-f]+")
        own_folder(self.folder, earlier=SEGMENT)
        path = self.folder / f"{_new_digest(content).hexdigest()}.npy"
        with whole_file(path, "wb", in_own_folder=True) as file:
            file.write(content)
        self._segments[path] = np.load(require_file(path), mmap_mode="r", allow_pickle=False)

    def _merge_small(self) -> None:
        """One segment in place of many small ones, which single sentences leave behind."""
        small = {path: rows for path, rows in self._segments.items() if len(rows) <= SMALL_ROWS}
        if len(small) <= MOST_SMALL:
            return
        rows = np.concatenate(list(small.values()))
        _, first = np.unique(
            rows["text"].copy().view(np.uint64).reshape(len(rows), -1), axis=0, return_index=True
        )
        self._write(rows[first])
        for path in small:
            self._segments.pop(path)
            remove_file(path)


class Found:
    """Embeddings of a list of texts where they lie: what is asked for is read, and nothing else.

    places  of each text, the number of its row among those of all segments; −1: it is not there

    Another process gets the paths and maps the files itself.
    """

    def __init__(
        self, segments: Mapping[Path, np.ndarray], places: Int[np.ndarray, "texts"], *, dim: int
    ) -> None:
        self.places = places
        self.dim = dim
        self._paths = list(segments)
        self._take(segments.values())

    def __getitem__(self, texts: Int[np.ndarray, "some"]) -> Float[np.ndarray, "some dim"]:
        """Embeddings of the texts with these numbers, all of them there, in float32."""
        places = self.places[texts]
        owners = np.searchsorted(self._firsts, places, side="right") - 1
        found = np.empty((len(places), self.dim), dtype=np.float32)
        for owner in np.unique(owners):
            rows = np.flatnonzero(owners == owner)
            found[rows] = self._rows[owner][places[rows] - self._firsts[owner]]
        return found

    def _take(self, segments: Iterable[np.ndarray]) -> None:
        # Without the class of a mapped array, whose slices cost several times those of an array.
        self._rows = [np.asarray(rows)["embedding"] for rows in segments]
        self._firsts = np.cumsum([0, *map(len, self._rows)])[:-1]

    def __getstate__(self) -> dict[str, object]:
        return {"places": self.places, "dim": self.dim, "_paths": self._paths}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._take(np.load(require_file(path), mmap_mode="r") for path in self._paths)


def encoder_digest(encoder: PooledEncoder, variant: str) -> str:
    """32 hex digits over weights, architecture, tokenizer, prompt, pooling, normalization, lengths, templates, variant.

    variant  what else changes the numbers: the back end, a precision
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
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    digest.update(tokenizer_digest(encoder.tokenizer))
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _new_digest(content: bytes | memoryview = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES)


def _digest(text: str) -> bytes:
    return _new_digest(text.encode("utf-8", "surrogatepass")).digest()
