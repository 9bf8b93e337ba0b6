"""Two random pieces of a text, as the pair that a sentence encoder learns from when there are no pairs."""

from collections.abc import Callable, Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from juzhen.core.batch import Batch, Tokens
from juzhen.core.errors import UserError, require_number
from juzhen.core.examples import Examples
from juzhen.data.text import TextTable
from juzhen.encoders.special_tokens import special_around
from juzhen.encoders.text_collate import TextCollator
from juzhen.encoders.token_table import CachedTokenizer, TokenTable


class Crops:
    """How a piece is cut from the tokens of a text.

    shares           shortest and longest piece, as shares of the text without its special tokens
    delete           share of a piece's tokens that are left out
    neighbour_share  share of pairs whose second piece is cut from the next text
    prompt           what stands before every text, and before every piece
    """

    def __init__(
        self,
        shares: tuple[float, ...],
        *,
        delete: float,
        neighbour_share: float,
        tokenizer: PreTrainedTokenizerBase,
        prompt: str = "",
    ) -> None:
        if len(shares) != 2 or not 0 < shares[0] <= shares[1] <= 1:
            raise UserError(
                f"shares={list(shares)}: expected the shortest and the longest share of a text, as in [0.3, 0.8]"
            )
        require_number("delete", delete, 0, 1, open_high=True)
        require_number("neighbour_share", neighbour_share, 0, 1)
        self.shares = shares
        self.delete = delete
        self.neighbour_share = neighbour_share
        self._before, self._after = special_around(tokenizer, prompt=prompt)

    def cut(self, ids: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """A piece of `ids` between the special tokens and behind the prompt of `ids`; of at least one token."""
        last = len(ids) - self._after
        body = ids[self._before : last]
        size = max(round(generator.uniform(*self.shares) * len(body)), 1)
        start = int(generator.integers(0, len(body) - size + 1)) if len(body) else 0
        piece = body[start : start + size]
        stays = generator.random(len(piece)) >= self.delete
        piece = piece[stays] if stays.any() else piece[:1]
        return np.concatenate([ids[: self._before], piece, ids[last:]])


class CropCollator(TextCollator):
    """In training, makes a positive pair of each sentence: two pieces of it, or of it and the next one.

    What is drawn depends on the seed, the number of the batch and the number of the sentence alone. When nothing is
    learnt, batches are those of every other encoder.
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], Sequence[Sequence[int] | np.ndarray]],
        pack: Callable[[TokenTable], Tokens],
        *,
        crops: Crops,
        seed: int,
        sides: CachedTokenizer | None = None,
    ) -> None:
        super().__init__(tokenize, pack, sides=sides)
        self.crops = crops
        self.seed = seed

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """The Batch of the given rows, which is the `index`-th of the stage."""
        numbers = examples.columns["text"][rows].astype(np.int64)
        generators = [np.random.default_rng([self.seed, index, number]) for number in numbers.tolist()]
        seconds = self._seconds(examples, numbers, generators)
        distinct, positions = np.unique(np.concatenate([numbers, seconds]), return_inverse=True)
        tokens = self.token_lists(examples)[distinct]
        pieces = [
            self.crops.cut(tokens[number], generator)
            for number, generator in zip(positions.tolist(), [*generators, *generators], strict=True)
        ]
        return self._forms(examples, rows, self._pack(TokenTable.of(pieces)))

    def _seconds(
        self, examples: Examples, numbers: np.ndarray, generators: Sequence[np.random.Generator]
    ) -> np.ndarray:
        """The sentence from which the second piece of each pair is cut."""
        seconds = numbers.copy()
        texts = examples.sentences
        if not self.crops.neighbour_share:
            return seconds
        for row, generator in enumerate(generators):
            if generator.random() < self.crops.neighbour_share and isinstance(texts, TextTable):
                seconds[row] += texts.follows(int(numbers[row]))
        return seconds
