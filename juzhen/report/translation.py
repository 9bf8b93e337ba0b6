"""Texts of a report in Chinese: one table of pairs, for the page, its script and Markdown."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from juzhen.core.safe_open import csv_rows
from juzhen.report.table import NOTHING, ReportTable

PAIRS = Path(__file__).parent / "page" / "chinese.csv"
"""english, chinese: `{}` is a part that changes, `{#}` a number. In Chinese `{0}` is the first part unchanged, `{0!}`
its translation.
"""

HOLE, NUMBER = re.compile(r"\{#?\}"), r"([+\-−<]?[\d.,]+)"
BEGINS, LEAST_CHARACTERS = re.compile(r"\w|\{#\}"), 6
"""Beginning, or number of other characters, that a pair with parts needs. `{} of {}` would match any sentence, and is
for scripts only.
"""

BETWEEN = ((re.compile(r"(?<=[.?]) "), ""), (re.compile("; "), "；"), (re.compile(", (?!not )"), "，"))
"""Separators between parts with their own pairs (sentences, phrases, words), and their Chinese equivalents."""

COLUMN = re.compile(r"\S+ \(\w+\)")
"""A column of a matrix, which is a name: lcqmc (dev)."""

SAID, VALUE = re.compile(r"\bsay`([^`]*)`"), re.compile(r"\$\{[^}]*\}")
"""A text of a script, and a part of it that changes."""


@cache
def pairs() -> dict[str, str]:
    return {row["english"]: row["chinese"] for _, row in csv_rows(PAIRS)[1]}


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Pairs with parts, the longest first."""
    patterns = []
    for english in sorted(filter(HOLE.search, pairs()), key=len, reverse=True):
        if BEGINS.match(english) or len(HOLE.sub("", english)) >= LEAST_CHARACTERS:
            parts = [NUMBER if hole == "{#}" else "(.+?)" for hole in HOLE.findall(english)]
            pieces = zip(map(re.escape, HOLE.split(english)), [*parts, ""], strict=True)
            pattern = re.compile("".join(map("".join, pieces)), re.DOTALL)
            patterns.append((pattern, pairs()[english]))
    return patterns


@cache
def chinese(text: str) -> str | None:
    """Translate a text. None without a pair, for example for a name.

    >>> chinese("best zero-shot"), chinese("differs by -3.2"), chinese("lcqmc")
    ('零样本最佳', '相差 -3.2', None)
    """
    if (known := pairs().get(text)) is not None:
        return known
    for mark, joint in BETWEEN:
        translated = [chinese(part) for part in mark.split(text)] if mark.search(text) else [None]
        if None not in translated:
            return joint.join(filter(None, translated))
    for pattern, known in _patterns():
        if match := pattern.fullmatch(text):
            return _filled(known, match.groups())
    phrase = chinese(text[:-1]) if text.endswith(".") else None
    return None if phrase is None else f"{phrase}。"


def _filled(pattern: str, parts: Sequence[str]) -> str:
    def part(hole: re.Match[str]) -> str:
        text = parts[int(hole[1])]
        return in_chinese(text) if hole[2] else text

    return re.sub(r"\{(\d)(!?)\}", part, pattern)


Phrase = tuple[str, str]
"""A text in English and in Chinese."""


def phrase(template: str, *parts: str | Phrase) -> Phrase:
    """Fill a template that has a pair. A part that is a str is a name or a number.

    >>> phrase("{} rows", "300")
    ('300 rows', '300 行')
    """
    both = [(part, part) if isinstance(part, str) else part for part in parts]
    english = iter(both)
    filled = re.sub(r"\{(\d)!?\}", lambda hole: both[int(hole[1])][1], pairs()[template])
    return HOLE.sub(lambda _: next(english)[0], template), filled


def in_chinese(text: str) -> str:
    """Translate a text, and keep a name."""
    return chinese(text) or text


def table_in_chinese(table: ReportTable) -> ReportTable:
    """Translate title, note, headings and columns of words. Names and numbers are kept."""
    body = [
        tuple(in_chinese(text) if column in table.worded else text for column, text in enumerate(line))
        for line in table.body
    ]
    title, note, empty = map(in_chinese, (table.title, table.note, table.empty or NOTHING))
    return replace(
        table, title=title, note=note, head=tuple(map(in_chinese, table.head)), body=body, empty=empty
    )


class Words:
    """English texts of a page, with the Chinese that its script shows.

    Attributes:
        used: English → Chinese. A text of the script has `{0}` for parts.
        missing: Texts without a pair.
    """

    def __init__(self, *scripts: str) -> None:
        self.used: dict[str, str] = {}
        self.missing: list[str] = []
        for text in dict.fromkeys(text for script in scripts for text in SAID.findall(script)):
            self._use(english := VALUE.sub("{}", text), pairs().get(english))

    def say(self, text: str, *, name: bool = False) -> str:
        """Return the English text, and add its Chinese to the page.

        Args:
            text: English text.
            name: The text may be a name, which has no Chinese.
        """
        translated = chinese(text.strip())
        if re.search("[A-Za-z]", text) and not COLUMN.fullmatch(text) and not (name and translated is None):
            self._use(text.strip(), translated)
        return text

    def add(self, text: Phrase) -> None:
        """Add a text in both languages."""
        self.used[text[0]] = text[1]

    def _use(self, text: str, translated: str | None) -> None:
        if translated is None:
            self.missing.append(text)
        else:
            self.used[text] = translated
