"""One encoder by every way that computes it: the same texts, and how far each way is from transformers alone."""

import copy
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from juzhen.backends import open_backend
from juzhen.backends.names import MOST_DIFFERENCE, BackendName
from juzhen.core.errors import UserError
from juzhen.core.opened import read_json
from juzhen.encoders.bundle import loads_elsewhere, write_encoder
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.pooling import unit
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.export.folder import finished
from juzhen.export.formats import SETTINGS, Format
from juzhen.export.opened import Modules, open_export
from juzhen.export.proof import reference
from juzhen.export.reasons import reason_of
from juzhen.export.remote import RemoteServer

Encode = Callable[[list[str]], np.ndarray]

ROUNDED = {
    BackendName.TORCH_BF16: "precision: products in bfloat16",
    BackendName.ONNX_INT8: "precision: products in 8 bits",
}
PADDED, PACKED, THEIRS = "torch-padded", "torch", "sentence-transformers"
WAYS = (PADDED, PACKED, *list(BackendName)[1:], THEIRS)


@dataclass(frozen=True)
class Way:
    """What one way gave.

    largest  largest difference of a number of a unit embedding, or of a score as a share of the largest; None: it is
             left out
    text     the first text that differs beyond rounding
    reason   why, where it is known; of a way that is left out, why it is
    """

    name: str
    largest: float | None
    differing: int = 0
    text: str | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare_ways(
    encoder: Any,
    texts: Sequence[str],
    *,
    beside: Sequence[str] = (),
    key: str | None = None,
    only: Collection[str] | None = None,
    on_way: Callable[[str], None] = lambda name: None,
) -> list[Way]:
    """Each way that is installed, compared with transformers, one text at a time.

    beside  further ways: folders of exports, addresses of servers
    key     for the servers among them
    only    the names of WAYS that are computed; None: all
    on_way  is told the name of each before it is computed

    Raises UserError for a family of encoders that has no such ways, and for what of `beside` is neither.
    """
    texts = list(texts)
    if isinstance(encoder, PairEncoder):
        return _compare_pairs(encoder, texts, beside, only, on_way)
    if not isinstance(encoder, SentenceEncoder) or encoder.templates is not None:
        raise UserError("parity compares encoders of texts without templates, and cross-encoders")
    encoder.eval()
    expected = reference(encoder, texts)
    with ExitStack() as stack:
        ways = [
            _compared(encoder, texts, expected, *way, on_way)
            for way in _ways(encoder, stack)
            if only is None or way[0] in only
        ]
        for address in beside:
            open_way, rounded = _beside(address, key), _rounded(address)
            ways.append(_compared(encoder, texts, expected, address, open_way, rounded, on_way))
    return ways


def _ways(encoder: SentenceEncoder, stack: ExitStack) -> Iterator[tuple[str, Callable[[], Encode], str]]:
    """Name, what opens the way, and the reason why it may differ beyond rounding."""
    yield PADDED, lambda: _padded(encoder), ""
    yield PACKED, lambda: _by_backend(encoder, BackendName.TORCH), ""
    for name in list(BackendName)[1:]:
        yield str(name), lambda name=name: _by_backend(encoder, name), ROUNDED.get(name, "")  # type: ignore[misc]
    yield THEIRS, lambda: _theirs(encoder, stack), ""


def _compared(
    encoder: SentenceEncoder,
    texts: list[str],
    expected: np.ndarray,
    name: str,
    open_way: Callable[[], Encode],
    rounded: str,
    on_way: Callable[[str], None],
) -> Way:
    on_way(name)
    try:
        encode = open_way()
        vectors = np.asarray(encode(texts), dtype=np.float32)
    except UserError as error:
        return Way(name, None, reason=str(error))
    size = min(vectors.shape[1], expected.shape[1])
    apart = np.abs(unit(vectors)[:, :size] - unit(expected[:, :size])).max(1)
    if vectors.shape[1] != expected.shape[1]:
        reason = f"dimensions: {vectors.shape[1]} numbers, the encoder gives {expected.shape[1]}"
        return Way(name, float(apart.max()), len(texts), texts[0], reason)
    rows = np.flatnonzero(~(apart <= MOST_DIFFERENCE))
    largest = float(apart.max())
    if not len(rows):
        return Way(name, largest, reason=_length(encoder, texts[0], vectors[0]))
    row = int(rows[0])
    reason = reason_of(
        encoder, texts, row, unit(vectors[row : row + 1])[0], expected, encode, rounded=rounded
    )
    return Way(name, largest, len(rows), texts[row], reason)


def _length(encoder: SentenceEncoder, text: str, vector: np.ndarray) -> str:
    """A note where a way gives vectors of another length, which changes no cosine."""
    size, length = np.linalg.norm(vector), np.linalg.norm(encoder.encode(text, show_progress=False))
    same = abs(size - length) <= 1e-3 * length
    return (
        ""
        if same
        else f"normalisation: of length {size:.3g}, the encoder gives {length:.3g}; cosines are the same"
    )


def _padded(encoder: SentenceEncoder) -> Encode:
    from juzhen.backends.padded import PaddedEncoder
    from juzhen.encoders.packing import padded_inputs

    module = PaddedEncoder(copy.deepcopy(encoder)).eval()

    @torch.inference_mode()
    def encode(texts: list[str]) -> np.ndarray:
        parts = []
        for start in range(0, len(texts), 32):
            tokens = encoder.collate(encoder.tokenize(texts[start : start + 32]))
            ids, mask = padded_inputs(tokens, pad=encoder.pad)
            output = module(ids, mask)
            embeddings = output if isinstance(output, torch.Tensor) else output[0]
            parts.append(embeddings[tokens.inverse_permutation].float().cpu().numpy())
        return np.concatenate(parts)[:, : encoder.size_of()]

    return encode


def _by_backend(encoder: SentenceEncoder, name: BackendName) -> Encode:
    backend = open_backend(encoder, name)
    return lambda texts: encoder.encode(texts, backend=backend, show_progress=False)


def _theirs(encoder: SentenceEncoder, stack: ExitStack) -> Encode:
    _require_theirs()
    if not loads_elsewhere(encoder):
        raise UserError("it cannot compute this encoder")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    write_encoder(finished(encoder, None, Format.SENTENCE_TRANSFORMERS), folder, {})
    return Modules(folder).encode


def _require_theirs() -> None:
    if find_spec("sentence_transformers") is None:
        raise UserError("it is not installed: pip install sentence-transformers")


def _beside(address: str, key: str | None) -> Callable[[], Encode]:
    """What opens a further way. Raises UserError for what is no address and no export."""
    if address.startswith(("http://", "https://")):
        return lambda: RemoteServer(address, key).encode
    opened = open_export(address)
    return lambda: opened.encode


def _rounded(address: str) -> str:
    """Why an export rounds; "" where it should not, and of a server."""
    settings = Path(address, SETTINGS)
    is_rounded = settings.is_file() and Format(read_json(settings)["format"]).is_quantised
    return ROUNDED[BackendName.ONNX_INT8] if is_rounded else ""


def _compare_pairs(
    encoder: PairEncoder,
    texts: list[str],
    beside: Sequence[str],
    only: Collection[str] | None,
    on_way: Callable[[str], None],
) -> list[Way]:
    """Scores of each text with the one at the same place from the end, by the ways that a cross-encoder has."""
    pairs = list(zip(texts, texts[::-1], strict=True))
    expected = np.array([encoder.score([pair], show_progress=False)[0] for pair in pairs])
    largest = max(1.0, float(np.abs(expected).max()))
    with ExitStack() as stack:
        ways: dict[str, Callable[[], Callable[[Any], np.ndarray]]] = {
            PACKED: lambda: lambda rows: encoder.score(rows, show_progress=False),
            THEIRS: lambda: _their_scores(encoder, stack),
        }
        ways = {name: way for name, way in ways.items() if only is None or name in only}
        for address in beside:
            ways[address] = lambda address=address: open_export(address).score  # type: ignore[misc]
        results = []
        for name, open_way in ways.items():
            on_way(name)
            try:
                apart = np.abs(open_way()(pairs) - expected) / largest
            except UserError as error:
                results.append(Way(name, None, reason=str(error)))
                continue
            rows = np.flatnonzero(~(apart <= MOST_DIFFERENCE))
            text = " | ".join(pairs[rows[0]]) if len(rows) else None
            results.append(Way(name, float(apart.max()), len(rows), text, _rounded(name) if text else ""))
    return results


def _their_scores(encoder: PairEncoder, stack: ExitStack) -> Callable[[Any], np.ndarray]:
    _require_theirs()
    if encoder.symmetric:
        raise UserError("it cannot take the mean of both orders of a pair")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    write_encoder(encoder, folder, {})
    return Modules(folder).score
