"""Served models: encoders, cross-encoder and index, and how requests are tokenized and computed."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Self, cast
from unicodedata import east_asian_width

import numpy as np
import torch
from scipy.special import expit

from juzhen.backends import open_backend
from juzhen.core.columns import check_texts, sound_rows
from juzhen.core.errors import UserError, nearest, typed
from juzhen.core.examples import Side
from juzhen.core.text import short
from juzhen.data.tables import TableReading
from juzhen.encoders.backbone import token_embeddings
from juzhen.encoders.base_weights import base_of, has_adapter
from juzhen.encoders.chunks import find_truncated
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.projection import similarity
from juzhen.encoders.resolve_path import ENCODER_FOLDER
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.thresholds import ThresholdMixin, require_reachable
from juzhen.encoders.tokens import TokenTable, note_unknown, special_around
from juzhen.index import Index, IndexHit, index_in_memory, read_rows
from juzhen.index.index import RERANKED
from juzhen.index.qdrant import QdrantIndex, is_address
from juzhen.serving.errors import RequestError, naming, wrong_field
from juzhen.serving.schemas import SearchBody

SIDES = {
    "query": Side.QUERY,
    "search_query": Side.QUERY,
    "document": Side.DOCUMENT,
    "passage": Side.DOCUMENT,
    "search_document": Side.DOCUMENT,
}
"""input_type of Cohere's, Jina's and Voyage's clients → the side whose prompt is meant; the others have the default."""


@dataclass(frozen=True)
class ServedThreshold:
    """The score of an encoder from which two texts count as the same.

    Args:
        value: The score. None: unknown.
        of: Set whose dev split it was fitted on. None: it was given as a number.
        reason: Reason for a missing threshold.
    """

    value: float | None = None
    of: str | None = None
    reason: str | None = None

    @classmethod
    def of_encoder(cls, encoder: ThresholdMixin, chosen: str | None = None) -> Self:
        """Return the threshold of the chosen set or number, else the encoder's own, if any.

        Args:
            encoder: The encoder.
            chosen: Name of a set, or a number as text. None: the encoder's own.

        Returns:
            The threshold.

        Raises:
            UserError: The chosen set has no threshold, or no score reaches the number.
        """
        with suppress(ValueError):
            if chosen is not None and isfinite(number := float(chosen)):
                return cls(require_reachable("threshold", number, encoder))
        try:
            name, value = encoder.fitted_threshold(chosen)
        except UserError as error:
            if chosen is not None:
                told = str(error).removeprefix(f"threshold={chosen}: ")
                raise UserError(f"--threshold {chosen}: {told}") from error
            return cls(reason=str(error).replace(" threshold=", " --threshold "))
        return cls(value, name)

    def facts(self) -> dict[str, Any]:
        """Return threshold and set for the page and for /info.

        Returns:
            A dict for JSON.
        """
        return {"threshold": self.value, "set": self.of}


class Embedder:
    """An encoder with its prompts, its backend and its threshold.

    All readers share one tokenizer. A lock protects its settings during a call.

    Args:
        encoder: The encoder.
        name: Name of the model in replies.
        backend: Such as "torch" or "onnx".
        threshold: Name of a set, or a number as text. None: the encoder's own.

    Raises:
        UserError: A backend that cannot compute the encoder, or an unknown threshold.
    """

    def __init__(
        self, encoder: SentenceEncoder, name: str, backend: str, *, threshold: str | None = None
    ) -> None:
        self.threshold = ServedThreshold.of_encoder(encoder, threshold)
        self.encoder, self.name = encoder.eval(), name
        self.lock = threading.Lock()
        self._backend = open_backend(encoder, backend)
        self._readers: dict[tuple[str | None, str | None], SentenceEncoder] = {}
        ids = encoder.tokenizer("a")["input_ids"]
        before, after = special_around(encoder.tokenizer)
        self._special = ids[:before], ids[len(ids) - after :]
        self._num_tokens = len(token_embeddings(encoder.backbone).weight)
        try:  # whatever is made at the first call
            self.compute([(tokens, 0) for tokens in encoder.tokenize(["a", "今天"])])
        except FloatingPointError as error:
            raise UserError(f"{name}: {error}. Replace the weights, or choose the back end torch.") from error

    def reader(self, prompt_name: str | None, input_type: str | None) -> SentenceEncoder:
        """Return the encoder with the requested prompt.

        Args:
            prompt_name: Name of a prompt of the encoder.
            input_type: "query" or "document", as clients of Cohere and Jina send it.

        Returns:
            The encoder.

        Raises:
            RequestError: An unknown prompt.
        """
        key = prompt_name, input_type
        if key not in self._readers:
            if prompt_name is not None and input_type is not None:
                raise RequestError(400, "prompt_name, input_type: give one of the two", param="prompt_name")
            if prompt_name is None:
                self._readers[key] = self.encoder.reading(SIDES.get(input_type or "", Side.EVERY))
            elif prompt_name in (names := self.encoder.prompts.texts):
                self._readers[key] = self.encoder.with_prompt(prompt_name)
            else:
                hint = nearest(prompt_name, names) if names else "This encoder has none"
                raise wrong_field("prompt_name", f"no such prompt. {hint}")
        return self._readers[key]

    def tokens(
        self, texts: Sequence[str], reader: SentenceEncoder, *, param: str, truncate: bool
    ) -> tuple[list[tuple[np.ndarray, int]], np.ndarray, int]:
        """Return the inputs of `compute` for each text, their lengths, and the number of truncated texts.

        Args:
            texts: The texts.
            reader: The encoder with its prompt.
            param: Name of the field, for messages.
            truncate: Truncate long texts instead of refusing them.

        Returns:
            Inputs, lengths in tokens, and the number of truncated texts.

        Raises:
            RequestError: A text that is longer than the encoder reads, unless it may be truncated.
        """
        check_texts(texts, called=f"{param}: text")
        table = reader.tokenize(texts)
        is_cut = find_truncated(reader, texts, table.lengths)
        note_unknown(reader, texts, table)
        if not truncate and is_cut.any():
            raise wrong_field(
                param,
                f"text {int(is_cut.argmax())} has more than the {reader.max_length} tokens that this encoder reads. "
                "Send a shorter text, or truncate: true",
                code="context_length_exceeded",
            )
        inputs = [(ids, reader.unpooled) for ids in table]
        return inputs, self.encoder.input_lengths(table), int(is_cut.sum())

    def checked_ids(
        self, lists: Sequence[Any], *, param: str
    ) -> tuple[list[tuple[np.ndarray, int]], np.ndarray]:
        """Return the inputs of `compute` for lists of token ids, and their lengths. The ids are not changed.

        Args:
            lists: Lists of token ids.
            param: Name of the field, for messages.

        Returns:
            Inputs, and lengths in tokens.

        Raises:
            RequestError: Token ids of another tokenizer.
        """
        before, after = self._special
        for number, ids in enumerate(lists):
            is_whole = ids[: len(before)] == before and ids[len(ids) - len(after) :] == after
            if not is_whole or max(ids) >= self._num_tokens or len(ids) <= len(before) + len(after):
                raise wrong_field(
                    param,
                    f"token list {number} is not of this encoder's tokenizer, whose lists begin with {before}, end "
                    f"with {after} and hold numbers below {self._num_tokens:,}. Send texts "
                    "(LangChain: check_embedding_ctx_length=False)",
                )
            if len(ids) > (most := self.encoder.max_length):
                problem = f"token list {number} has {len(ids):,} tokens; the encoder reads {most}"
                raise wrong_field(param, problem, code="context_length_exceeded")
        table = TokenTable.of(lists)
        return [(ids, 0) for ids in table], self.encoder.input_lengths(table)

    def shares(self, scores: Any) -> np.ndarray:
        """Scores from 0 to 1: (1 + cosine) / 2, of a learnt form its sigmoid.

        Args:
            scores: Scores of the encoder.

        Returns:
            Array of the same shape.
        """
        scores = np.asarray(scores, dtype=np.float64)
        return np.clip((1 + scores) / 2, 0, 1) if self.encoder.score_head is None else expit(scores)

    def compute(self, inputs: Sequence[tuple[np.ndarray, int]]) -> np.ndarray:
        """Encode token ids, each with its number of unpooled tokens. Equal inputs are encoded once.

        Args:
            inputs: Output of `tokens`.

        Returns:
            float32 array (texts, dim).
        """
        keys = [(unpooled, ids.tobytes()) for ids, unpooled in inputs]
        distinct = dict(zip(keys, inputs, strict=True))
        rows = {key: row for row, key in enumerate(distinct)}
        vectors = np.empty((len(distinct), self.encoder.dim), dtype=np.float32)
        for unpooled in {unpooled for unpooled, _ in distinct}:
            chosen = [key for key in distinct if key[0] == unpooled]
            tokens = self.encoder.collate([distinct[key][0] for key in chosen])
            tokens.unpooled = unpooled
            vectors[[rows[key] for key in chosen]] = self._backend.encode(tokens)
        require_finite(vectors, may_be_zero=self.encoder.may_be_zero)
        return vectors[[rows[key] for key in keys]]


class Reranker:
    """A cross-encoder and its threshold.

    Args:
        encoder: The cross-encoder.
        name: Name of the model in replies.
    """

    def __init__(self, encoder: PairEncoder, name: str) -> None:
        self.threshold = ServedThreshold.of_encoder(encoder)
        self.encoder, self.name = encoder.eval(), name
        self.lock = threading.Lock()

    def tokens(self, query: str, documents: Sequence[str]) -> tuple[list[Any], np.ndarray, int]:
        """Return the inputs of `compute` for each pair, their lengths, and the number of truncated pairs.

        Args:
            query: The query.
            documents: The documents.

        Returns:
            Inputs, lengths in tokens, and the number of truncated pairs.
        """
        check_texts([query], called="query: text")
        check_texts(documents, called="documents: text")
        query_table, table = self.encoder.tables([query], documents)
        self.encoder.note_unknown([query], documents, (query_table, table))
        first, second = np.full(len(documents), query_table.lengths[0]), table.lengths
        lengths = self.encoder.room(first, second)
        num_cut = int(self.encoder.is_cut(first, second).sum())
        return [(query_table[0], ids) for ids in table], lengths, num_cut

    def pair_tokens(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[Any], np.ndarray, int]:
        """The same of pairs that share no query.

        Args:
            pairs: Pairs of query and document.

        Returns:
            As of `tokens`.
        """
        inputs, lengths, cut = zip(*(self.tokens(first, [second]) for first, second in pairs), strict=True)
        return [joint for (joint,) in inputs], np.concatenate(lengths), sum(cut)

    @torch.inference_mode()
    def compute(self, inputs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Score tokenised pairs. Equal inputs are scored once.

        Args:
            inputs: Output of `tokens`.

        Returns:
            float32 array (pairs,).
        """
        first, second = (TokenTable.of([pair[side] for pair in inputs]) for side in (0, 1))
        orders = [(first, second), (second, first)] if self.encoder.symmetric else [(first, second)]
        device = self.encoder.inner.device
        logits = [self.encoder(self.encoder.join(*order).to(device)) for order in orders]
        scores = similarity(torch.stack(logits).mean(dim=0), self.encoder.grades)
        raw: np.ndarray = scores.float().cpu().numpy()
        require_finite(raw)
        return raw

    def shares(self, scores: Any) -> np.ndarray:
        """Scores from 0 to 1.

        Args:
            scores: Scores of the reranker.

        Returns:
            Array of the same shape.
        """
        return np.asarray(expit(np.asarray(scores, dtype=np.float64)))


def require_finite(numbers: np.ndarray, *, may_be_zero: bool = True) -> None:
    """Check that vectors or scores are finite.

    Args:
        numbers: Vectors or scores, (rows, …).
        may_be_zero: False: a vector of zeros is an error too.

    Raises:
        FloatingPointError: NaN, infinity, or a forbidden vector of zeros.
    """
    if not sound_rows(numbers, may_be_zero=may_be_zero).all():
        raise FloatingPointError("the model gave NaN or infinity")


MOST_HITS = 50_000
"""Texts of an answer."""


@dataclass(frozen=True)
class Corpus:
    """An index that the server searches.

    Args:
        index: The index.
        name: Name of the index in replies.
        dim: Dimensions of its embeddings.
    """

    index: Index | QdrantIndex
    name: str
    dim: int

    def search(
        self, queries: list[str], body: SearchBody, depth: int, vectors: np.ndarray | None
    ) -> list[list[IndexHit]]:
        """Search the index.

        Args:
            queries: The queries.
            body: The parsed request.
            depth: Number of hits for each query.
            vectors: Embeddings of the queries, (queries, dim). None for lexical search.

        Returns:
            The hits of each query.

        Raises:
            RequestError: A filter or a mode that does not suit the index.
        """
        where = body.filter or None
        with naming("mode", "filter", "per_document"):
            return self.index.search(
                queries,
                depth,
                mode=body.mode,
                where=where,
                vectors=vectors,
                per_document=body.per_document,
            )

    def facts(self, *, reranks: bool) -> dict[str, Any]:
        """Return the facts for /index.

        Args:
            reranks: True if the server has a reranker.

        Returns:
            A dict for JSON.
        """
        return {"name": self.name, **self.index.facts(), "reranks": reranks}


def require_corpus(corpus: Corpus | None) -> Corpus:
    """Return the corpus.

    Args:
        corpus: The corpus, or None.

    Returns:
        The corpus.

    Raises:
        RequestError: The server has none.
    """
    if corpus is None:
        raise RequestError(404, "there is nothing to search. Start the server with --index", code="no_index")
    return corpus


def depth_of(queries: list[str], body: SearchBody, *, most_pairs: int) -> int:
    """Return how many hits of each query are looked up.

    Args:
        queries: The queries.
        body: The parsed request.
        most_pairs: Largest number of pairs that a request may rerank.

    Returns:
        Number of hits for each query.

    Raises:
        RequestError: More hits than a request may have.
    """
    depth = max(body.top_k, RERANKED) if body.rerank else body.top_k
    most = most_pairs if body.rerank else MOST_HITS
    if len(queries) * depth > most:
        problem = f"{len(queries):,} texts with {depth} hits each; at most {most:,} hits in one request"
        raise wrong_field("query", problem)
    with naming("query"):
        check_texts(queries, called="query: text")
    return depth


@dataclass(frozen=True)
class ServedModels:
    """All served models. A reload replaces them together.

    Args:
        embedder: The encoder.
        reranker: The cross-encoder, if there is one.
        corpus: Texts to search, if there are any.
        created: Seconds since 1970 when they were loaded.
        adapters: Further encoders by name: adapters on the weights of `embedder`, or a run to compare.
        corpora: Name of a further encoder → the texts of `corpus`, encoded by it.
    """

    embedder: Embedder
    reranker: Reranker | None = None
    corpus: Corpus | None = None
    created: int = 0
    adapters: tuple[Embedder, ...] = ()
    corpora: Mapping[str, Corpus] = field(default_factory=dict)

    @property
    def embedders(self) -> dict[str, Embedder]:
        return {embedder.name: embedder for embedder in (self.embedder, *self.adapters)}

    @property
    def thresholds(self) -> dict[str, ServedThreshold]:
        """By the names of all models."""
        judges: list[Embedder | Reranker] = [*self.embedders.values()]
        judges += [] if self.reranker is None else [self.reranker]
        return {each.name: each.threshold for each in judges}


def require_model(name: str | None, served: Sequence[str]) -> None:
    """Check that a model is served.

    Args:
        name: Name in the request, or None.
        served: Names of the served models.

    Raises:
        RequestError: The name of another model. None names whichever is served.
    """
    if name is not None and name not in served:
        hint = nearest(name, served) if len(name) < 200 else f"Known: {', '.join(served)}"
        raise RequestError(
            404,
            f"model {short(name) or '(empty)'} is not served here. {hint}",
            param="model",
            code="model_not_found",
        )


def load_models(
    encoder: str,
    rerank: str | None,
    index: str | Path | None,
    *,
    adapters: Sequence[str] = (),
    compare: str | None = None,
    name: str | None,
    device: str,
    backend: str,
    threshold: str | None = None,
) -> ServedModels:
    """Load the models of runs or folders from their files.

    Args:
        encoder: Run, folder or built-in name.
        rerank: Run or folder of a cross-encoder.
        index: Index folder, or file of texts.
        adapters: Runs with adapters on the same base weights as the encoder.
        compare: A run with other weights that searches the same texts. `index` must be a file of texts.
        name: Name of the model in replies. None: that of the run or folder.
        device: "cpu", "cuda" or "mps".
        backend: Such as "torch" or "onnx".
        threshold: Threshold of the encoder: a score, or a set. Default: its own.

    Returns:
        The models.

    Raises:
        UserError: A missing model or index, or models that cannot be served together.
    """
    if compare is not None and (index is None or is_address(str(index)) or Path(index).is_dir()):
        raise UserError(
            "--compare: give --index FILE, whose texts are encoded by both. An index holds vectors of one run"
        )
    loaded = SentenceEncoder.load(encoder, device=device)
    embedder = Embedder(loaded, name or model_name(encoder), backend, threshold=threshold)
    further = tuple(_adapter_embedder(source, embedder, device, backend) for source in adapters)
    if compare is not None:
        if Path(compare).resolve() == Path(encoder).resolve():
            raise UserError(f"--compare {compare}: this is the served encoder. Name another run")
        further += (Embedder(SentenceEncoder.load(compare, device=device), model_name(compare), backend),)
    reranker = None
    if rerank is not None:
        reranker = Reranker(CrossEncoder.load(rerank, device=device), model_name(rerank))
    names = [each.name for each in (embedder, *further, reranker) if each is not None]
    if repeated := sorted({each for each in names if names.count(each) > 1}):
        raise UserError(f"several are called {', '.join(repeated)}. Rename the folders, or give --name")
    corpus = None if index is None else open_corpus(index, embedder.encoder)
    corpora = {}
    if compare is not None:
        corpora = {further[-1].name: open_corpus(cast(str, index), further[-1].encoder)}
    return ServedModels(embedder, reranker, corpus, int(time.time()), further, corpora)


def _adapter_embedder(source: str, first: Embedder, device: str, backend: str) -> Embedder:
    """The encoder of a further adapter. Raises UserError for weights that would be in memory a second time."""
    encoder = SentenceEncoder.load(source, device=device)
    backbones = {source: encoder.backbone, first.name: first.encoder.backbone}
    if bare := [name for name, backbone in backbones.items() if not has_adapter(backbone)]:
        raise UserError(f"--adapter {source}: {bare[0]} has no adapter. Start another server for {source}")
    if len({base_of(backbone).digest for backbone in backbones.values()}) > 1:
        raise UserError(
            f"--adapter {source}: it and {first.name} have different base models. Start another server for it"
        )
    return Embedder(encoder, model_name(source), backend)


def model_name(source: str) -> str:
    """Return the name of a run or folder. `encoder/` of a run has the run's name.

    Args:
        source: Path of the run or folder.

    Returns:
        The name.
    """
    path = Path(source)
    return (path.parent if path.name == ENCODER_FOLDER else path).name or source


def open_corpus(source: str | Path, encoder: SentenceEncoder) -> Corpus:
    """Open an index folder or a Qdrant collection, or encode the rows of a file in memory.

    Args:
        source: Index folder, Qdrant URL, or file of texts.
        encoder: The encoder that built it.

    Returns:
        The corpus.

    Raises:
        UserError: A missing index, or an index built with other weights.
    """
    path, index = Path(source), cast(Any, None)
    if is_address(str(source)):
        index = QdrantIndex.open(str(source), encoder)
    elif path.is_dir():
        index = Index.open(path, encoder)
    else:
        # How a table is read is an option of the verb that makes an index of it.
        way_out = "juzhen index build … {}, and --index that folder"
        reading = TableReading(spell=lambda option, value: way_out.format(typed(option, value)))
        index = index_in_memory(encoder, read_rows(path, reading))
    index.warm()
    return Corpus(index, path.resolve().name, index.facts()["dimension"])


MOST_WORDS = 128
"""Of a text: with as many the encoder computes it as many times."""


@dataclass(frozen=True)
class Word:
    """A part of a text that is left out as a whole.

    Args:
        start: Number of its first character in the text.
        end: Number of the character after it.
        tokens: Its positions among the tokens of the text.
    """

    start: int
    end: int
    tokens: tuple[int, ...]


def words_of(encoder: SentenceEncoder, text: str, *, param: str) -> tuple[np.ndarray, list[Word]]:
    """Find the words of a text, and the token ids of the text with its prompt. Special tokens belong to no word.

    Tokens within a run of letters, and tokens that share a character, form one word.

    Args:
        encoder: Encoder with the prompt of the text.
        text: Text without prompt. It may be truncated.
        param: Field of the text, for the message.

    Returns:
        int32 (tokens,) ids with special tokens, and the words in order.

    Raises:
        RequestError: Too many words, or a tokenizer without character offsets.
    """
    if not encoder.tokenizer.is_fast:
        raise RequestError(
            400, "the tokenizer of this encoder does not tell where its tokens stand in a text"
        )
    (full,) = encoder.prompted([text])
    shift = len(full) - len(text)
    encoding = encoder.tokenizer(
        full, truncation=True, max_length=encoder.max_length, padding=False, return_offsets_mapping=True
    )
    parts: list[Word] = []
    for number, (start, end) in enumerate(encoding["offset_mapping"]):
        start, end = _stripped(full, max(start, shift), end)
        if start >= end:
            continue
        start, end = start - shift, end - shift
        if parts and (start < parts[-1].end or _is_inside(text, start, parts[-1].end)):
            last = parts.pop()
            parts.append(Word(last.start, max(end, last.end), (*last.tokens, number)))
        else:
            parts.append(Word(start, end, (number,)))
    if len(parts) > MOST_WORDS:
        raise wrong_field(
            param, f"{len(parts):,} words; at most {MOST_WORDS} can be weighed, send a shorter text"
        )
    return np.asarray(encoding["input_ids"], dtype=np.int32), parts


def weighed(text: str, words: Sequence[Word], weights: Sequence[float]) -> list[dict[str, object]]:
    """Split the text into parts that join to the text.

    Args:
        text: The text.
        words: Its words in order, as `words_of` gives them.
        weights: A weight a word.

    Returns:
        Parts with `text` and `weight`. The weight is None outside words.
    """
    parts: list[dict[str, object]] = []
    position = 0
    for word, weight in zip(words, weights, strict=True):
        if word.start > position:
            parts.append({"text": text[position : word.start], "weight": None})
        parts.append({"text": text[word.start : word.end], "weight": weight})
        position = word.end
    if position < len(text):
        parts.append({"text": text[position:], "weight": None})
    return parts


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the spaces at its ends, which some tokenizers count to the token behind them."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _is_inside(text: str, start: int, before: int) -> bool:
    """True if the token at `start` continues the run of letters that ended at `before`."""
    return start == before and all(
        character.isalnum() and east_asian_width(character) not in "WF"
        for character in text[start - 1 : start + 1]
    )
