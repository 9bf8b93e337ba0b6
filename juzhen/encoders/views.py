"""A sentence that is changed a little and still says about the same: which changes, and those of its tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from juzhen.core.errors import UserError, require_choice, require_number
from juzhen.encoders.masking import continues_word
from juzhen.encoders.special_tokens import special_around

TEXT_VIEWS = ("translation", "synonym", "sentence_order")
"""Changes of the text, which is then tokenised again."""

SHARES = ("delete", "repeat", "cutoff", "synonym")
"""Changes whose size is a share of the words."""


@dataclass(frozen=True)
class Views:
    """What is done to a sentence, and how much of it.

    names         in this order; those of the text come before those of its tokens, and the translation before all
    delete        each word is left out with this probability (Wei and Zou 2019, https://arxiv.org/abs/1901.11196)
    repeat        each word is written twice with this probability (Wu et al. 2022, https://arxiv.org/abs/2109.04380)
    cutoff        a run of this share of the words is left out (Shen et al. 2020, https://arxiv.org/abs/2009.13818)
    shuffle       words change places within windows of so many (over whole sentences: Yan et al. 2021,
                  https://arxiv.org/abs/2105.11741)
    synonym       each word that the lexicon knows is replaced with this probability
    translations  file of round-trip translations, one of which stands for the sentence; None: there is none
    group         key of the configuration that the numbers are below, for messages

    `sentence_order` puts the sentences of a text in another order, and has no number. A word is what the tokenizer
    begins anew: a hanzi, or a Latin word or number with all its pieces.
    """

    names: tuple[str, ...]
    delete: float
    repeat: float
    cutoff: float
    shuffle: int
    synonym: float
    translations: str | None
    group: str = "model"

    def __post_init__(self) -> None:
        key = f"{self.group}.views={list(self.names)}"
        for name in self.names:
            require_choice(f"{self.group}.views", name, VIEWS)
        if (order := sorted(self.names, key=_rank)) != list(self.names):
            raise UserError(
                f"{key}: {', '.join(TEXT_VIEWS)} change the text and come first, as in [{','.join(order)}]; a "
                "translation is looked up for the sentence as it is, before all others"
            )
        for name in SHARES:
            require_number(f"{self.group}.{name}", getattr(self, name), 0, 1, open_low=True, open_high=True)
        require_number(f"{self.group}.shuffle", self.shuffle, 2)
        if "translation" in self.names and not Path(self.translations or "").expanduser().is_file():
            raise UserError(
                f"{self.group}.translations={self.translations or 'null'}: no such file; expected a table, each line a "
                "text, a tab and its translation there and back"
            )

    @classmethod
    def of(cls, settings: Mapping[str, Any], *, group: str = "model") -> "Views":
        """From the configuration of a model, or of the augmentation."""
        keys = ("delete", "repeat", "cutoff", "shuffle", "synonym", "translations")
        return cls(tuple(settings["views"]), **{key: settings[key] for key in keys}, group=group)

    @property
    def of_text(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name in TEXT_VIEWS)

    @property
    def of_tokens(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in TEXT_VIEWS)


def _rank(name: str) -> int:
    """Names in the order in which their changes can be made: 0 looks at the text as it is, 1 at any text."""
    return {"translation": 0}.get(name, 1 if name in TEXT_VIEWS else 2)


def delete(numbers_of_words: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Each word left out with probability `share`; one stays."""
    is_kept = generator.random(len(numbers_of_words)) >= share
    is_kept[generator.integers(len(numbers_of_words))] |= not is_kept.any()
    return numbers_of_words[is_kept]


def repeat(numbers_of_words: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Each word twice with probability `share`."""
    return np.repeat(numbers_of_words, 1 + (generator.random(len(numbers_of_words)) < share))


def cutoff(numbers_of_words: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Without a run of words, which may lie anywhere; one word stays."""
    size = min(round(share * len(numbers_of_words)), len(numbers_of_words) - 1)
    start = int(generator.integers(len(numbers_of_words) - size + 1))
    return np.delete(numbers_of_words, slice(start, start + size))


def shuffle(numbers_of_words: np.ndarray, window: int, generator: np.random.Generator) -> np.ndarray:
    """In another order within windows; where the first one ends is drawn, so that no place is always a border."""
    windows = (np.arange(len(numbers_of_words)) + generator.integers(window)) // window
    return numbers_of_words[np.lexsort((generator.random(len(numbers_of_words)), windows))]


TOKEN_VIEWS: dict[str, Callable[[np.ndarray, Any, np.random.Generator], np.ndarray]] = {
    "delete": delete,
    "repeat": repeat,
    "cutoff": cutoff,
    "shuffle": shuffle,
}
"""Name in `model.views` → function of word numbers, which are chosen and ordered."""

VIEWS = (*TOKEN_VIEWS, *TEXT_VIEWS)


class TokenViews:
    """The changes of tokens: nothing is tokenised again, so that tables of tokens stay as they are.

    max_length  tokens that a sentence may have, special ones included; what repeated words push beyond is cut
    prompt      what stands before every sentence, and is not changed
    """

    def __init__(
        self, views: Views, tokenizer: PreTrainedTokenizerBase, *, max_length: int, prompt: str = ""
    ) -> None:
        self._changes = [(TOKEN_VIEWS[name], getattr(views, name)) for name in views.of_tokens]
        self._before, self._after = special_around(tokenizer, prompt=prompt)
        self._room = max_length - self._before - self._after
        numbers = tokenizer.get_vocab()
        self._continues = np.zeros(max(numbers.values()) + 1, dtype=bool)
        self._continues[[number for token, number in numbers.items() if continues_word(token, numbers)]] = (
            True
        )

    def __call__(self, ids: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The tokens of a changed sentence, between the special tokens of `ids`."""
        last = len(ids) - self._after
        body = ids[self._before : last]
        if not len(body) or not self._changes:
            return ids
        begins = ~self._continues[body]
        begins[0] = True
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(body))
        numbers_of_words = np.arange(len(starts))
        for change, amount in self._changes:
            numbers_of_words = change(numbers_of_words, amount, generator)
        pieces = np.concatenate([body[starts[word] : ends[word]] for word in numbers_of_words])
        return np.concatenate([ids[: self._before], pieces[: self._room], ids[last:]])
