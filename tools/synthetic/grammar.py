"""What all generators share: drawing at random, spelling out templates, assigning meanings to splits."""

import hashlib
import random
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from omegaconf import OmegaConf

Item = TypeVar("Item")
Row = tuple[str, str, str]
"""sentence1, sentence2, label: as written in the file."""

SPLITS = ("train", "dev", "test")
LEXICON = Path(__file__).parent / "lexicon"


class Draw:
    """Random choices that are the same on every machine and Python version.

    Only `random.Random.random` is used: it alone is promised to repeat for a seed,
    `choice` and `shuffle` are not.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self._random.random() * len(items))]

    def order(self, items: Sequence[Item]) -> list[Item]:
        ranks = sorted((self._random.random(), index) for index in range(len(items)))
        return [items[index] for _, index in ranks]

    def distinct(self, items: Sequence[Item], count: int) -> list[Item]:
        return self.order(items)[:count]


class Generator(Protocol):
    """One synthetic data set.

    wishes  kinds of rows, repeated in turn: their shares are the balance of the set
    rows_per_wish  rows that one proposal holds; they are kept or left out together
    """

    name: str
    wishes: tuple[str, ...]
    rows_per_wish: int

    def propose(self, wish: str, split: str, draw: Draw) -> list[Row] | None:
        """Rows of the wished kind that belong to the split, or None when this draw did not lead to any."""


@cache
def lexicon(name: str) -> dict[str, Any]:
    """The words and templates of one data set, as plain containers; read once, not to be changed."""
    return OmegaConf.to_container(OmegaConf.load(LEXICON / f"{name}.yaml"))


def spell(template: str, slots: Mapping[str, str], draw: Draw) -> str:
    """A template with its slots filled and its options drawn.

    >>> spell("<who>(正|)在<what>", {"who": "他", "what": "(看|读)书"}, Draw("1"))
    '他正在看书'
    """
    while "<" in template:
        template = re.sub(r"<(\w+)>", lambda match: slots[match[1]], template)
    while "(" in template:
        template = re.sub(r"\(([^()]*)\)", lambda match: draw.pick(match[1].split("|")), template, count=1)
    return template


def fold(sentence: str) -> str:
    """The sentence without what does not count when two are compared: width, spaces, punctuation, case."""
    folded = unicodedata.normalize("NFKC", sentence).lower()
    return "".join(letter for letter in folded if letter.isalnum())


@cache
def split_of(*meaning: str) -> str:
    """The split that a combination of words belongs to: 76 % train, 12 % dev, 12 % test.

    The combination is assigned, not the row: its sentences occur in one split only, while each of its words
    occurs elsewhere in other combinations.
    """
    bucket = int(hashlib.sha256("|".join(meaning).encode()).hexdigest(), 16) % 100
    return "train" if bucket < 76 else "dev" if bucket < 88 else "test"


def bigrams(sentence: str) -> set[str]:
    """Its neighbouring pairs of characters."""
    return {sentence[start : start + 2] for start in range(len(sentence) - 1)}
