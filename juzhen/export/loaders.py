"""Load exports as other programs do, from the files of the folder alone, or ask a server with OpenAI's protocol."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NotRequired, Protocol
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
import torch
from jaxtyping import Float
from tokenizers import Tokenizer
from typing_extensions import TypedDict

from juzhen.core.columns import require_finite
from juzhen.core.errors import UserError, foreign_reason
from juzhen.core.safe_open import parse_json, read_shaped, require_file
from juzhen.core.schema import Number, Text, Whole, require_form
from juzhen.core.text import counted
from juzhen.encoders.backbone import quiet
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.pooling import unit
from juzhen.encoders.projection import similarity
from juzhen.encoders.resolve_path import scores_pairs
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.export.formats import SETTINGS, Format

Rows = Sequence[str] | Sequence[tuple[str, str]]

BATCH = 64

REMEDY = "Write the export again with juzhen export"


class GraphSettings(TypedDict):
    kind: Text
    format: Text
    inputs: list[Text]
    outputs: list[Text]


class EmbeddingSettings(GraphSettings):
    prompt: Text
    prompts: NotRequired[dict[str, Text]]


class ScoreSettings(GraphSettings):
    symmetric: bool
    grades: list[Number]


class ExportedModel(Protocol):
    """A loaded export. `by` is the program that computes it."""

    by: str

    def encode(self, texts: Sequence[str], *, batch_size: int = BATCH) -> Float[np.ndarray, "texts dim"]:
        """Return embeddings in the order of the texts.

        Args:
            texts: Texts without the prompt, which is added.
            batch_size: Texts that are encoded at a time.

        Returns:
            float32, one row per text.

        Raises:
            UserError: The export scores pairs, or its files cannot be computed or give NaN.
        """

    def score(
        self, pairs: Sequence[tuple[str, str]], *, batch_size: int = BATCH
    ) -> Float[np.ndarray, "pairs"]:
        """Return one score for each pair, higher = closer.

        Args:
            pairs: First and second text of each pair.
            batch_size: Inputs that are computed at a time.

        Returns:
            One number per pair, in the given order.

        Raises:
            UserError: The files of the export cannot be computed, or give NaN.
        """


def open_export(folder: str | Path) -> ExportedModel:
    """Open an export.

    Args:
        folder: The folder of the export.

    Returns:
        The export, which encodes or scores texts.

    Raises:
        UserError: A folder that is not an export, or with missing, damaged or mixed files.

    Example:
        >>> open_export("exports/faq").encode(["今天天气很好"]).shape  # doctest: +SKIP
    """
    folder = require_export(folder)
    with _reading(folder):
        return Graph(folder) if (folder / SETTINGS).is_file() else Modules(folder)


def require_export(folder: str | Path) -> Path:
    """Return the path of an export.

    Args:
        folder: Folder of `export_encoder`.

    Returns:
        `folder` as a path.

    Raises:
        UserError: The folder lacks the settings of a graph and modules.json.
    """
    folder = Path(folder)
    if not (folder / SETTINGS).is_file() and not (folder / "modules.json").is_file():
        raise UserError(
            f"{folder}: no export of juzhen: expected {SETTINGS} or modules.json in it. {REMEDY}."
        )
    return folder


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the settings of a graph.

    Args:
        folder: Folder of an export in ONNX or OpenVINO.

    Returns:
        Fields of `EmbeddingSettings` or `ScoreSettings`.

    Raises:
        UserError: A missing or damaged file, or an unknown kind or format.
    """
    path = folder / SETTINGS
    settings = read_shaped(path, GraphSettings, REMEDY)
    kinds = {"embeddings": EmbeddingSettings, "scores": ScoreSettings}
    read_shaped(path, kinds.get(settings["kind"], EmbeddingSettings), REMEDY)
    if settings["kind"] not in kinds or settings["format"] not in [*Format]:
        raise UserError(
            f"{path}: kind={settings['kind']} or format={settings['format']} is unknown. {REMEDY}."
        )
    return settings


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Turn any error of a library about files of an export into a UserError."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:  # tokenizers and onnxruntime have bases of their own
        raise UserError(
            f"{folder}: this export cannot be computed ({foreign_reason(error)}). {REMEDY}."
        ) from error


class Graph:
    """A graph of ONNX or OpenVINO behind its tokenizer.json.

    Args:
        folder: Folder of the export.

    Raises:
        UserError: A file of an unknown kind or format, or a missing package.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.settings = read_settings(folder)
        self._tokenizer = Tokenizer.from_file(str(require_file(folder / "tokenizer.json")))
        self.by, self._calls_at_once, self._run = _opened(folder, self.settings["outputs"])

    def encode(self, texts: Sequence[str], *, batch_size: int = BATCH) -> Float[np.ndarray, "texts dim"]:
        """Encode texts in batches of similar length.

        Args:
            texts: Texts without the prompt, which is added.
            batch_size: Texts of a call of the graph.

        Returns:
            Embeddings in the order of the texts.

        Raises:
            UserError: The export scores pairs, or its files cannot be computed or give NaN.
        """
        if self.settings["kind"] != "embeddings":
            raise UserError(
                f"{self._folder}: this export gives scores of pairs and no embeddings. Name another."
            )
        with _reading(self._folder):
            return _finite(self._outputs(self._prompted(texts), batch_size)[0], texts)

    def score(
        self, pairs: Sequence[tuple[str, str]], *, batch_size: int = BATCH
    ) -> Float[np.ndarray, "pairs"]:
        """Score pairs of texts, higher = closer.

        Args:
            pairs: First and second text of each pair.
            batch_size: Inputs of a call of the graph.

        Returns:
            One score per pair, in the given order.

        Raises:
            UserError: The files of the export cannot be computed, or give NaN.
        """
        with _reading(self._folder):
            return _finite(self._scores(pairs, batch_size), pairs)

    def _scores(self, pairs: Sequence[tuple[str, str]], batch_size: int) -> Float[np.ndarray, "pairs"]:
        if self.settings["kind"] == "embeddings":
            first, second = (self._prompted(side) for side in zip(*pairs, strict=True))
            *_, first_vectors = self._outputs(first, batch_size)  # `firsts`, where there is such an output
            right = self._outputs(second, batch_size)[0]
            first_vectors = first_vectors if "firsts" in self.settings["outputs"] else unit(first_vectors)
            return (first_vectors * unit(right)).sum(1)
        orders = [pairs, [pair[::-1] for pair in pairs]] if self.settings["symmetric"] else [pairs]
        logits = np.mean([self._outputs(order, batch_size)[1] for order in orders], axis=0)
        return similarity(torch.from_numpy(logits), self.settings["grades"]).numpy()

    def _prompted(self, texts: Sequence[str]) -> list[str]:
        return [self.settings["prompt"] + text for text in texts]

    def _outputs(self, rows: Rows, batch_size: int) -> list[np.ndarray]:
        has_types = "token_type_ids" in self.settings["inputs"]
        # Like lengths go together.
        order = sorted(range(len(rows)), key=lambda row: sum(map(len, rows[row])))

        def run(start: int) -> list[np.ndarray]:
            batch = [rows[row] for row in order[start : start + batch_size]]
            return self._run(_arrays(self._tokenizer, batch, has_types))

        with ThreadPoolExecutor(self._calls_at_once) as threads:
            parts = list(threads.map(run, range(0, len(order), batch_size)))
        back = np.argsort(order)
        return [np.concatenate(values)[back] for values in zip(*parts, strict=True)]


def _finite(numbers: np.ndarray, rows: Rows) -> np.ndarray:
    """The numbers. Raises UserError for NaN and infinity."""
    require_finite(numbers, rows, giver="the export")
    return numbers


def _arrays(tokenizer: Tokenizer, rows: Sequence[Any], has_types: bool) -> dict[str, np.ndarray]:
    encoded = tokenizer.encode_batch(list(rows))
    inputs = {
        "input_ids": [row.ids for row in encoded],
        "attention_mask": [row.attention_mask for row in encoded],
    }
    inputs |= {"token_type_ids": [row.type_ids for row in encoded]} if has_types else {}
    return {name: np.array(values, dtype=np.int64) for name, values in inputs.items()}


def _opened(
    folder: Path, outputs: Sequence[str]
) -> tuple[str, int, Callable[[dict[str, np.ndarray]], list[np.ndarray]]]:
    """Who computes, how many calls run at once, and the graph as a function.

    Threads that share a call of onnxruntime wait for each other at every layer. With other work running, that
    is slow.
    """
    if (folder / "model.onnx").is_file():
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )
        return "onnxruntime", torch.get_num_threads(), lambda inputs: session.run(list(outputs), inputs)
    from juzhen.backends.graph_backends import compiled

    graph = compiled(folder / "openvino_model.xml", threads=torch.get_num_threads())
    return "openvino", 1, lambda inputs: [graph(inputs)[name] for name in outputs]


class Modules:
    """A folder of sentence-transformers, run with that library if it is installed, else with juzhen.

    Args:
        folder: Folder with modules.json.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._theirs = find_spec("sentence_transformers") is not None
        self.by = "sentence-transformers" if self._theirs else "juzhen"
        self._model: Any
        if not self._theirs:
            self._model = (CrossEncoder if scores_pairs(folder) else SentenceEncoder).load(folder)
            return
        import sentence_transformers

        kind = (
            sentence_transformers.CrossEncoder
            if scores_pairs(folder)
            else sentence_transformers.SentenceTransformer
        )
        with quiet():
            self._model = kind(str(folder), device="cpu", local_files_only=True, trust_remote_code=False)

    def encode(self, texts: Sequence[str], *, batch_size: int = BATCH) -> Float[np.ndarray, "texts dim"]:
        """Encode texts.

        Args:
            texts: Texts without the prompt, which is added.
            batch_size: Texts of a batch of sentence-transformers. juzhen chooses its own.

        Returns:
            Embeddings in the order of the texts.

        Raises:
            UserError: The folder cannot be computed, or gives NaN.
        """
        with _reading(self._folder):
            if not self._theirs:
                return self._model.encode(list(texts), show_progress=False)
            vectors = self._model.encode(list(texts), batch_size=batch_size, show_progress_bar=False)
            return _finite(vectors, texts)

    def score(
        self, pairs: Sequence[tuple[str, str]], *, batch_size: int = BATCH
    ) -> Float[np.ndarray, "pairs"]:
        """Score pairs of texts, higher = closer.

        Args:
            pairs: First and second text of each pair.
            batch_size: Texts of a batch of sentence-transformers. juzhen chooses its own.

        Returns:
            One score per pair, in the given order.

        Raises:
            UserError: The folder cannot be computed, or gives NaN.
        """
        with _reading(self._folder):
            return _finite(self._scores(pairs, batch_size), pairs)

    def _scores(self, pairs: Sequence[tuple[str, str]], batch_size: int) -> Float[np.ndarray, "pairs"]:
        if not self._theirs:
            return self._model.score(list(pairs), show_progress=False)
        if not hasattr(self._model, "predict"):
            first, second = (self.encode(side, batch_size=batch_size) for side in zip(*pairs, strict=True))
            return (unit(first) * unit(second)).sum(1)
        logits = self._model.predict(list(pairs), batch_size=batch_size, show_progress_bar=False)
        return similarity(torch.from_numpy(np.asarray(logits).reshape(len(pairs), -1))).numpy()


SECONDS = 120.0
AT_ONCE = 64
MOST_BYTES = 64 * 2**20
"""Of an answer: 64 embeddings of 16,384 numbers take half of it."""
PATH = "/v1"


class RemoteModel(TypedDict):
    id: Text


class RemoteModels(TypedDict):
    data: list[RemoteModel]


class RemoteEmbedding(TypedDict):
    index: Whole
    embedding: list[Number] | Text


class RemoteEmbeddings(TypedDict):
    data: list[RemoteEmbedding]


class _Stays(HTTPRedirectHandler):
    """Follows no redirect. The next server would receive the key, and the texts would be lost."""

    def redirect_request(
        self, request: Request, file: IO[bytes], code: int, message: str, headers: HTTPMessage, url: str
    ) -> None:
        return None


class RemoteServer:
    """The first model that a server lists.

    Args:
        address: Such as http://127.0.0.1:8000, with or without /v1.
        key: API key of the server. None: no key.

    Raises:
        UserError: It cannot be reached or answers something else.
    """

    def __init__(self, address: str, key: str | None = None) -> None:
        if key is not None and not (key.isascii() and key.isprintable()):
            raise UserError(
                f"{address}: the key holds characters that no header takes. Set the variable again."
            )
        self._base = address.rstrip("/").removesuffix(PATH) + PATH
        self._key = key
        models = self._ask("/models", RemoteModels)["data"]
        if not models:
            raise UserError(f"{address}: the server lists no model. Start it with one.")
        self.model = str(models[0]["id"])

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "texts dim"]:
        """Return embeddings in the order of the texts, by several requests.

        Args:
            texts: At least one text.

        Returns:
            float32 array (texts, dim).

        Raises:
            UserError: The server cannot be reached, or it answers something else than an embedding per text.
        """
        parts: list[np.ndarray] = []
        for start in range(0, len(texts), AT_ONCE):
            batch = list(texts[start : start + AT_ONCE])
            data = self._ask("/embeddings", RemoteEmbeddings, {"model": self.model, "input": batch})["data"]
            data.sort(key=lambda item: item["index"])
            if [item["index"] for item in data] != list(range(len(batch))):
                raise self._odd(
                    f"{counted(len(data), 'embeddings')} for {counted(len(batch), 'texts')}, or numbers of other texts"
                )
            try:
                rows = [_vector(item["embedding"]) for item in data]
            except ValueError as error:
                raise self._odd(f"an embedding in base64 that cannot be read ({error})") from error
            width = len(parts[0]) if parts else len(rows[0])
            if not width or any(len(row) != width for row in rows):
                raise self._odd(
                    f"embeddings of {sorted({len(row) for row in [*parts[:1], *rows]})} dimensions"
                )
            require_finite(np.stack(rows), batch, giver=f"{self._base}")
            parts += rows
        return np.stack(parts)

    def _odd(self, problem: str) -> UserError:
        return UserError(f"{self._base}/embeddings: the server gives {problem}. Compare another server.")

    def _ask(self, path: str, kind: Any, body: Any = None) -> Any:
        """Return the answer of the server, checked to be of this type."""
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        data = None if body is None else json.dumps(body).encode()
        try:
            request = Request(self._base + path, data, headers)
            with build_opener(_Stays).open(request, timeout=SECONDS) as answer:
                content = answer.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES // 2**20} MiB")
            value = parse_json(content)
            require_form(value, kind, "its content")
            return value
        except (OSError, ValueError, HTTPException) as error:
            is_answer = isinstance(error, HTTPError)
            reason, message = error if is_answer else getattr(error, "reason", error), _told(error)
            raise UserError(
                f"{self._base}{path}: no answer that can be read ({foreign_reason(reason)}{message}). "
                "Give the address of a running server that speaks OpenAI's protocol, and its key."
            ) from error


def _vector(embedding: list[float] | str) -> np.ndarray:
    """Read a vector of numbers or of float32 in base64. Raises ValueError for anything else."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    with np.errstate(over="ignore"):  # infinity is refused with its text
        return np.array(embedding, dtype=np.float32)


def _told(error: Exception) -> str:
    """Return the start of a server's error message, or "" if there is none."""
    if not isinstance(error, HTTPError):
        return ""
    try:
        text = error.read(500).decode(errors="replace")
    except (OSError, ValueError, HTTPException):
        return ""
    return f", {' '.join(text.split())}" if text.strip() else ""
