"""The families of models: one object each for what training, an evaluation and every verb ask of a kind of encoder.

A new kind is a class of encoders that names its family, and one object in FAMILIES under that name.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind, Side
from juzhen.core.fitted import Fusion
from juzhen.core.measures import UNSCORED
from juzhen.core.named import LEXICAL, TF_IDF
from juzhen.encoders.asking_collate import AskingCollator, as_asked
from juzhen.encoders.bundle import save_encoder
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.cross_encoder_input import AskedPairCollator, CrossEncoderCollator
from juzhen.encoders.cut import Cut, cut_asked_pairs, cut_pairs, cut_sentences
from juzhen.encoders.generative_reranker import GenerativeReranker
from juzhen.encoders.layout import (
    MODULES_FILE,
    gives_answers,
    gives_routes,
    gives_tokens,
    gives_weights,
    read_layout,
)
from juzhen.encoders.locate import ENCODER_FOLDER, encoder_folder, locate_folder, scores_pairs
from juzhen.encoders.multi_vector import MultiVectorEncoder
from juzhen.encoders.packing import pack
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.query_document import QueryDocumentEncoder
from juzhen.encoders.sentence_encoder import PromptEncoder, SentenceEncoder
from juzhen.encoders.sparse import SparseEncoder
from juzhen.encoders.text_collate import TemplateCollator
from juzhen.encoders.token_table import CachedTokenizer
from juzhen.encoders.transformer import compile_layers
from juzhen.evaluation.evaluators import BM25Evaluator, LexicalEvaluator, PairEvaluator
from juzhen.evaluation.multi_vector import MaxSimEvaluator, QueryDocumentEvaluator
from juzhen.evaluation.plan import EmbeddingEvaluator, Evaluator
from juzhen.evaluation.sparse import SparseEvaluator
from juzhen.evaluation.spec import HardwareConfig


class Family(ABC):
    """A kind of encoders. What is here suits encoders around a transformer, `encoder.inner`, that reads texts.

    unscored        kinds of sets that it has no measure of, and why
    has_embeddings  texts become vectors, which can be kept in a cache, computed by a back end, and searched
    cuts            texts are cut that are longer than `encoder.inner` reads
    """

    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED
    has_embeddings: ClassVar[bool] = True
    cuts: ClassVar[bool] = True

    @abstractmethod
    def holds(self, folder: Path) -> bool:
        """Whether a folder holds an encoder of this family, by its files."""

    @abstractmethod
    def load(self, source: str | Path, **options: Any) -> Any:
        """The encoder of a run, of a folder or of that name, ready to be used. Raises UserError where there is none."""

    def save(self, encoder: Any, folder: Path, *, card: dict[str, Any]) -> Path:
        """Writes what `load` finds again. card: facts for the README, as of `save_encoder`."""
        raise UserError(f"{type(encoder).__name__}: encoders of this kind are not saved")

    def collate(
        self,
        encoder: Any,
        tokenize: CachedTokenizer | None = None,
        *,
        cache_dir: str | None = None,
        progress: bool = False,
        **options: Any,
    ) -> SentenceCollator:
        """What makes batches of rows; options are those of the collator.

        tokenize  None: the encoder's own, which keeps tokens of large sets below `cache_dir`
        """
        if tokenize is None:
            tokenize = CachedTokenizer(encoder.inner, cache_dir, progress=progress)
        return self._collator(encoder, tokenize, options)

    def _collator(self, encoder: Any, tokenize: CachedTokenizer, options: dict[str, Any]) -> SentenceCollator:
        return SentenceCollator(tokenize, encoder.collate, sides=tokenize, **options)

    def evaluator(
        self,
        encoder: Any,
        *,
        backend: str = "torch",
        cache_dir: str | None = None,
        precision: str = "32-true",
    ) -> Evaluator:
        """What plans and scores an evaluation. The options are for embeddings, as of `EmbeddingEvaluator`."""
        return EmbeddingEvaluator(encoder, backend=backend, cache_dir=cache_dir, precision=precision)

    @contextmanager
    def fitted(self, encoder: Any, hardware: HardwareConfig) -> Iterator[None]:
        """The encoder without dropout, on the device of the hardware, and with its micro-batches."""
        before = encoder.training, encoder.inner.micro_batch_tokens
        budget = hardware.micro_batch_tokens  # decides which sentences meet in one product
        encoder.inner.micro_batch_tokens = None if budget == "auto" else budget
        if hardware.compile:
            compile_layers(encoder.inner.backbone)
        encoder.to(torch.device(hardware.accelerator)).eval()
        try:
            yield
        finally:
            encoder.train(before[0])
            encoder.inner.micro_batch_tokens = before[1]

    def cut(self, encoder: Any, examples: Examples, lengths: np.ndarray | None = None) -> Cut:
        """How many texts, or pairs, of the rows are longer than the encoder reads.

        lengths  tokens of each sentence as the encoder reads it alone; None: not known
        """
        return cut_sentences(encoder.inner, examples, lengths)

    def require_order(  # noqa: B027  most families read the sides in their order
        self, encoder: Any, name: str, kind: Kind | None, symmetric: bool | None
    ) -> None:
        """Raises UserError for a set whose two sides may not be exchanged, where the encoder exchanges them."""

    def export(self, encoder: Any, path: Path, *, quantised: bool) -> Path:
        """Writes the encoder as an ONNX graph; gives its path back. Errors: as `export_onnx`."""
        raise UserError(f"{type(encoder).__name__}: encoders of this kind are not exported")


class BiEncoders(Family):
    """Sentences, each for itself, to embeddings."""

    def holds(self, folder: Path) -> bool:
        return any((folder / name).is_file() for name in ("config.json", MODULES_FILE))

    def load(self, source: str | Path, **options: Any) -> SentenceEncoder:
        return SentenceEncoder.load(source, **options)

    def save(self, encoder: SentenceEncoder, folder: Path, *, card: dict[str, Any]) -> Path:
        return save_encoder(encoder, folder, card=card)

    def export(self, encoder: Any, path: Path, *, quantised: bool) -> Path:
        from juzhen.backends.onnx_backend import export_onnx  # its packages may be missing

        return export_onnx(encoder, path, quantised=quantised)


class TemplateEncoders(BiEncoders):
    """Sentences read through templates."""

    export = Family.export

    def holds(self, folder: Path) -> bool:
        return super().holds(folder) and read_layout(folder).templates is not None

    def _collator(
        self, encoder: PromptEncoder, tokenize: CachedTokenizer, options: dict[str, Any]
    ) -> SentenceCollator:
        return TemplateCollator(tokenize, encoder)


class AskingEncoders(Family):
    """What an `AskingEncoder` gives of a text; the first text of a row asks, the others answer."""

    has_embeddings = False

    def save(self, encoder: Any, folder: Path, *, card: dict[str, Any]) -> Path:
        return save_encoder(encoder, folder, card=card)

    def _collator(self, encoder: Any, tokenize: CachedTokenizer, options: dict[str, Any]) -> SentenceCollator:
        return AskingCollator(tokenize, encoder.collate, sides=tokenize, **options)

    def cut(self, encoder: Any, examples: Examples, lengths: np.ndarray | None = None) -> Cut:
        as_queries = as_asked(examples)
        sides, numbers = as_queries.read_as(slice(None)), np.stack(list(as_queries.columns.values()))
        cuts = []
        for side in (Side.QUERY, Side.DOCUMENT):
            rows = {"text": numbers[sides == side].ravel()}
            of_texts = np.full(len(as_queries.sentences), side, dtype=np.int8)
            texts = replace(as_queries, kind=Kind.SENTENCE, columns=rows, targets=None, sides=of_texts)
            cut = cut_sentences(encoder, texts, None)
            cuts.append(replace(cut, max_length=encoder.reading(side).max_length))
        most = max(cuts, key=lambda cut: cut.cut)  # in whose length all are told
        return replace(most, looked_at=sum(c.looked_at for c in cuts), cut=sum(c.cut for c in cuts))


class MultiVectorEncoders(AskingEncoders):
    """Texts to a vector for each token; the first text of a row asks, the others answer."""

    unscored = MaxSimEvaluator.unscored

    def holds(self, folder: Path) -> bool:
        return gives_tokens(folder)

    def load(self, source: str | Path, **options: Any) -> MultiVectorEncoder:
        return MultiVectorEncoder.load(source, **options)

    def evaluator(self, encoder: MultiVectorEncoder, **options: Any) -> MaxSimEvaluator:
        return MaxSimEvaluator(encoder)


class SparseEncoders(AskingEncoders):
    """Texts to a weight for each token of the vocabulary; the first text of a row asks, the others answer."""

    unscored = SparseEvaluator.unscored

    def holds(self, folder: Path) -> bool:
        return gives_weights(folder)

    def load(self, source: str | Path, **options: Any) -> SparseEncoder:
        return SparseEncoder.load(source, **options)

    def evaluator(self, encoder: SparseEncoder, **options: Any) -> SparseEvaluator:
        return SparseEvaluator(encoder)


class QueryDocumentEncoders(AskingEncoders):
    """Queries and documents by weights of their own; the first text of a row asks, the others answer."""

    unscored = QueryDocumentEvaluator.unscored
    save = Family.save

    def holds(self, folder: Path) -> bool:
        return gives_routes(folder)

    def load(self, source: str | Path, **options: Any) -> QueryDocumentEncoder:
        return QueryDocumentEncoder.load(source, **options)

    def evaluator(self, encoder: QueryDocumentEncoder, **options: Any) -> QueryDocumentEvaluator:
        return QueryDocumentEvaluator(encoder)


class CrossEncoders(Family):
    """Two sentences as one input."""

    unscored = PairEvaluator.unscored
    has_embeddings = False

    def holds(self, folder: Path) -> bool:
        return scores_pairs(folder)

    def load(self, source: str | Path, **options: Any) -> PairEncoder:
        return CrossEncoder.load(source, **options)

    def save(self, encoder: CrossEncoder, folder: Path, *, card: dict[str, Any]) -> Path:
        return save_encoder(encoder, folder, card=card)

    def _collator(
        self, encoder: CrossEncoder, tokenize: CachedTokenizer, options: dict[str, Any]
    ) -> SentenceCollator:
        orders = {"both_in_training": False, "both_in_evaluation": encoder.symmetric} | options
        return CrossEncoderCollator(tokenize, join=encoder.join, room=encoder.room, **orders)

    export = BiEncoders.export

    def evaluator(self, encoder: CrossEncoder, **options: Any) -> PairEvaluator:
        return PairEvaluator(encoder)

    def cut(self, encoder: CrossEncoder, examples: Examples, lengths: np.ndarray | None = None) -> Cut:
        if len(examples.columns) == 1:
            return cut_sentences(encoder.inner, examples, lengths)
        return cut_pairs(encoder, examples, lengths)

    def require_order(
        self, encoder: CrossEncoder, name: str, kind: Kind | None, symmetric: bool | None
    ) -> None:
        encoder.require_order(name, kind, symmetric)


class GenerativeRerankers(CrossEncoders):
    """A query and a document as one question to a language model; the first text of a row asks."""

    def holds(self, folder: Path) -> bool:
        return gives_answers(folder)

    def load(self, source: str | Path, **options: Any) -> GenerativeReranker:
        return GenerativeReranker.load(source, **options)

    def _collator(self, encoder: Any, tokenize: CachedTokenizer, options: dict[str, Any]) -> SentenceCollator:
        reading = copy.copy(tokenize)
        reading.encoder = encoder.reader
        orders = {"both_in_training": False, "both_in_evaluation": False} | options
        return AskedPairCollator(reading, join=encoder.join, room=encoder.room, **orders)

    def cut(self, encoder: Any, examples: Examples, lengths: np.ndarray | None = None) -> Cut:
        if len(examples.columns) == 1:
            return cut_sentences(encoder.inner, examples, None)
        return cut_asked_pairs(encoder, examples)

    def export(self, encoder: Any, path: Path, *, quantised: bool) -> Path:
        raise UserError(
            "a language model that scores pairs by its answer is not exported as a graph; use --format "
            "sentence-transformers, whose folder servers of language models read"
        )


class LexicalBaselines(Family):
    """TF-IDF, word overlap and BM25: no encoder and no folder; the evaluator stands for it."""

    has_embeddings = cuts = False

    def holds(self, folder: Path) -> bool:
        return False

    def load(self, source: str | Path, **numbers: Any) -> LexicalEvaluator:
        """numbers  those of the evaluator of that name in LEXICAL"""
        return LexicalEvaluator(**numbers) if source == TF_IDF else BM25Evaluator(**numbers)

    def collate(self, encoder: Any, tokenize: Any = None, **options: Any) -> SentenceCollator:
        """Of nothing: what is scored are the texts themselves."""
        return SentenceCollator(lambda texts: [[0]] * len(texts), pack)

    def evaluator(self, encoder: LexicalEvaluator, **options: Any) -> LexicalEvaluator:
        return encoder


FAMILIES: dict[str, Family] = {
    "bi_encoder": BiEncoders(),
    "template": TemplateEncoders(),
    "multi_vector": MultiVectorEncoders(),
    "sparse": SparseEncoders(),
    "query_document": QueryDocumentEncoders(),
    "cross_encoder": CrossEncoders(),
    "generative_reranker": GenerativeRerankers(),
    "lexical": LexicalBaselines(),
}
"""What the `family` of an encoder's class names. Of those that hold a folder, the last one is meant."""


def family_of(encoder: Any) -> Family:
    return FAMILIES[encoder.family]


def family_in(folder: Path) -> Family | None:
    """The family of the encoder in a folder, or of a run; None where there is none."""
    folder = folder / ENCODER_FOLDER if (folder / ENCODER_FOLDER).is_dir() else folder
    return next((family for family in reversed(FAMILIES.values()) if family.holds(folder)), None)


def find_family(source: str | Path) -> Family:
    """The family of a run, a folder, a built-in name, or of a name in LEXICAL. Raises UserError where there is none."""
    if str(source) in LEXICAL:
        return FAMILIES["lexical"]
    folder = locate_folder(str(source))
    if folder is not None and (family := family_in(folder)) is not None:
        return family
    encoder_folder(source)  # which says what there is instead
    raise UserError(f"{source}: holds no encoder that is known here")


def open_encoder(encoder: Any) -> Any:
    """An encoder by the path of a run or a folder, a built-in name, or a name in LEXICAL; one that is loaded as it is.

    Raises UserError where there is none.
    """
    return find_family(encoder).load(encoder) if isinstance(encoder, str | Path) else encoder


class PairScorer:
    """The scores of a finished run, or of two as one, computed without gradients in float32.

    folders  of a run, or of an encoder; a cross-encoder gives logits, every other one the cosine or its learnt form
    fusion   how `juzhen fuse` weighs two runs, which are given in the order in which they were fitted. Raises
             UserError for others
    """

    def __init__(self, *folders: str | Path, fusion: Fusion | None = None) -> None:
        if fusion is not None:
            fusion.require(folders)
        self._fusion = fusion
        self._encoders = [open_encoder(folder) for folder in folders]
        self.family: str = self._encoders[0].family
        self.has_embeddings = family_of(self._encoders[0]).has_embeddings

    def require_order(self, examples: Examples) -> None:
        """Raises UserError for a set whose two sides may not be exchanged, where a cross-encoder reads both orders."""
        for encoder in self._encoders:
            name = f"{examples.split}/{examples.name}"
            family_of(encoder).require_order(encoder, name, examples.kind, examples.symmetric)

    def __call__(
        self, first: Sequence[str], second: Sequence[str], *, batch_tokens: int, show_progress: bool
    ) -> Float[np.ndarray, "pairs"]:
        """One score per pair, float64; of two runs, 0 is the mean of the set that was fitted on."""
        pairs = list(zip(first, second, strict=True))
        scores = [
            encoder.score(pairs, batch_tokens=batch_tokens, show_progress=show_progress).astype(np.float64)
            for encoder in self._encoders
        ]
        return scores[0] if self._fusion is None else self._fusion.fused(*scores)
