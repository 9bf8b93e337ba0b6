"""What scores pairs of texts by reading both in one input: joined, packed, batched by length."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from juzhen.core.batch import Tokens
from juzhen.core.columns import as_column, as_pairs, as_text, as_text_list, require_finite, side_by_side
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.machine import warn_forked
from juzhen.core.progress import progress_bar
from juzhen.core.text_warnings import STRICT, reported
from juzhen.encoders.chunks import UNLIMITED
from juzhen.encoders.cross_encoder_input import pack_joint
from juzhen.encoders.decision import Decides
from juzhen.encoders.grades import similarity
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.search import Hit, check_top_k
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.settable import Settable
from juzhen.encoders.sharing import Shareable
from juzhen.encoders.texts import BATCH_TOKENS, batches_by_length
from juzhen.encoders.token_table import TokenTable
from juzhen.encoders.unknown import note_unknown


class PairEncoder(Decides, Shareable, Settable):
    """Logits of pairs of texts: one (a similarity), or one per class.

    inner      backbone, tokenizer and pooling of the joint input
    template   how two texts become one input
    segments   tokens of the second text are marked as such
    symmetric  `score` is the mean of both orders
    grades     how close two texts are in each class, from 0 to 1; empty without classes
    """

    poolings: ClassVar[tuple[str, ...]]
    family: ClassVar[str]
    inner: SentenceEncoder
    template: Any
    segments: bool
    symmetric: bool
    grades: tuple[float, ...]

    @abstractmethod
    def forward(self, tokens: Tokens) -> Float[Tensor, "pairs outputs"]:
        """Logits of joint inputs, float32."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """1, or the number of classes."""

    @property
    @abstractmethod
    def facts(self) -> list[str]:
        """What decides the scores beside the weights of `inner`."""

    def require_order(self, name: str, kind: Kind | None, symmetric: bool | None) -> None:
        """Raises UserError for a set whose two sides may not be exchanged, where scores are the mean of both orders."""

    @property
    def backbone(self) -> PreTrainedModel:
        return self.inner.backbone

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.inner.remarks

    @property
    def dim(self) -> int:
        return self.inner.dim

    def join(self, first: TokenTable, second: TokenTable) -> Tokens:
        """Packed joint inputs of sentences that were tokenised alone."""
        ids, segments = self.template.join(first, second, max_length=self.inner.max_length)
        budget = self.inner.micro_batch_tokens
        return pack_joint(ids, segments if self.segments else None, max_group_tokens=budget)

    def tables(
        self, first: Sequence[str], second: Sequence[str], *, progress: bool | None = False
    ) -> tuple[TokenTable, TokenTable]:
        """Token numbers of first and of second texts, as `join` takes them; as many of each, or not."""
        table = self.inner.tokenize([*first, *second], progress=progress)
        return table[: len(first)], table[len(first) :]

    def note_unknown(
        self, first: Sequence[str], second: Sequence[str], sides: tuple[TokenTable, TokenTable]
    ) -> None:
        """Count, for the call at work, texts that the encoder does not know all of; `sides` as `tables` gives them."""
        for reader, texts, table in zip(self.readers, (first, second), sides, strict=True):
            note_unknown(reader, texts, table)

    @property
    def readers(self) -> tuple[Any, Any]:
        """What tokenises first and second texts."""
        return self.inner, self.inner

    def room(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Tokens of the joint inputs of sentences of these lengths."""
        counts = self.template.lengths(first, second, max_length=self.inner.max_length)
        return counts[0] + counts[1] + self.template.num_special

    def is_cut(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether joint inputs of sentences of these lengths leave tokens out."""
        counts = self.template.lengths(first, second, max_length=UNLIMITED)
        return counts[0] + counts[1] + self.template.num_special > self.inner.max_length

    @takes_peer_options
    def score(
        self,
        pairs: Iterable[tuple[str, str]] | tuple[str, str] | str | Iterable[str],
        second: str | Iterable[str] | None = None,
        /,
        *,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> Float[np.ndarray, "*pairs"]:
        """`similarity` of the pairs in their order, float32; of one pair a number.

        `score("a", "b")`, `score(firsts, seconds)`: the two sides apart.

        show_progress  a bar; None: on a terminal, once the work has taken some seconds
        strict         a pair that would be truncated raises UserError; False: one warning with their number

        Raises UserError for what is no pair of texts, and for a text that is empty.
        """
        first, second, is_one = as_pairs(side_by_side(pairs, second))
        logits = self.logits(
            first, second, batch_tokens=batch_tokens, show_progress=show_progress, strict=strict
        )
        scores = similarity(torch.from_numpy(logits), self.grades).numpy()
        return scores[0] if is_one else scores

    def rank(
        self,
        query: str,
        documents: Iterable[str],
        top_k: int | None = None,
        *,
        among: Iterable[int] | None = None,
        **options: Any,
    ) -> list[Hit]:
        """The documents by their `score` with the query, best first; of equal scores the lower number comes first.

        top_k  how many are given; None: all
        among  numbers of the documents that are read, such as those that `SentenceEncoder.search` has found; None: all

        Options and errors: as `score`. Raises UserError for a number that is no document, and for more than there are.
        """
        question, texts = as_text(query, "query"), as_text_list(documents, "documents")
        chosen = range(len(texts)) if among is None else as_column(among, "among")
        for number in chosen:
            is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
            if not is_whole or not 0 <= number < len(texts):
                raise UserError(f"among: {number} is no number of a document; expected 0 to {len(texts) - 1}")
        numbers = sorted({int(number) for number in chosen})
        check_top_k(len(numbers) if top_k is None else top_k, len(numbers))
        scores = self.score([(question, texts[number]) for number in numbers], **options)
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [Hit(numbers[rank], float(scores[rank])) for rank in order.tolist()]

    @torch.no_grad()
    def logits(
        self,
        first: Sequence[str],
        second: Sequence[str],
        *,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> Float[np.ndarray, "pairs outputs"]:
        """Logits of the pairs in their order, float32, without dropout; the mean of both orders if `symmetric`.

        Raises UserError for a text that is empty or no string.
        """
        first, second = as_text_list(first, "first"), as_text_list(second, "second")
        if len(first) != len(second):
            raise UserError(
                f"{len(first)} first texts and {len(second)} second ones: expected as many of each"
            )
        warn_forked()
        sides = self.tables(first, second, progress=show_progress)
        orders = [sides, sides[::-1]] if self.symmetric else [sides]
        lengths = self.room(sides[0].lengths, sides[1].lengths)
        with reported(strict=strict, advice=STRICT) as seen:
            is_cut = self.is_cut(sides[0].lengths, sides[1].lengths)
            cut = [(first[row], second[row]) for row in np.flatnonzero(is_cut)]
            seen.count(cut, first, max_length=self.inner.max_length, unit="pairs")
            self.note_unknown(first, second, sides)
        logits = np.empty((len(first), self.outputs), dtype=np.float32)
        was_training, device = self.training, self.inner.device
        self.eval()
        try:
            with progress_bar("scoring pairs", len(first), shown=show_progress) as advance:
                for rows in batches_by_length(lengths, batch_tokens=batch_tokens):
                    parts = [self(self.join(a[rows], b[rows]).to(device)) for a, b in orders]
                    logits[rows] = torch.stack(parts).mean(dim=0).cpu().numpy()
                    advance(len(rows))
        finally:
            self.train(was_training)
        require_finite(logits, list(zip(first, second, strict=True)), key="pair")
        return logits
