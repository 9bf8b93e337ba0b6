"""SentenceEncoder and PromptEncoder: from a saved folder to an encoder, from texts to embeddings and scores."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, overload

import numpy as np
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Tokens
from juzhen.core.columns import as_pairs, as_text_list, as_texts, side_by_side
from juzhen.core.errors import UserError
from juzhen.core.examples import Side
from juzhen.core.progress import progress_bar
from juzhen.core.threads import tell_of_fork
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.encoders.licence import licence_of
from juzhen.encoders.locate import encoder_source, scores_pairs
from juzhen.encoders.parts import Parts, read_parts
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import pair_scores, sides, unit
from juzhen.encoders.projection import BilinearScore
from juzhen.encoders.prompts import TEMPLATES, prompt_refused
from juzhen.encoders.proof import prove
from juzhen.encoders.search import ApproximateIndex, Hit, check_top_k, exact_search, in_order
from juzhen.encoders.spec import BackboneConfig
from juzhen.encoders.template_encoder import TemplateEncoder
from juzhen.encoders.templates import Templates
from juzhen.encoders.texts import (
    BATCH_TOKENS,
    batches_by_length,
)

Corpus = Any
"""Texts, embeddings of texts (documents, dim), or an `ApproximateIndex`."""

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


class SentenceEncoder(PooledEncoder):
    """Texts to embeddings.

    As a module it gives embeddings with gradients: `encoder(encoder.collate(encoder.tokenize(texts)))`.
    """

    family: ClassVar[str] = "bi_encoder"

    @classmethod
    def load(cls, source: str | Path, *, revision: str | None = None) -> Self:
        """The encoder in a folder or of a run, a built-in one such as builtin/mini_zh, or one of the Hugging Face hub.

        revision  branch, tag or commit on the hub

        In float32 on the CPU, in evaluation mode. One that reads sentences through templates is a PromptEncoder.
        Raises UserError where there is none, and for a cross-encoder, which has no embeddings.
        """
        config = BackboneConfig(path=encoder_source(source), revision=revision, initialize="pretrained")
        parts = read_parts(config, seed=0)
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
        return encoder.eval()

    @staticmethod
    def of(parts: Parts) -> "SentenceEncoder":
        """The encoder that is made of `parts`; a PromptEncoder where they hold templates."""
        encoder = SentenceEncoder(parts.backbone, parts.tokenizer, **parts.options)
        if not encoder._packs:  # tests prove those that are packed
            prove(encoder)
        if parts.templates is not None:
            encoder = PromptEncoder.around(encoder, parts.templates)
        if parts.folder is not None:
            encoder.licence = licence_of(parts.folder)
            encoder.score_head = BilinearScore.load(parts.folder, dim=encoder.dim)
        encoder._is_finished = True
        return encoder

    def encode(
        self,
        texts: str | Iterable[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        normalize: bool | None = None,
        batch_tokens: int = BATCH_TOKENS,
        progress: bool | None = None,
        backend: Backend | None = None,
        cache: EmbeddingCache | None = None,
    ) -> Float[np.ndarray, "*sentences dim"]:
        """Embeddings of the texts in their order, float32, without gradients and without dropout; of one text a vector.

        Equal texts are encoded once. Texts of like length go together, at most `batch_tokens` tokens at a
        time with padding (a longer text goes alone).

        prompt_name  the prompt of the encoder that stands before each text; None: its default, if it has one
        prompt     a text of your own in its place; "": nothing stands before the texts
        normalize  True: of length 1; None: of the length that the encoder gives them
        progress   show a bar; None: on a terminal, once the work has taken some seconds
        backend    what computes, as `open_backend(encoder, "onnx")` gives it; None: the encoder itself
        cache      where embeddings are looked up first and kept afterwards; None: nowhere

        Raises UserError for a text that is empty or no string, and for a prompt that is not there.
        """
        if prompt_name is not None or prompt is not None:
            return self.with_prompt(prompt_name, prompt).encode(
                texts,
                normalize=normalize,
                batch_tokens=batch_tokens,
                progress=progress,
                backend=backend,
                cache=cache,
            )
        sentences, is_one = as_texts(texts)
        if normalize is False and self.normalize:
            raise UserError("normalize=False: this encoder gives embeddings of length 1; leave it out")
        distinct: dict[str, int] = {}
        positions = [distinct.setdefault(text, len(distinct)) for text in sentences]
        embeddings = self._looked_up(
            list(distinct), backend, cache, batch_tokens=batch_tokens, progress=progress
        )
        if normalize:
            embeddings = unit(embeddings)
        return embeddings[positions[0]] if is_one else embeddings[positions]

    def encode_query(self, texts: str | Iterable[str], **options: Any) -> Float[np.ndarray, "*sentences dim"]:
        """As `encode`, behind the prompt for queries, `query`, where the encoder has one and the options name none."""
        return self._reading(Side.QUERY, options).encode(texts, **options)

    def encode_document(
        self, texts: str | Iterable[str], **options: Any
    ) -> Float[np.ndarray, "*sentences dim"]:
        """As `encode`, behind the prompt for documents: `document`, else `passage`, else `corpus`."""
        return self._reading(Side.DOCUMENT, options).encode(texts, **options)

    def _reading(self, side: Side, options: Mapping[str, Any]) -> "SentenceEncoder":
        is_chosen = any(options.get(name) is not None for name in ("prompt_name", "prompt"))
        return self if is_chosen else self.reading(side)

    def similarity(
        self, first: str | Iterable[str], second: str | Iterable[str], **options: Any
    ) -> Float[np.ndarray, "*first_and_second"]:
        """The score of each text of `first` with each of `second`, higher = closer: the cosine, or its learnt form.

        A matrix (first, second); one text alone has no axis of its own. Options and errors: as `encode`.
        """
        rows, columns = (self.encode(texts, **options) for texts in (first, second))
        first, second = (np.atleast_2d(vectors).astype(np.float64) for vectors in (rows, columns))
        scores = sides(first, self.score_head)[0] @ unit(second).T
        return scores.astype(np.float32).reshape(rows.shape[:-1] + columns.shape[:-1])

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
        return scores[0] if is_one else scores

    @overload
    def search(self, queries: str, corpus: Corpus, top_k: int = ..., **options: Any) -> list[Hit]: ...

    @overload
    def search(
        self, queries: Iterable[str], corpus: Corpus, top_k: int = ..., **options: Any
    ) -> list[list[Hit]]: ...

    def search(
        self,
        queries: str | Iterable[str],
        corpus: Corpus,
        top_k: int = 10,
        *,
        document_prompt: str | None = None,
        **options: Any,
    ) -> list[Hit] | list[list[Hit]]:
        """For each query the `top_k` documents with the highest scores, best first; of one query one list.

        All documents are looked at, some at a time; of equal scores the document that stands first comes first.

        corpus           texts; what `encode_document` gives for them, to be searched more than once; or an
                         `ApproximateIndex` of that, with normalize=True, which looks at a part of it
        document_prompt  name of the prompt before each text of the corpus; None: as `encode_document`. Where it holds
                         texts of the same sort as the queries: query

        Options, which are those of the queries (`encode_query`), and errors: as `encode`. Raises UserError for an empty
        corpus, for more documents than it has, and for embeddings of another encoder.
        """
        texts, is_one = as_texts(queries)
        index = corpus if isinstance(corpus, ApproximateIndex) else None
        documents = _embeddings(corpus) if index is None else index.documents
        if index is not None:
            index.check(self)
        if documents is None:
            document_options = {
                name: value for name, value in options.items() if name not in ("prompt_name", "prompt")
            }
            documents = self.encode_document(
                as_text_list(corpus, "corpus"), prompt_name=document_prompt, **document_options
            )
        check_top_k(top_k, documents.shape[0])
        if documents.shape[1:] != (self.dim,):
            raise UserError(
                f"corpus: embeddings of the shape {documents.shape}; those of this encoder have {self.dim} numbers"
            )
        query_vectors = self.encode_query(texts, **options)
        first = sides(query_vectors, self.score_head)[0]
        numbers = (index.search if index else partial(exact_search, documents=unit(documents)))(
            first, k=top_k
        )[0]
        rows = np.repeat(np.arange(len(numbers)), numbers.shape[1])
        scores = pair_scores(query_vectors, documents, rows, numbers.ravel(), head=self.score_head)
        numbers, scores = in_order(numbers, scores.reshape(numbers.shape))
        hits = [
            [Hit(number, score) for number, score in zip(*row, strict=True) if number >= 0]
            for row in zip(numbers.tolist(), scores.tolist(), strict=True)
        ]
        return hits[0] if is_one else hits

    def _looked_up(
        self,
        sentences: Sequence[str],
        backend: Backend | None,
        cache: EmbeddingCache | None,
        *,
        batch_tokens: int,
        progress: bool | None,
    ) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings of distinct texts; those that the cache lacks are encoded and kept."""
        tell_of_fork()
        name, compute = (BY_ITSELF, self.infer) if backend is None else (backend.name, backend.encode)
        shelf = None if cache is None else cache.shelf(self, name)
        embeddings = np.empty((len(sentences), self.dim), dtype=np.float32)
        pending = np.arange(len(sentences)) if shelf is None else shelf.fill(sentences, embeddings)
        # What is kept is kept in portions, so that a run that ends early has not worked in vain.
        size = max(len(pending), 1) if shelf is None else PORTION
        with progress_bar("encoding sentences", len(pending), shown=progress) as advance:
            for start in range(0, len(pending), size):
                rows = pending[start : start + size]
                chosen = [sentences[row] for row in rows]
                table = self.tokenize(chosen)
                for batch in batches_by_length(self.input_lengths(table), batch_tokens=batch_tokens):
                    embeddings[rows[batch]] = compute(self.collate(table[batch]))
                    advance(len(batch))
                if shelf is not None:
                    shelf.add(chosen, embeddings[rows])
        return embeddings


def _embeddings(corpus: Any) -> Float[np.ndarray, "documents dim"] | None:
    """What is searched, where it is an array or a tensor of numbers, in float32; None where it holds texts."""
    if isinstance(corpus, Tensor):
        corpus = corpus.detach().float().cpu().numpy()
    is_numbers = isinstance(corpus, np.ndarray) and corpus.dtype.kind in "fiu"
    return np.asarray(corpus, dtype=np.float32) if is_numbers else None


class PromptEncoder(TemplateEncoder, SentenceEncoder):
    """A SentenceEncoder that reads sentences through templates."""

    family = "template"

    @classmethod
    def around(cls, encoder: PooledEncoder, templates: Templates) -> "PromptEncoder":
        """The same backbone, read through `templates`. Raises UserError where a prompt stands before its sentences."""
        if encoder.prompt:
            raise prompt_refused(TEMPLATES, encoder.prompt)
        return cls(
            encoder.backbone,
            encoder.tokenizer,
            templates=templates,
            pooling=encoder.pooling,
            normalize=encoder.normalize,
            max_length=encoder.input_length,
            projections=encoder.output_layers,
        )
