"""SentenceEncoder and PromptEncoder: from a saved folder to an encoder, from texts to embeddings and scores."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypedDict, Unpack, cast, overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Tokens
from juzhen.core.columns import as_pairs, as_text_list, as_texts, as_vectors, require_finite, side_by_side
from juzhen.core.errors import UserError
from juzhen.core.examples import Side
from juzhen.core.lazy_names import offered
from juzhen.core.machine import open_device, warn_forked
from juzhen.core.progress import progress_bar
from juzhen.encoders.backbone import other_layers, require_growing
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.base_weights import has_adapter, remember_layers
from juzhen.encoders.batch_invariance import check_batch_invariance
from juzhen.encoders.chunks import LongTexts, PassageMixin, computed, note_truncated
from juzhen.encoders.components import EncoderComponents, read_components
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import pair_scores, sides, truncate_vectors, unit
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
"""Documents that a search gives where nothing is said."""

BY_ITSELF = "torch"
"""How an encoder computes without a back end: as the one of that name does."""

PORTION = 65_536
"""Sentences that are encoded before their embeddings are written to a cache."""


class Backend(Protocol):
    """Turns tokens into embeddings, without gradients and without dropout."""

    @property
    def name(self) -> str:
        """One word for how it computes; part of the key under which embeddings are kept."""

    def encode(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings in float32, in the order in which the sentences were collated."""


class Options(TypedDict, total=False):
    """What `SentenceEncoder.encode` takes beside texts; what is not said is as there."""

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

    As a module it gives embeddings with gradients: `encoder(encoder.collate(encoder.tokenize(texts)))`.
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
        """The encoder in a folder or of a run, a built-in one such as builtin/mini_zh, or one of the Hugging Face hub.

        revision  branch, tag or commit on the hub
        device    where it computes, such as cuda:1; `encoder.to(device)` moves it later
        truncate_dim  as of `encode`, wherever that is not told another one

        In float32, in evaluation mode. One that reads sentences through templates is a PromptEncoder.
        Raises UserError where there is none, and for a cross-encoder, which has no embeddings.
        """
        target = open_device(device)
        config = BackboneConfig(path=encoder_source(source), revision=revision, initialize="pretrained")
        parts = read_components(config, seed=0)
        if parts.folder is not None and scores_pairs(parts.folder):
            raise UserError(
                f"{source}: holds a cross-encoder, which scores pairs and has no embeddings: CrossEncoder.load(…); "
                "its transformer alone is a "
                "backbone for an encoder of texts"
            )
        encoder = cls.of(parts)
        if not isinstance(encoder, cls):
            raise UserError(
                f"{source}: holds no templates, which a PromptEncoder reads: SentenceEncoder.load(…)"
            )
        encoder.truncate_dim = truncate_dim
        return encoder.to(target).eval()

    @staticmethod
    def of(parts: EncoderComponents) -> "SentenceEncoder":
        """The encoder that is made of `parts`; a PromptEncoder where they hold templates."""
        encoder = SentenceEncoder(parts.backbone, parts.tokenizer, **parts.options)
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
        """Embeddings of the texts in their order, float32, without gradients and without dropout; of one text a vector.

        Equal texts are encoded once. Texts of like length go together, at most `batch_tokens` tokens at a
        time with padding (a longer text goes alone).

        prompt_name  the prompt of the encoder that stands before each text; None: its default, if it has one
        prompt     a text of your own in its place; "": nothing stands before the texts
        normalize  True: of length 1; None: of the length that the encoder gives them
        truncate_dim  only the first so many numbers, of length 1 again where the encoder's own are; None: all
        convert_to_tensor  a tensor on the device of the encoder in the place of an array
        show_progress  a bar; None: on a terminal, once the work has taken some seconds
        workers    processes that share the work: their number on the CPU, a list of devices, or `Workers` that serve
                   several calls; None: this process alone
        backend    what computes, as `open_backend(encoder, "onnx")` gives it; None: the encoder itself
        cache      where embeddings are looked up first and kept afterwards; None: nowhere
        long_texts, overlap  as of `with_long_texts`
        strict     a text that would be truncated, and a `truncate_dim` that the encoder was not trained for, raise
                   UserError; False: one warning (`TruncationWarning`) with their number

        Options by the names of sentence-transformers are taken where they mean the same, such as show_progress_bar and
        normalize_embeddings. Raises UserError for others of them, with what to type; for a text that is empty or no
        string; and for a prompt that is not there.
        """
        if backend is not None and workers is not None:
            raise UserError("workers, backend: give one of the two")
        encoder = self if prompt_name is None and prompt is None else self.with_prompt(prompt_name, prompt)
        encoder = encoder.with_long_texts(long_texts, overlap)
        sentences, is_one = as_texts(texts)
        size = self.size_of(truncate_dim)
        if normalize is False and self.normalize:
            raise UserError("normalize=False: this encoder gives embeddings of length 1; leave it out")
        distinct: dict[str, int] = {}
        positions = [distinct.setdefault(text, len(distinct)) for text in sentences]
        with encoder._reported(strict=strict, size=size) as seen, started(self, workers) as processes:
            seen.weights.update(sentences)
            vectors = encoder._looked_up(
                list(distinct), backend, processes, cache, batch_tokens=batch_tokens, progress=show_progress
            )
        if size < self.dim:
            vectors = truncate_vectors(vectors, size, normalize=self.normalize)
        if normalize:
            vectors = unit(vectors)
        vectors = vectors[positions[0]] if is_one else vectors[positions]
        return torch.from_numpy(vectors).to(self.device) if convert_to_tensor else vectors

    def size_of(self, truncate_dim: int | None = None) -> int:
        """Numbers of an embedding that `encode` gives. Raises UserError for more than the encoder's own."""
        self.check_setting("truncate_dim", truncate_dim)
        return truncate_dim or self.truncate_dim or self.dim

    @takes_peer_options
    def encode_query(self, texts: str | Iterable[str], **options: Any) -> Float[np.ndarray, "*sentences dim"]:
        """As `encode`, behind the prompt for queries, `query`, where the encoder has one and the options name none."""
        return self._reading(Side.QUERY, options).encode(texts, **options)

    @takes_peer_options
    def encode_document(
        self, texts: str | Iterable[str], **options: Any
    ) -> Float[np.ndarray, "*sentences dim"]:
        """As `encode`, behind the prompt for documents: `document`, else `passage`, else `corpus`."""
        return self._reading(Side.DOCUMENT, options).encode(texts, **options)

    def _reading(self, side: Side, options: Mapping[str, Any]) -> "SentenceEncoder":
        is_chosen = any(options.get(name) is not None for name in ("prompt_name", "prompt"))
        return self if is_chosen else self.reading(side)

    def similarity(
        self, first: str | Iterable[str] | Vectors, second: str | Iterable[str] | Vectors, **options: Any
    ) -> Float[np.ndarray, "*first_and_second"]:
        """The score of each text of `first` with each of `second`, higher = closer: the cosine, or its learnt form.

        Either side may be embeddings of this encoder in the place of texts. A matrix (first, second); one text alone
        has no axis of its own. Options, which are for texts, and errors: as `encode`.
        """
        size = self.size_of(options.get("truncate_dim"))
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
        """The first `size` numbers of embeddings, and of those of texts. Raises UserError for other embeddings."""
        vectors = as_vectors(values)
        if vectors is None:
            return encode(values)
        if vectors.ndim not in (1, 2) or vectors.shape[-1] not in (size, self.dim):
            raise UserError(
                f"{name}: embeddings of the shape {vectors.shape}; those of this encoder have {self.dim} numbers"
            )
        return vectors[..., :size]

    def score(
        self,
        pairs: Iterable[tuple[str, str]] | tuple[str, str] | str | Iterable[str],
        second: str | Iterable[str] | None = None,
        /,
        **options: Any,
    ) -> Float[np.ndarray, "*pairs"]:
        """The score of each pair in its order, as evaluation has it: the cosine, or the learnt form of this encoder.

        Of one pair a number. `score("a", "b")`, `score(firsts, seconds)`: the two sides apart.
        Options and errors: as `encode`.
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

    def search(
        self,
        queries: str | Iterable[str] | Vectors,
        corpus: Corpus,
        top_k: int | None = None,
        *,
        document_prompt: str | None = None,
        **options: Any,
    ) -> Any:
        """For each query the `top_k` documents with the highest scores as `Hit`s, best first; of one query one list.

        All documents are looked at, some at a time; of equal scores the document that stands first comes first.

        queries          texts, or what `encode_query` gives for them
        corpus           texts; what `encode_document` gives for them, to be searched more than once; or an
                         `ApproximateIndex` of that, with normalize=True, which looks at a part of it; or what
                         `juzhen.quantize` makes of it
        top_k            None: 10, or all where there are fewer
        document_prompt  name of the prompt before each text of the corpus; None: as `encode_document`. Where it holds
                         texts of the same sort as the queries: query

        Options, which are those of the queries (`encode_query`), and errors: as `encode`. Raises UserError for an empty
        corpus, for more documents than it has, and for embeddings of another encoder.
        """
        size = self.size_of(options.get("truncate_dim"))
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
        """Embeddings of distinct texts; those that the cache lacks are encoded and kept."""
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


def load_encoder(folder_or_run: str | Path) -> SentenceEncoder:
    """The encoder in a folder or of a run, in training mode. Errors: as `SentenceEncoder.load`."""
    encoder_folder(folder_or_run)  # the hub is not asked
    return SentenceEncoder.load(folder_or_run).train()


class PromptEncoder(TemplateEncoder, SentenceEncoder):
    """A SentenceEncoder that reads sentences through templates."""

    family = "template"

    @classmethod
    def around(cls, encoder: PooledEncoder, templates: Templates) -> "PromptEncoder":
        """The same backbone, read through `templates`. Raises UserError where a prompt stands before its sentences."""
        refuse_prompt(TEMPLATES, encoder.prompt)
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
    """The sentence encoder that `config` describes, in float32 on the CPU, in training mode.

    seed  draws what is new: weights under `initialize=random`, added layers, an adapter
    reader  as of `read_components`

    What the configuration leaves open, and errors: as `juzhen.encoders.components.read_components`.
    """
    encoder = SentenceEncoder.of(read_components(config, seed=seed, reader=reader)).train()
    if config.layers is not None:
        encoder = with_layers(encoder, config.layers, seed=seed)
    if config.adapter is not None:
        offered("adapters", "add")(encoder.backbone, config.adapter, seed=seed)
    return encoder


def with_layers(encoder: SentenceEncoder, layers: int, *, seed: int) -> SentenceEncoder:
    """The encoder with its first `layers` layers, or with new ones on top that hand on what they are given.

    A new layer adds nothing to the states until it has learnt something, because its two output matrices are 0; its
    other weights are drawn with `seed`. The encoder gives the embeddings it gave before: the last normalization moves
    to the new top, and normalizing twice is normalizing once. Raises UserError for other architectures than BERT and
    RoBERTa.
    """
    config = encoder.backbone.config
    if config.num_hidden_layers == layers:
        return encoder
    require_growing(encoder.backbone, layers)
    if has_adapter(encoder.backbone) or encoder.templates is not None:
        raise UserError(
            f"layers={layers}: an encoder with adapter or templates keeps its layers; leave it at null"
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
