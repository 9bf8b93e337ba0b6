"""Interface of encoders to training, evaluation and subcommands, and the families of the inner ring."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind, Side
from juzhen.core.kinds import UNSCORED
from juzhen.core.lazy_names import offered
from juzhen.encoders.backbone import compile_layers
from juzhen.encoders.chunks import TruncationStats, truncated_sentences
from juzhen.encoders.collate import AsymmetricCollator, SentenceCollator, TemplateCollator, with_sides
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.forward import pack
from juzhen.encoders.layout import read_layout
from juzhen.encoders.pair_encoder import CrossEncoderCollator, truncated_pairs
from juzhen.encoders.resolve_path import has_encoder, scores_pairs
from juzhen.encoders.save import save_encoder
from juzhen.encoders.sentence_encoder import PromptEncoder, SentenceEncoder
from juzhen.encoders.tokens import CachedTokenizer
from juzhen.evaluation.encoding_plan import EmbeddingEvaluator, Evaluator
from juzhen.evaluation.evaluators import BM25Evaluator, LexicalEvaluator, PairEvaluator
from juzhen.evaluation.settings import HardwareConfig
from juzhen.models.settings import TF_IDF


class Family(ABC):
    """Base of the families of encoders.

    The defaults suit encoders around a transformer, `encoder.inner`, that reads texts.

    Attributes:
        unscored: Kinds of sets without a metric, and the reason.
        has_embeddings: Texts become vectors, which can be cached, computed by a back end, and searched.
        cuts: Texts longer than the maximum of `encoder.inner` are truncated.
        described: The kind of encoder, for messages.
        encoder_type: Class whose `load` reads its folders.
        instead_of_export: What to do instead of exporting a graph.
    """

    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED
    has_embeddings: ClassVar[bool] = True
    cuts: ClassVar[bool] = True
    described: ClassVar[str] = "this kind of encoder"
    encoder_type: ClassVar[Any]
    instead_of_export: ClassVar[str] = "Export an encoder of texts or a cross-encoder"

    @abstractmethod
    def holds(self, folder: Path) -> bool:
        """True if a folder has an encoder of this family, by its files.

        Args:
            folder: A folder of weights.

        Returns:
            False for a folder of another family.
        """

    def load(self, source: str | Path, **options: Any) -> Any:
        """Load an encoder.

        Args:
            source: A run, a folder or a name of the hub.
            options: Of `load` of the class of the encoder.

        Returns:
            An instance of `encoder_type`.

        Raises:
            UserError: The encoder is missing.
        """
        return self.encoder_type.load(source, **options)

    def save(self, encoder: Any, folder: Path, *, card: dict[str, Any]) -> Path:
        """Write a folder that `load` reads.

        Args:
            encoder: The encoder.
            folder: A new folder.
            card: Facts for the README, as in `save_encoder`.

        Returns:
            The folder.

        Raises:
            UserError: Encoders of this family are not saved.
        """
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
        """Return the collator of rows.

        Args:
            encoder: The encoder.
            tokenize: Tokeniser of the texts. None: that of the encoder, which stores tokens of large sets
                below `cache_dir`.
            cache_dir: Folder of cached tokens. None keeps nothing.
            progress: Progress bar on a terminal for many texts.
            options: Of the collator.

        Returns:
            A collator for training and evaluation batches.
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
        """Return the evaluator, which plans and scores.

        Args:
            encoder: The encoder.
            backend: A BackendName. Only families with embeddings use it and the following arguments.
            cache_dir: Folder of cached embeddings. None: no cache.
            precision: Precision of the encoder. Embeddings of each precision are stored separately.

        Returns:
            The evaluator of this family.
        """
        return EmbeddingEvaluator(encoder, backend=backend, cache_dir=cache_dir, precision=precision)

    @contextmanager
    def fitted(self, encoder: Any, hardware: HardwareConfig) -> Iterator[None]:
        """Put the encoder into evaluation mode, on the device of the hardware and with its micro-batches.

        Args:
            encoder: The encoder. It has its former mode after the block.
            hardware: Device, tokens of a micro-batch, and compilation.
        """
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

    def cut(self, encoder: Any, examples: Examples, lengths: np.ndarray | None = None) -> TruncationStats:
        """Count texts, or pairs, of the rows that are longer than the encoder reads.

        Args:
            encoder: The encoder.
            examples: The rows.
            lengths: Tokens of each sentence by itself. None: unknown.

        Returns:
            Numbers of texts or pairs, all and truncated ones.
        """
        return truncated_sentences(encoder.inner, examples, lengths)

    def require_order(  # noqa: B027  most families read the sides in their order
        self, encoder: Any, name: str, kind: Kind | None, symmetric: bool | None
    ) -> None:
        """Refuse a set with two different sides, if the encoder exchanges them.

        Args:
            encoder: The encoder.
            name: Name of the set, for the message.
            kind: Kind of its rows. None for a ranking.
            symmetric: As of `Examples`.

        Raises:
            UserError: Such a set.
        """

    def export(self, encoder: Any, path: Path, *, quantised: bool) -> Path:
        """Write the encoder as an ONNX graph and return its path.

        Args:
            encoder: The encoder.
            path: The file to write.
            quantised: True for 8-bit weights.

        Returns:
            The path.

        Raises:
            UserError: As `export_onnx`, and for a family without graphs.
        """
        raise UserError(f"{self.described} is not exported as a graph. {self.instead_of_export}")


class SavedEncoders(Family):
    """Families whose encoders `save_encoder` writes."""

    def save(self, encoder: Any, folder: Path, *, card: dict[str, Any]) -> Path:
        return save_encoder(encoder, folder, card=card)


class BiEncoders(SavedEncoders):
    """Encoders of single sentences to embeddings."""

    encoder_type = SentenceEncoder

    def holds(self, folder: Path) -> bool:
        return has_encoder(folder)

    def export(self, encoder: Any, path: Path, *, quantised: bool) -> Path:
        written: Path = offered("exports", "onnx")(encoder, path, quantised=quantised)
        return written


class TemplateEncoders(BiEncoders):
    """Encoders that read sentences through templates."""

    export = Family.export

    def holds(self, folder: Path) -> bool:
        return super().holds(folder) and read_layout(folder).templates is not None

    def _collator(
        self, encoder: PromptEncoder, tokenize: CachedTokenizer, options: dict[str, Any]
    ) -> SentenceCollator:
        return TemplateCollator(tokenize, encoder)


class AskingEncoders(SavedEncoders):
    """Encoders of queries and documents. The first text of a row is the query, the others are documents."""

    has_embeddings = False
    evaluator_type: ClassVar[Any]

    def evaluator(self, encoder: Any, **options: Any) -> Evaluator:
        evaluator: Evaluator = self.evaluator_type(encoder)
        return evaluator

    def _collator(self, encoder: Any, tokenize: CachedTokenizer, options: dict[str, Any]) -> SentenceCollator:
        return AsymmetricCollator(tokenize, encoder.collate, sides=tokenize, **options)

    def cut(self, encoder: Any, examples: Examples, lengths: np.ndarray | None = None) -> TruncationStats:
        as_queries = with_sides(examples)
        sides, numbers = as_queries.read_as(slice(None)), np.stack(list(as_queries.columns.values()))
        cuts = []
        for side in (Side.QUERY, Side.DOCUMENT):
            rows = {"text": numbers[sides == side].ravel()}
            of_texts = np.full(len(as_queries.sentences), side, dtype=np.int8)
            texts = replace(as_queries, kind=Kind.SENTENCE, columns=rows, targets=None, sides=of_texts)
            cut = truncated_sentences(encoder, texts, None)
            cuts.append(replace(cut, max_length=encoder.reading(side).max_length))
        most = max(cuts, key=lambda cut: cut.cut)  # in whose length all are told
        return replace(most, looked_at=sum(c.looked_at for c in cuts), cut=sum(c.cut for c in cuts))


class CrossEncoders(SavedEncoders):
    """Encoders of two sentences as one input."""

    unscored = PairEvaluator.unscored
    has_embeddings = False
    described = "a cross-encoder"
    encoder_type: ClassVar[Any] = CrossEncoder

    def holds(self, folder: Path) -> bool:
        return scores_pairs(folder)

    def _collator(
        self, encoder: CrossEncoder, tokenize: CachedTokenizer, options: dict[str, Any]
    ) -> SentenceCollator:
        orders = {"both_in_training": False, "both_in_evaluation": encoder.symmetric} | options
        return CrossEncoderCollator(tokenize, join=encoder.join, room=encoder.room, **orders)

    export = BiEncoders.export

    def evaluator(self, encoder: CrossEncoder, **options: Any) -> PairEvaluator:
        return PairEvaluator(encoder)

    def cut(
        self, encoder: CrossEncoder, examples: Examples, lengths: np.ndarray | None = None
    ) -> TruncationStats:
        if len(examples.columns) == 1:
            return truncated_sentences(encoder.inner, examples, lengths)
        return truncated_pairs(encoder, examples, lengths)

    def require_order(
        self, encoder: CrossEncoder, name: str, kind: Kind | None, symmetric: bool | None
    ) -> None:
        encoder.require_order(name, kind, symmetric)


class LexicalBaselines(Family):
    """TF-IDF, word overlap and BM25, without encoder and folder. The evaluator is used as the encoder."""

    has_embeddings = cuts = False
    described = "a lexical baseline, which has no weights,"

    def holds(self, folder: Path) -> bool:
        return False

    def load(self, source: str | Path, **numbers: Any) -> LexicalEvaluator:
        return LexicalEvaluator(**numbers) if source == TF_IDF else BM25Evaluator(**numbers)

    def collate(self, encoder: Any, tokenize: Any = None, **options: Any) -> SentenceCollator:
        # Not used: lexical models score raw text.
        return SentenceCollator(lambda texts: [[0]] * len(texts), pack)

    def evaluator(self, encoder: LexicalEvaluator, **options: Any) -> LexicalEvaluator:
        return encoder
