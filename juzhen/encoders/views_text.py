"""Changes of a sentence's text: synonyms from a lexicon, translations from a file, the order of sentences."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import cast

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.paths import BUILTIN
from juzhen.core.safe_open import read_bytes, read_text
from juzhen.core.text import split_lines
from juzhen.encoders.settings_file import naming
from juzhen.encoders.views import Views

LEXICON = BUILTIN / "lexicon"

_SENTENCE_END = re.compile(
    r"[。！？；…]+[”’」』）》]*\s*"  # Chinese
    r"|(?:(?<=[a-z0-9]{2})\.|[!?;])[.!?;]*[\"'”’)\]]*\s+"  # Latin: not the points of U.S. and Dr.
    r"|\n+"
)

_RUN = re.compile(r"[A-Za-z]+|[\u4e00-\u9fff]+")


class Synonyms:
    """Words that may stand for each other, Chinese and English.

    groups  words that mean the same; a word is in one group only

    In Chinese, where words are not told apart, the longest known word is taken from left to right. Latin words count
    as whole words, in any case; the replacement begins with a capital where the word did.
    """

    def __init__(self, groups: Iterable[Sequence[str]]) -> None:
        self._others: dict[str, list[str]] = {}
        for group in groups:
            for word in group:
                self._others[word] = [other for other in group if other != word]
        self._longest = max(map(len, self._others), default=0)

    def __len__(self) -> int:
        return len(self._others)

    def replaced(self, text: str, generator: np.random.Generator, share: float) -> str:
        """`text`, each known word replaced with probability `share`."""

        def run(match: re.Match[str]) -> str:
            return "".join(self._drawn(word, share, generator) for word in self._words(match[0]))

        return _RUN.sub(run, text)

    def _drawn(self, word: str, share: float, generator: np.random.Generator) -> str:
        synonyms = self._others.get(word.lower())
        if synonyms is None or generator.random() >= share:
            return word
        other = synonyms[int(generator.integers(len(synonyms)))]
        return other.capitalize() if word[0].isupper() else other

    def _words(self, run: str) -> list[str]:
        """A run of letters as one word; a run of hanzi as known words and single signs."""
        if run.isascii():
            return [run]
        parts, start = [], 0
        while start < len(run):
            sizes = range(min(self._longest, len(run) - start), 1, -1)
            size = next((size for size in sizes if run[start : start + size] in self._others), 1)
            parts.append(run[start : start + size])
            start += size
        return parts


@cache
def builtin_synonyms() -> Synonyms:
    """The lexicon that comes with juzhen: a line is a group, its words separated by tabs."""
    rows = [line for path in sorted(LEXICON.glob("*.tsv")) for line in read_text(path).split("\n")]
    return Synonyms(line.split("\t") for line in rows if line and not line.startswith("#"))


class Translations:
    """Sentences that were translated into another language and back, by whatever translator.

    A file in UTF-8 without header: text, tab, translation, and more translations behind further tabs. A text may have
    several lines.

    group  key of the configuration that names the file, for messages
    """

    def __init__(self, path: str | Path, *, group: str = "model") -> None:
        self.path = Path(path).expanduser()
        self.group = group
        self._of: dict[str, list[str]] = {}
        with naming(f"{group}.translations={path}"):
            rows = split_lines(read_bytes(self.path).decode("utf-8-sig"))
        for number, line in enumerate(rows, start=1):
            text, *translations = (part.strip() for part in line.split("\t"))
            if not line.strip():
                continue
            if not text or not translations or not all(translations):
                raise UserError(
                    f"{path}:{number}: expected a text, a tab and its translation there and back, got {line[:60]!r}"
                )
            self._of.setdefault(text, []).extend(translations)

    def drawn(self, text: str, generator: np.random.Generator) -> str:
        """One of the text's translations; the text itself where the file has none."""
        translations = self._of.get(text)
        return text if translations is None else translations[int(generator.integers(len(translations)))]

    def require(self, name: str, texts: Iterable[str]) -> None:
        """Raises UserError where the file has none of the texts of the set `name`."""
        example = ""
        for text in texts:
            if text in self._of:
                return
            example = example or text
        first = next(iter(self._of), "")
        raise UserError(
            f"{self.group}.translations={self.path}: has no sentence of {name}, such as {example[:30]!r}; its first "
            f"text is {first[:30]!r}. Translate the sentences of {name}, or leave translation out of {self.group}.views"
        )


class TextViews:
    """The changes of texts that a configuration asks for, in its order."""

    def __init__(self, views: Views) -> None:
        self.translations: Translations | None = None
        self._changes: list[Callable[[str, np.random.Generator], str]] = []
        for name in views.of_text:
            if name == "translation":
                self.translations = Translations(cast(str, views.translations), group=views.group)
                self._changes.append(self.translations.drawn)
            elif name == "synonym":
                self._changes.append(partial(builtin_synonyms().replaced, share=views.synonym))
            else:
                self._changes.append(reordered)

    def __bool__(self) -> bool:
        return bool(self._changes)

    def __call__(self, text: str, generator: np.random.Generator) -> str:
        for change in self._changes:
            text = change(text, generator)
        return text


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, without the blanks around them.

    >>> sentences_of("今天下雨。“走吧！”他说 Dr. Li came. We left")
    ['今天下雨。', '“走吧！”', '他说 Dr. Li came.', 'We left']
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    pieces = [text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return [piece for piece in pieces if piece]


def reordered(text: str, generator: np.random.Generator) -> str:
    """The sentences of a text in another order; a text of one sentence as it is."""
    pieces = sentences_of(text)
    if len(pieces) < 2:
        return text
    if pieces[-1][-1].isalnum():  # it may come to stand before another one
        pieces[-1] += "." if pieces[-1][-1].isascii() else "。"
    shuffled = [pieces[number] for number in generator.permutation(len(pieces))]
    return "".join(piece + " " * piece[-1].isascii() for piece in shuffled).rstrip()
