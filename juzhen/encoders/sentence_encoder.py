"""SentenceEncoder and PromptEncoder: from a saved folder to an encoder, from texts to embeddings and scores."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
    TypedDict,
    Unpack,
    cast,
    overload,
)

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.columns import as_pairs, as_text_list, as_texts, as_vectors, require_finite, side_by_side
from juzhen.core.errors import UserError
from juzhen.core.examples import Side
from juzhen.core.lazy_names import offered
from juzhen.core.machine import open_device, warn_forked
from juzhen.core.progress import progress_bar
from juzhen.core.text import short
from juzhen.encoders.backbone import other_layers, require_growing, token_embeddings
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.base_weights import around_same_weights, has_adapter, remember_layers
from juzhen.encoders.batch_invariance import check_batch_invariance
from juzhen.encoders.chunks import Backend, LongTexts, PassageMixin, computed, note_truncated
from juzhen.encoders.components import EncoderComponents, read_components, warn_of
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import pair_scores, require_finite_vectors, sides, truncate_vectors, unit
from juzhen.encoders.projection import BilinearScore
from juzhen.encoders.prompts import TEMPLATES, Templates, refuse_prompt
from juzhen.encoders.resolve_path import encoder_folder, encoder_source, scores_pairs
from juzhen.encoders.save import HubMixin, licence_of
from juzhen.encoders.search import (
    ApproximateIndex,
    Hit,
    Quantized,
    as_hits,
    check_top_k,
    exact_search,
    in_order,
)
from juzhen.encoders.template_encoder import TemplateEncoder
from juzhen.encoders.thresholds import ThresholdMixin
from juzhen.encoders.tokens import BATCH_TOKENS
from juzhen.encoders.workers import Workers, started

Vectors = np.ndarray | Tensor | list[np.ndarray] | list[Tensor]
"""Embeddings as `encode` gives them, (rows, dim), or one alone (dim,)."""

Corpus = Any
"""Texts, embeddings of texts, or an `ApproximateIndex`."""

TOP_K = 10
"""Default number of documents of a search."""

BY_ITSELF = "torch"
"""How an encoder computes without a back end: as the one of that name does."""

PORTION = 65_536
"""Sentences that are encoded before their embeddings are written to a cache."""


class Options(TypedDict, total=False):
    """Keyword arguments of `SentenceEncoder.encode`."""

    prompt_name: str | None
    prompt: str | None
    normalize: bool | None
    truncate_dim: int | None
    batch_tokens: int
    show_progress: bool | None
    workers: int | Sequence[str | torch.device] | Workers | None
    backend: Backend | None
    cache: EmbeddingCache | None
    long_texts: LongTexts | None
    overlap: int | None
    strict: bool


class SentenceEncoder(ThresholdMixin, HubMixin, PassageMixin, PooledEncoder):
    """Texts to embeddings.

    As a module it returns embeddings with gradients: `encoder(encoder.collate(encoder.tokenize(texts)))`.

    Args:
        backbone: A Hugging Face encoder without a head.
        tokenizer: Its tokenizer.
        pooling: A name of `juzhen.encoders.pooling.POOLINGS`.
        normalize: Embeddings have length 1.
        max_length: Tokens per sentence, special tokens included.
        projections: Layers after pooling.
        prompts: Known prompts.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> encoder = SentenceEncoder.load("builtin/mini_zh")
        >>> encoder.search("怎么退货", ["今天天气很好", "如何退货"], top_k=1)[0].corpus_id
        1
    """

    family: ClassVar[str] = "bi_encoder"

    @classmethod
    @takes_peer_options
    def load(
        cls,
        source: str | Path,
        *,
        revision: str | None = None,
        device: str | torch.device = "cpu",
        truncate_dim: int | None = None,
    ) -> Self:
        """Load an encoder from a folder, a run, a built-in name such as builtin/mini_zh, or the Hugging Face hub.

        Args:
            source: Folder, run, built-in name or hub id.
            revision: Branch, tag or commit on the hub.
            device: Device of the weights, such as cuda:1. `encoder.to(device)` moves them later.
            truncate_dim: Default of `encode`.

        Returns:
            The encoder in evaluation mode, a `PromptEncoder` if it has templates. Weights in bfloat16 or float16
            become float32. transformers keeps the dtype of the file.

        Raises:
            UserError: No encoder is found, or it is a cross-encoder, which has no embeddings.

        Example:
            >>> SentenceEncoder.load("builtin/mini_zh").dim
            256
        """
        target = open_device(device)
        config = BackboneConfig(
            path=encoder_source(source, revision), revision=revision, initialize="pretrained"
        )
        parts = read_components(config, seed=0)
        if parts.folder is not None and scores_pairs(parts.folder):
            raise UserError(
                f"{source}: holds a cross-encoder, which scores pairs and has no embeddings. Load it with "
                "CrossEncoder.load(…)"
            )
        encoder = cls.of(parts)
        if not isinstance(encoder, cls):
            has, fitting = (
                ("templates", "PromptEncoder") if parts.templates else ("no templates", "SentenceEncoder")
            )
            raise UserError(
                f"{source}: holds {has}, so it is no {cls.__name__}. Load it with {fitting}.load(…)"
            )
        encoder.truncate_dim = truncate_dim
        warn_of(source, encoder.load_warnings)
        return encoder.to(target).eval()

    @classmethod
    def of(cls, parts: EncoderComponents) -> "SentenceEncoder":
        """Build an encoder of this class from its components, a PromptEncoder if they include templates.

        Args:
            parts: The components.

        Returns:
            The encoder.
        """
        plain_class = SentenceEncoder if issubclass(cls, PromptEncoder) else cls
        encoder = plain_class(parts.backbone, parts.tokenizer, **parts.options)
        check_batch_invariance(encoder)
        if parts.templates is not None:
            encoder = PromptEncoder.around(encoder, parts.templates)
        if parts.folder is not None:
            encoder.licence = licence_of(parts.folder)
            encoder.score_head = BilinearScore.load(parts.folder, dim=encoder.dim)
        encoder.load_warnings, encoder._is_finished = parts.load_warnings, True
        encoder._is_loaded_from(parts.folder)
        return encoder

    @overload
    def encode(
        self,
        texts: str | Iterable[str],
        *,
        convert_to_tensor: Literal[False] = ...,
        **options: Unpack[Options],
    ) -> Float[np.ndarray, "*sentences dim"]: ...

    @overload
    def encode(
        self, texts: str | Iterable[str], *, convert_to_tensor: Literal[True], **options: Unpack[Options]
    ) -> Float[Tensor, "*sentences dim"]: ...

    @takes_peer_options
    def encode(
        self,
        texts: str | Iterable[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        convert_to_tensor: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        workers: int | Sequence[str | torch.device] | Workers | None = None,
        backend: Backend | None = None,
        cache: EmbeddingCache | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        strict: bool = False,
    ) -> Float[np.ndarray, "*sentences dim"] | Float[Tensor, "*sentences dim"]:
        """Encode texts into embeddings, without gradients and without dropout.

        Equal texts are encoded once. Texts of similar length share a batch. Options by the names of
        sentence-transformers are accepted if they mean the same, such as show_progress_bar and
        normalize_embeddings.

        Args:
            texts: One text or a list.
            prompt_name: Name of the prompt to prepend. None takes the default of the encoder.
            prompt: Text to prepend instead of a named prompt. "" prepends nothing.
            normalize: True scales embeddings to length 1. None keeps the length that the encoder returns.
            truncate_dim: Keep the first dimensions only, and normalize again if the encoder normalizes. None keeps all.
            convert_to_tensor: Return a tensor on the device of the encoder instead of an array.
            batch_tokens: Tokens of a batch, padding included. A longer text is a batch alone.
            show_progress: Progress bar. None shows it on a terminal once the work has taken some seconds.
            workers: Processes that share the work: their number on the CPU, a list of devices, or `Workers` that serve
                several calls. None computes in this process.
            backend: Backend, as `open_backend(encoder, "onnx")` returns it. None is the encoder itself.
            cache: Embeddings to look up first and to extend. None uses no cache.
            long_texts: As in `with_long_texts`.
            overlap: As in `with_long_texts`.
            strict: Raise an error for a truncated text and for an untrained `truncate_dim`. False prints one warning
                (`TruncationWarning`).

        Returns:
            float32 array (texts, dim), in order. A vector for a single text.

        Raises:
            UserError: A text is empty or not a string, the prompt is unknown, or an option of sentence-transformers has
                another meaning here.

        Example:
            >>> SentenceEncoder.load("builtin/mini_zh").encode(["今天天气很好", "A dog."]).shape
            (2, 256)
        """
        if backend is not None and workers is not None:
            raise UserError("workers, backend: give one of the two")
        encoder = self if prompt_name is None and prompt is None else self.with_prompt(prompt_name, prompt)
        encoder = encoder.with_long_texts(long_texts, overlap)
        sentences, is_one = as_texts(texts)
        size = self.size_of(truncate_dim)
        self.require_length(normalize)
        distinct = defaultdict[str, int](count().__next__)
        positions = [*map(distinct.__getitem__, sentences)]
        with encoder._reported(strict=strict, size=size) as seen, started(self, workers) as processes:
            seen.weights.update(sentences)
            vectors = encoder._looked_up(
                list(distinct), backend, processes, cache, batch_tokens=batch_tokens, progress=show_progress
            )
        if size < self.dim:
            vectors = truncate_vectors(vectors, size, normalize=self.normalize)
        if normalize:
            vectors = unit(vectors)
        if is_one or len(distinct) < len(positions):
            vectors = vectors[positions[0] if is_one else positions]
        return torch.from_numpy(vectors).to(self.device) if convert_to_tensor else vectors

    def size_of(self, truncate_dim: int | None = None) -> int:
        """Return the number of dimensions of the embeddings that `encode` returns.

        Args:
            truncate_dim: Number of dimensions to keep. None: all.

        Returns:
            The number.

        Raises:
            UserError: More dimensions than those of the encoder.
        """
        self.check_setting("truncate_dim", truncate_dim)
        return int(truncate_dim or self.truncate_dim or self.dim)

    @takes_peer_options
    def encode_query(self, texts: str | Iterable[str], **options: Any) -> Float[np.ndarray, "*sentences dim"]:
        """Encode queries, with the prompt `query` if the encoder has one and no other is given.

        Args:
            texts: One text or a list.
            options: As in `encode`.

        Returns:
            As `encode`.

        Example:
            >>> SentenceEncoder.load("builtin/mini_zh").encode_query("怎么退货").shape
            (256,)
        """
        return self._reading(Side.QUERY, options).encode(texts, **options)

    @takes_peer_options
    def encode_document(
        self, texts: str | Iterable[str], **options: Any
    ) -> Float[np.ndarray, "*sentences dim"]:
        """Encode documents, with the first prompt among `document`, `passage` and `corpus`.

        Args:
            texts: One text or a list.
            options: As in `encode`.

        Returns:
            As `encode`.

        Example:
            >>> SentenceEncoder.load("builtin/mini_zh").encode_document(["如何退货", "今天天气很好"]).shape
            (2, 256)
        """
        return self._reading(Side.DOCUMENT, options).encode(texts, **options)

    def _reading(self, side: Side, options: Mapping[str, Any]) -> "SentenceEncoder":
        is_chosen = any(options.get(name) is not None for name in ("prompt_name", "prompt"))
        return self if is_chosen else self.reading(side)

    @takes_peer_options
    def similarity(
        self, first: str | Iterable[str] | Vectors, second: str | Iterable[str] | Vectors, **options: Any
    ) -> Float[np.ndarray, "*first_and_second"]:
        """Score each text of `first` with each text of `second`, by the cosine or by the learnt score head.

        Args:
            first: Texts, or embeddings of this encoder.
            second: Texts, or embeddings of this encoder.
            options: Options of `encode` for texts.

        Returns:
            float32 matrix (first, second), higher = closer. A single text has no axis.

        Raises:
            UserError: Embeddings of another size, or texts that `encode` refuses.

        Example:
            >>> scores = SentenceEncoder.load("builtin/mini_zh").similarity("怎么退货", ["如何退货", "今天天气很好"])
            >>> bool(scores[0] > scores[1])
            True
        """
        size = self.size_of(options.get("truncate_dim"))
        _require_read(options, first, second)
        with self._reported(strict=options.get("strict", False), size=size):
            rows, columns = (
                self._vectors(values, name, partial(self.encode, **options), size)
                for name, values in (("first", first), ("second", second))
            )
        wide = [np.atleast_2d(vectors).astype(np.float64) for vectors in (rows, columns)]
        scores = sides(wide[0], self.score_head)[0] @ unit(wide[1]).T
        return scores.astype(np.float32).reshape(rows.shape[:-1] + columns.shape[:-1])

    def _vectors(
        self, values: Any, name: str, encode: Callable[[Any], Float[np.ndarray, "*sentences dim"]], size: int
    ) -> Float[np.ndarray, "*sentences dim"]:
        """First `size` dimensions of embeddings or of encoded texts. Raises UserError if embeddings do not fit."""
        vectors = as_vectors(values)
        if vectors is None:
            return encode(values)
        if vectors.ndim not in (1, 2) or vectors.shape[-1] not in (size, self.dim):
            raise UserError(
                f"{name}: embeddings have the shape {vectors.shape}. Give embeddings of this encoder, with "
                f"{self.dim} dimensions"
            )
        require_finite_vectors(np.atleast_2d(vectors), name)
        return vectors[..., :size]

    @takes_peer_options
    def score(
        self,
        pairs: Iterable[tuple[str, str]] | tuple[str, str] | str | Iterable[str],
        second: str | Iterable[str] | None = None,
        /,
        **options: Any,
    ) -> Float[np.ndarray, "*pairs"]:
        """Score pairs by the cosine, or by the learnt score head.

        Args:
            pairs: Pairs of texts, one pair, or the first texts. `score("a", "b")` and `score(firsts, seconds)` work
                too.
            second: Second texts, if `pairs` are first texts.
            options: As in `encode`.

        Returns:
            float32 array (pairs,), in order, higher = closer. A number for a single pair.

        Raises:
            UserError: As of `encode`, or numbers of first and second texts that differ.

        Example:
            >>> encoder = SentenceEncoder.load("builtin/mini_zh")
            >>> encoder.score([("怎么退货", "如何退货"), ("怎么退货", "今天天气很好")]).argmax().item()
            0
        """
        first, second, is_one = as_pairs(side_by_side(pairs, second))
        embeddings = self.encode([*first, *second], **options)
        rows = np.arange(len(first))
        scores = pair_scores(embeddings, embeddings, rows, rows + len(first), head=self.score_head)
        require_finite(scores, list(zip(first, second, strict=True)), key="pair")
        return scores[0] if is_one else scores

    @overload
    def search(self, queries: str, corpus: Corpus, top_k: int | None = ..., **options: Any) -> list[Hit]: ...

    @overload
    def search(
        self, queries: Iterable[str], corpus: Corpus, top_k: int | None = ..., **options: Any
    ) -> list[list[Hit]]: ...

    @overload
    def search(self, queries: Vectors, corpus: Corpus, top_k: int | None = ..., **options: Any) -> Any: ...

    @takes_peer_options
    def search(
        self,
        queries: str | Iterable[str] | Vectors,
        corpus: Corpus,
        top_k: int | None = None,
        *,
        document_prompt: str | None = None,
        **options: Any,
    ) -> Any:
        """Find the `top_k` documents with the highest scores for each query.

        All documents are compared in blocks, so memory does not grow with their number. For equal scores the earlier
        document comes first.

        Args:
            queries: Texts, or embeddings that `encode_query` returned.
            corpus: Texts, or embeddings that `encode_document` returned for repeated searches, or an
                `ApproximateIndex` of embeddings with normalize=True, or `juzhen.quantize(embeddings)`.
            top_k: Documents per query. None returns 10, or all if there are fewer.
            document_prompt: Name of the prompt of the documents. None is that of `encode_document`. Use "query" if the
                corpus holds texts of the same sort as the queries.
            options: Options of `encode_query`.

        Returns:
            A list of `Hit` for each query, best first. One list for a single query.

        Raises:
            UserError: The corpus is empty or has fewer than `top_k` documents, or embeddings do not fit the encoder.

        Example:
            >>> encoder = SentenceEncoder.load("builtin/mini_zh")
            >>> [hit.corpus_id for hit in encoder.search("怎么退货", ["今天天气很好", "如何退货"], top_k=1)]
            [1]
        """
        size = self.size_of(options.get("truncate_dim"))
        _require_read(options, queries)
        if document_prompt is not None:
            _require_read({"document_prompt": document_prompt}, corpus)
        with self._reported(strict=options.get("strict", False), size=size):
            if isinstance(corpus, ApproximateIndex | Quantized):
                corpus.check(self)
                find, documents = corpus.search, corpus.documents
                size = options["truncate_dim"] = self.size_of(corpus.dim)
            else:
                chosen = options | {"prompt_name": document_prompt, "prompt": None}
                documents = self._vectors(
                    corpus,
                    "corpus",
                    lambda texts: self.encode_document(as_text_list(texts, "corpus"), **chosen),
                    size,
                )
                find = partial(exact_search, documents=unit(np.atleast_2d(documents)))
            top_k = min(TOP_K, len(documents)) if top_k is None else top_k
            check_top_k(top_k, len(documents))
            query_vectors = self._vectors(queries, "queries", partial(self.encode_query, **options), size)
        is_one, query_vectors = query_vectors.ndim == 1, np.atleast_2d(query_vectors)
        numbers = find(sides(query_vectors, self.score_head)[0], k=top_k)[0]
        rows = np.repeat(np.arange(len(numbers)), numbers.shape[1])
        scores = pair_scores(query_vectors, cast(Any, documents), rows, numbers.ravel(), head=self.score_head)
        numbers, scores = in_order(numbers, scores.reshape(numbers.shape))
        hits = as_hits(numbers, scores)
        return hits[0] if is_one else hits

    def _looked_up(
        self,
        sentences: Sequence[str],
        backend: Backend | None,
        workers: Workers | None,
        cache: EmbeddingCache | None,
        *,
        batch_tokens: int,
        progress: bool | None,
    ) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings of distinct texts. Texts that the cache lacks are encoded and added to it."""
        warn_forked()
        if workers is not None:
            workers.check(self)
        name, compute = (BY_ITSELF, self.infer) if backend is None else (backend.name, backend.encode)
        partition = None if cache is None else cache.partition(self, name)
        embeddings = np.empty((len(sentences), self.dim), dtype=np.float32)
        pending = np.arange(len(sentences)) if partition is None else partition.fill(sentences, embeddings)
        if len(pending) < len(sentences):
            known = np.setdiff1d(np.arange(len(sentences)), pending, assume_unique=True)
            note_truncated(self, [sentences[row] for row in known])
        # What is kept is kept in portions, so that a run that ends early has not worked in vain.
        size = max(len(pending), 1) if partition is None else PORTION
        with progress_bar("encoding sentences", len(pending), shown=progress) as advance:
            for start in range(0, len(pending), size):
                rows = pending[start : start + size]
                chosen = [sentences[row] for row in rows]
                embeddings[rows] = computed(
                    self, chosen, compute, workers, batch_tokens=batch_tokens, advance=advance
                )
                if partition is not None:
                    partition.add(chosen, embeddings[rows])
        return embeddings


def _require_read(options: Mapping[str, Any], *inputs: Any) -> None:
    """Raise UserError for an option of `encode` if all inputs are embeddings, so that nothing is encoded."""
    name = next((name for name in options if name not in ("truncate_dim", "strict", "show_progress")), None)
    if name is not None and all(
        isinstance(each, ApproximateIndex | Quantized) or as_vectors(each) is not None for each in inputs
    ):
        raise UserError(
            f"{name}={short(repr(options[name]), 40)}: embeddings are given, so no text is encoded. Leave it out"
        )


def load_encoder(folder_or_run: str | Path) -> SentenceEncoder:
    """Load the encoder of a folder or a run, in training mode.

    Args:
        folder_or_run: Folder or run. The hub is not asked.

    Returns:
        The encoder.

    Raises:
        UserError: As in `SentenceEncoder.load`.

    Example:
        >>> load_encoder("builtin/mini_zh").training
        True
    """
    encoder_folder(folder_or_run)  # the hub is not asked
    return SentenceEncoder.load(folder_or_run).train()


class PromptEncoder(TemplateEncoder, SentenceEncoder):
    """A SentenceEncoder that reads sentences through templates.

    Args:
        backbone: A Hugging Face encoder without a head.
        tokenizer: Its tokenizer.
        templates: Templates and their reading.
        max_length: Tokens of the whole input.
        options: As in `SentenceEncoder`.

    Example:
        >>> from juzhen.encoders.prompts import Templates
        >>> encoder = PromptEncoder.around(load_encoder("builtin/mini_zh"), Templates("“[X]”的意思是[MASK]。"))
        >>> encoder.eval().encode(["今天天气很好", "A dog."]).shape
        (2, 256)
    """

    family = "template"

    @classmethod
    def around(cls, encoder: PooledEncoder, templates: Templates) -> "PromptEncoder":
        """Wrap the backbone of an encoder in templates.

        Args:
            encoder: The encoder. It is not changed, and shares its weights.
            templates: One or two templates for each language.

        Returns:
            The new encoder.

        Raises:
            UserError: The encoder has a default prompt.
        """
        refuse_prompt(TEMPLATES, encoder.prompt)
        encoder = around_same_weights(encoder, own=token_embeddings(encoder.backbone).weight)
        return cls(
            encoder.backbone,
            encoder.tokenizer,
            templates=templates,
            pooling=encoder.pooling,
            normalize=encoder.normalize,
            max_length=encoder.input_length,
            projections=encoder.output_layers,
        )


def load_backbone(config: BackboneConfig, *, seed: int, reader: str | None = None) -> SentenceEncoder:
    """Load the encoder of a configuration, in float32 on the CPU, in training mode.

    Args:
        config: The encoder. A null setting keeps the value of the folder.
        seed: Seed of new weights: those of `initialize=random`, of added layers and of an adapter.
        reader: As in `read_components`.

    Returns:
        The encoder.

    Raises:
        UserError: As in `juzhen.encoders.components.read_components`.

    Example:
        >>> load_backbone(BackboneConfig(path="builtin/encoder", initialize="random"), seed=0).dim
        256
    """
    encoder = SentenceEncoder.of(read_components(config, seed=seed, reader=reader)).train()
    if config.layers is not None:
        encoder = with_layers(encoder, config.layers, seed=seed)
    if config.adapter is not None:
        offered("adapters", "add")(encoder.backbone, config.adapter, seed=seed)
    return encoder


def with_layers(encoder: SentenceEncoder, layers: int, *, seed: int) -> SentenceEncoder:
    """Keep the first `layers` layers of an encoder, or add new layers on top that start as the identity.

    A new layer adds nothing to the states at first, because its two output matrices are 0. The embeddings stay the
    same: the last normalization moves to the new top, and normalizing twice equals normalizing once.

    Args:
        encoder: Not changed. With as many layers it is returned itself.
        layers: Number of layers.
        seed: Draws the other weights of new layers.

    Returns:
        A new encoder in the same mode, or `encoder` itself.

    Raises:
        UserError: An architecture other than BERT and RoBERTa, an adapter, or templates.
    """
    config = encoder.backbone.config
    if config.num_hidden_layers == layers:
        return encoder
    require_growing(encoder.backbone, layers)
    if has_adapter(encoder.backbone) or encoder.templates is not None:
        raise UserError(
            f"layers={layers}: an encoder with an adapter or templates keeps its layers. Leave it at null."
        )
    backbone = other_layers(encoder.backbone, layers, seed=seed)
    remember_layers(backbone, encoder.backbone, layers)
    grown = SentenceEncoder(
        backbone,
        encoder.tokenizer,
        pooling=encoder.pooling,
        normalize=encoder.normalize,
        max_length=encoder.max_length,
        projections=encoder.output_layers,
        prompts=encoder.prompts,
    )
    grown.score_head, grown.licence = encoder.score_head, encoder.licence
    return grown.train(encoder.training)
