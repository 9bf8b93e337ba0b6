"""Fold text: remove the differences of form that change no word, before characters are compared."""

import unicodedata
from functools import cache

from juzhen.core.places import BUILTIN

TABLE = BUILTIN / "scripts" / "zh.tsv"
"""Traditional characters with their simplified ones; its README names the source and the rule of choice."""


def fold(text: str, *, script: bool = True) -> str:
    """Return a text in NFKC, in lower case, and in simplified characters.

    BM25, TF-IDF, the leak audit, near duplicates, `juzhen new` and the filters of mining compare texts in this form.

    Args:
        text: Any text. Its words and its white space stay.
        script: Fold traditional characters, each by itself, as `script_table` lists them.

    Example:
        >>> fold("ＩＰＨＯＮＥ１５ 訂單"), fold("訂單", script=False)
        ('iphone15 订单', '訂單')
    """
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).lower()
    return folded.translate(_translation()) if script else folded


@cache
def script_table() -> dict[str, str]:
    """Read the table of traditional characters: each one with its simplified character."""
    lines = TABLE.read_text(encoding="utf-8").split("\n")[1:]
    return {character: simple for character, simple, *_ in (line.split("\t") for line in lines if line)}


@cache
def inverse_table() -> dict[str, str]:
    """Read the table the other way: each simplified character with the traditional one that it most often stands for.

    Several traditional characters fold to one (髮 and 發 to 发). Of those with equal counts the first one is taken.
    """
    lines = TABLE.read_text(encoding="utf-8").split("\n")[1:]
    counts: dict[str, tuple[int, str]] = {}
    for character, simple, agree, *_ in (line.split("\t") for line in lines if line):
        if simple not in counts or int(agree) > counts[simple][0]:
            counts[simple] = int(agree), character
    return {simple: character for simple, (_, character) in counts.items()}


@cache
def _translation() -> dict[int, str]:
    return str.maketrans(script_table())
