"""Compute the same texts with every backend of an encoder, and compare with transformers."""

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
from juzhen.core.columns import as_text_list, require_finite
from juzhen.core.errors import UserError, require_choice
from juzhen.encoders.batch_invariance import embedding_alone, layers_alone
from juzhen.encoders.components import num_positions
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.pooling import POOLINGS, unit
from juzhen.encoders.save import loads_elsewhere, write_encoder
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.export.folder import finished
from juzhen.export.formats import SETTINGS, Format
from juzhen.export.loaders import Modules, RemoteServer, open_export, read_settings, require_export
from juzhen.export.verification import reference

SHARE = 0.1
"""A mistake explains a vector if what it gives is ten times nearer than what is expected."""

LENGTHS = (16, 32, 64, 128, 256, 384, 512, 1024, 2048, 4096, 8192)
"""At which programs cut texts where nobody says otherwise."""

NEAR = 0.05
"""Difference up to which rounding of products is a reason."""


def _diagnose_mismatch(
    encoder: SentenceEncoder,
    texts: list[str],
    row: int,
    vector: np.ndarray,
    expected: np.ndarray,
    encode: Callable[[list[str]], np.ndarray],
    *,
    rounded: str,
) -> str:
    """Return the mistake that explains a backend's vector best, "" if none does.

    Args:
        encoder: Computes the guesses.
        texts: All texts.
        row: Number of the text with the largest difference.
        vector: Vector of length 1 of that text, by the backend.
        expected: Vectors of all texts.
        encode: The backend, called for this text only.
        rounded: Reason to report if it rounds and nothing explains more. "" if it should not round.

    Returns:
        Name of the mistake and its description, or "".
    """
    apart = float(np.abs(vector - expected[row]).max())
    best, reason_text = SHARE * apart, ""
    for reason, guess in _guesses(encoder, texts, row, expected):
        distance = float(np.abs(vector - guess).max())
        if distance < best:
            best, reason_text = distance, reason
            if best <= MOST_DIFFERENCE:
                return reason_text
    if reason_text:
        return reason_text
    if rounded and apart <= NEAR:
        return rounded
    try:
        alone = unit(np.asarray(encode([texts[row]]), dtype=np.float32))[0]
    except UserError:
        return ""
    if float(np.abs(alone - expected[row]).max()) <= MOST_DIFFERENCE:
        return "batch: the text alone is right, beside others it is not"
    return "precision: near, and no mistake explains it better" if apart <= NEAR else ""


def _guesses(
    encoder: SentenceEncoder, texts: list[str], row: int, expected: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield possible mistakes with the unit embedding that each would give."""
    text, size = texts[row], expected.shape[1]

    def cut(embedding: torch.Tensor) -> np.ndarray:
        return unit(embedding.detach().cpu().float().numpy()[None, :size])[0]

    for number in range(len(texts)):
        if number != row:
            yield f"order: it is the vector of text {number + 1}", expected[number]
    for reason_text, reader in _prompts(encoder):
        yield reason_text, cut(embedding_alone(reader, text))
    for reason_text, changed in (
        ("text: line feeds became blanks", text.replace("\n", " ")),
        ("text: blanks at its ends are gone", text.strip()),
        ("text: in lower case", text.lower()),
        ("text: a line feed stands behind it", text + "\n"),
    ):
        if changed.strip() and changed != text:
            yield reason_text, cut(embedding_alone(encoder, changed))
    for reason_text, ids in _tokens(encoder, text):
        yield reason_text, cut(torch.from_numpy(encoder.infer(encoder.collate([ids])))[0])
    tokens, layers = encoder.collate(encoder.tokenize([text])), layers_alone(encoder, text)
    own, projected = encoder.pooling, encoder.projections
    try:
        for name, pooling in POOLINGS.items():
            if name != own and not pooling.reads_first_layer:
                encoder.pooling = name
                yield f"pooling: {name} in the place of {own}", cut(encoder.pooled(layers, tokens)[0])
        encoder.pooling = own
        if projected:
            encoder.projections = torch.nn.ModuleList()
            if encoder.dim >= size:
                yield "projections: left out", cut(encoder.pooled(layers, tokens)[0])
    finally:
        encoder.pooling, encoder.projections = own, projected


def _prompts(encoder: SentenceEncoder) -> Iterator[tuple[str, SentenceEncoder]]:
    """Yield the encoder with each other prompt that a program could have used."""
    pooling = encoder.prompt
    wrong = {"prompt: none stands before it": ""} if pooling else {}
    wrong |= {
        f"prompt: {name} ({text!r}) stands before it": text
        for name, text in encoder.prompts.texts.items()
        if text != pooling
    }
    wrong |= {"prompt: it stands there twice": pooling + pooling} if pooling else {}
    for reason_text, text in wrong.items():
        try:
            yield reason_text, encoder.with_prompt(prompt=text)
        except UserError:
            continue  # there is no room for it


def _tokens(encoder: SentenceEncoder, text: str) -> Iterator[tuple[str, list[int]]]:
    """Yield other token ids of the text: without special tokens, and truncated elsewhere."""
    tokenizer, most = encoder.tokenizer, num_positions(encoder.backbone)
    (prompted,) = encoder.prompted([text])
    ids_of_all = tokenizer(prompted, verbose=False)["input_ids"]
    bare = tokenizer(prompted, add_special_tokens=False, verbose=False)["input_ids"][: encoder.max_length]
    if bare and len(bare) < len(ids_of_all):
        yield "special tokens: none stand around it", bare
        yield "special tokens: the first is missing", ids_of_all[1 : encoder.max_length]
        yield (
            "special tokens: the last is missing",
            ids_of_all[: min(len(ids_of_all) - 1, encoder.max_length)],
        )
    for length in (*LENGTHS, most):
        if length and length != encoder.max_length and length < max(len(ids_of_all), encoder.max_length):
            ids = tokenizer(prompted, truncation=True, max_length=length, verbose=False)["input_ids"]
            is_other = len(ids) != min(len(ids_of_all), encoder.max_length)
            if is_other and (most is None or length <= most):
                yield f"truncation: it is cut to {length} tokens, the encoder reads {encoder.max_length}", ids
    if len(ids_of_all) > encoder.max_length and (most is None or len(ids_of_all) <= most):
        yield f"truncation: it is whole, the encoder reads {encoder.max_length} tokens of it", ids_of_all


Encode = Callable[[list[str]], np.ndarray]

ROUNDED = {
    BackendName.TORCH_BF16: "precision: products in bfloat16",
    BackendName.ONNX_INT8: "precision: products in 8 bits",
}
PADDED, PACKED, THEIRS = "torch-padded", "torch", "sentence-transformers"
BACKENDS = (PADDED, PACKED, *list(BackendName)[1:], THEIRS)


@dataclass(frozen=True)
class BackendResult:
    """Result of one backend.

    Attributes:
        name: Name of the backend, folder of an export, or address of a server.
        largest: Largest difference of a number of a unit embedding, or of a score relative to the largest score. None:
            nothing was computed.
        differing: Number of texts that differ beyond rounding.
        text: The first of them.
        reason: Explanation, if known. Why nothing was computed.
        failed: It differs more than its precision explains, or was requested and computed nothing.
    """

    name: str
    largest: float | None
    differing: int = 0
    text: str | None = None
    reason: str = ""
    failed: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Convert the result to plain data.

        Returns:
            Field → value.
        """
        return asdict(self)


def compare_backends(
    encoder: Any,
    texts: Sequence[str],
    *,
    beside: Sequence[str] = (),
    key: str | None = None,
    only: Collection[str] | None = None,
    on_way: Callable[[str], None] = lambda name: None,
) -> list[BackendResult]:
    """Compare each installed backend with transformers, which encodes one text at a time.

    Args:
        encoder: A `SentenceEncoder` or a cross-encoder.
        texts: Texts to encode. A cross-encoder scores each with its mirror position from the end.
        beside: Further backends: folders of exports, addresses of servers.
        key: API key for the servers.
        only: Names in BACKENDS to compute. Default: all.
        on_way: Called with each name before it is computed.

    Returns:
        One result per backend. Unreachable servers and broken exports have failed.

    Raises:
        UserError: A family of encoders without backends, an unknown name in `only`, no text, or an entry of
            `beside` that is neither folder nor address.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> encoder = SentenceEncoder.load("builtin/mini_zh")
        >>> results = compare_backends(encoder, ["今天天气很好", "A dog."], only=["torch"])
        >>> [(result.name, result.failed) for result in results]
        [('torch', False)]
    """
    texts = as_text_list(texts)
    for name in only or ():
        require_choice("only", name, BACKENDS)
    if not texts:
        raise UserError("texts: none. Give one at least.")
    for address in beside:
        if not is_server(address):
            require_export(address)
        elif isinstance(encoder, PairEncoder):
            raise UserError(
                f"{address}: servers give embeddings, and this encoder scores pairs. Name an export."
            )
    if isinstance(encoder, PairEncoder):
        return _compare_pairs(encoder, texts, beside, only, on_way)
    if not isinstance(encoder, SentenceEncoder) or encoder.templates is not None:
        raise UserError(
            "backends compute encoders of texts without templates, and cross-encoders, and this one is neither. Name "
            "one of these"
        )
    encoder.eval()
    expected = reference(encoder, texts)
    with ExitStack() as stack:
        ways = [
            _compared(encoder, texts, expected, *way, on_way)
            for way in _ways(encoder, stack)
            if only is None or way[0] in only
        ]
        for address in beside:
            opened, rounded = _opener(address, key), _rounded(address)
            ways.append(_compared(encoder, texts, expected, address, opened, rounded, on_way, asked=True))
    return ways


def _ways(encoder: SentenceEncoder, stack: ExitStack) -> Iterator[tuple[str, Callable[[], Encode], str]]:
    """Yield name, opener, and possible reason for differences beyond rounding of each backend."""
    yield PADDED, lambda: _padded(encoder), ""
    yield PACKED, lambda: _by_backend(encoder, BackendName.TORCH), ""
    for name in list(BackendName)[1:]:
        yield str(name), lambda name=name: _by_backend(encoder, name), ROUNDED.get(name, "")  # type: ignore[misc]
    yield THEIRS, lambda: _theirs(encoder, stack).encode, ""


def _compared(
    encoder: SentenceEncoder,
    texts: list[str],
    expected: np.ndarray,
    name: str,
    open_way: Callable[[], Encode],
    rounded: str,
    on_way: Callable[[str], None],
    *,
    asked: bool = False,
) -> BackendResult:
    """Compare one backend. `asked`: it was requested by name, so it fails if it computes nothing."""
    on_way(name)
    computed = _computed(name, open_way, texts, axes=2, asked=asked)
    if isinstance(computed, BackendResult):
        return computed
    encode, vectors = computed
    size = min(vectors.shape[1], expected.shape[1])
    apart = np.abs(unit(vectors)[:, :size] - unit(expected[:, :size])).max(1)
    if vectors.shape[1] != expected.shape[1]:
        reason = f"{vectors.shape[1]} dimensions, the encoder has {expected.shape[1]}"
        return BackendResult(name, float(apart.max()), len(texts), texts[0], reason, failed=True)
    rows = np.flatnonzero(~(apart <= MOST_DIFFERENCE))
    largest = float(apart.max())
    if not len(rows):
        return BackendResult(name, largest, reason=_length(encoder, texts[0], vectors[0]))
    row = int(rows[0])
    reason = _diagnose_mismatch(
        encoder, texts, row, unit(vectors[row : row + 1])[0], expected, encode, rounded=rounded
    )
    failed = reason != rounded or not rounded or largest > NEAR
    return BackendResult(name, largest, len(rows), texts[row], reason, failed)


def _computed(
    name: str, open_way: Callable[[], Callable[[Any], Any]], rows: Sequence[Any], *, axes: int, asked: bool
) -> tuple[Callable[[Any], Any], np.ndarray] | BackendResult:
    """Open a backend and compute with it.

    Returns:
        Its function and vectors or scores. A result without numbers if they are not finite.
    """
    is_open = False
    try:
        encode = open_way()
        is_open = True
        numbers = np.asarray(encode(rows), dtype=np.float32)
        if numbers.ndim != axes or len(numbers) != len(rows) or not numbers.size:
            shape = " × ".join(map(str, numbers.shape)) or "one"
            raise UserError(
                f"{name}: it gives {shape} numbers for {len(rows):,} texts. Write or start it again."
            )
        require_finite(numbers, rows, giver=name)
    except UserError as error:
        return BackendResult(name, None, reason=str(error), failed=asked or is_open)
    return encode, numbers


def _length(encoder: SentenceEncoder, text: str, vector: np.ndarray) -> str:
    """Return a note if a backend returns vectors of another length, which changes no cosine."""
    size, length = np.linalg.norm(vector), np.linalg.norm(encoder.encode(text, show_progress=False))
    same = abs(size - length) <= 1e-3 * length
    return (
        ""
        if same
        else f"normalisation: of length {size:.3g}, the encoder gives {length:.3g}; cosines are the same"
    )


def _padded(encoder: SentenceEncoder) -> Encode:
    from juzhen.backends.graph_backends import PaddedEncoder
    from juzhen.encoders.forward import padded_inputs

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


def _theirs(encoder: SentenceEncoder | PairEncoder, stack: ExitStack) -> Modules:
    """The encoder in sentence-transformers. Raises UserError if that is not installed or cannot compute it."""
    if find_spec("sentence_transformers") is None:
        raise UserError("it is not installed: pip install sentence-transformers")
    if isinstance(encoder, PairEncoder):
        if encoder.symmetric:
            raise UserError("it cannot take the mean of both orders of a pair")
    elif not loads_elsewhere(encoder):
        raise UserError("it cannot compute this encoder")
    else:
        encoder = finished(encoder, None, Format.SENTENCE_TRANSFORMERS)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    write_encoder(encoder, folder, {})
    return Modules(folder)


def is_server(address: str) -> bool:
    """True for the address of an HTTP server instead of a folder.

    Args:
        address: A folder, or an address with its scheme.

    Returns:
        False for any other text.
    """
    return address.startswith(("http://", "https://"))


def _opener(address: str, key: str | None) -> Callable[[], Encode]:
    return lambda: RemoteServer(address, key).encode if is_server(address) else open_export(address).encode


def _rounded(address: str) -> str:
    """Return why an export rounds. "" if it should not, for servers, and for unreadable settings."""
    try:
        is_rounded = (
            Path(address, SETTINGS).is_file() and Format(read_settings(Path(address))["format"]).is_quantised
        )
    except UserError:
        return ""
    return ROUNDED[BackendName.ONNX_INT8] if is_rounded else ""


def _compare_pairs(
    encoder: PairEncoder,
    texts: list[str],
    beside: Sequence[str],
    only: Collection[str] | None,
    on_way: Callable[[str], None],
) -> list[BackendResult]:
    """Score each text with its mirror position from the end, by the backends of a cross-encoder."""
    pairs = list(zip(texts, texts[::-1], strict=True))
    expected = np.array([encoder.score([pair], show_progress=False)[0] for pair in pairs])
    largest = max(1.0, float(np.abs(expected).max()))
    with ExitStack() as stack:
        ways: dict[str, Callable[[], Callable[[Any], np.ndarray]]] = {
            PACKED: lambda: lambda rows: encoder.score(rows, show_progress=False),
            THEIRS: lambda: _theirs(encoder, stack).score,
        }
        ways = {name: way for name, way in ways.items() if only is None or name in only}
        for address in beside:
            ways[address] = lambda address=address: open_export(address).score  # type: ignore[misc]
        results = []
        for name, open_way in ways.items():
            on_way(name)
            computed = _computed(name, open_way, pairs, axes=1, asked=name in beside)
            if isinstance(computed, BackendResult):
                results.append(computed)
                continue
            scores = computed[1]
            apart = np.abs(scores - expected) / largest
            rows = np.flatnonzero(~(apart <= MOST_DIFFERENCE))
            text = " | ".join(pairs[rows[0]]) if len(rows) else None
            reason = _rounded(name) if text else ""
            failed = bool(text) and not (reason and apart.max() <= NEAR)
            results.append(BackendResult(name, float(apart.max()), len(rows), text, reason, failed))
    return results
