"""Functions of text: what messages repeat of it, its folded form, numerals, and Markdown."""

import math
import os
import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from functools import cache

from juzhen.core.paths import BUILTIN

UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
"""Unicode categories of what leaves no mark: control and format characters, separators."""

MOVING = (UNSEEN - {"Zs"}) | {"Cs"}
"""Of what a terminal may obey or cannot show: line ends, escapes, signs that turn the direction, half surrogates."""

LONGEST_WORD = 240
"""Characters without a space that a message repeats whole: most paths are shorter."""

LONGEST_NAME = 200
"""Bytes; file systems take 255, and a key or a suffix is added."""

NUL_FAULT = "holds a NUL byte, which is no character: the file is damaged, or no text"


def split_lines(text: str) -> list[str]:
    """The lines of a text of people: a line feed ends one, with a carriage return before it or without.

    `str.splitlines` ends one at eight further signs, which stand inside of texts (U+2028, U+0085, form feeds).

    >>> split_lines("一\\u2028二\\r\\n三\\n")
    ['一\\u2028二', '三']
    """
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def text_fault(value: object) -> str | None:
    """What is wrong with a text, as the end of a sentence; None where nothing is.

    >>> text_fault("好"), text_fault(" "), text_fault("\\u200b")
    (None, 'is empty', 'is empty: it holds only characters that cannot be seen, such as U+200B')
    """
    if value is None:
        return "is missing"
    if not isinstance(value, str):
        return f"is {short(repr(value))}, not a text"
    if not value.strip():
        return "is empty"
    if "\0" in value:
        return NUL_FAULT
    if any("\ud800" <= character <= "\udfff" for character in value):
        return "holds half a surrogate pair, which is no character"
    if is_unseen(value):
        return (
            f"is empty: it holds only characters that cannot be seen, such as U+{ord(value.strip()[0]):04X}"
        )
    return None


def is_unseen(text: str) -> bool:
    """No character of the text leaves a mark; quick where the first one does."""
    return not text[:1].isprintable() and all(unicodedata.category(character) in UNSEEN for character in text)


def name_fault(name: str) -> str | None:
    """What keeps a text from being the name of a file or a folder; None where nothing does."""
    if not name.strip() or name.startswith("."):
        return "it is empty, or begins with a dot"
    if any(sign in "/\\" or not sign.isprintable() for sign in name):
        return "it holds / or \\ or a sign that cannot be seen"
    if len(os.fsencode(name)) > LONGEST_NAME:
        return f"it is longer than {LONGEST_NAME} bytes"
    return None


def short(text: str, length: int = 60) -> str:
    """The text, cut where a message would drown in it, and on one line.

    >>> short("今天" * 50, 5), short("a\\nb")
    ('今天今天今… (100 characters)', 'a\\\\nb')
    """
    printable = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text[:length]
    )
    return printable if len(text) <= length else f"{printable}… ({len(text):,} characters)"


def short_where_apart(text: str, texts: Iterable[str], length: int = 60) -> str:
    """The text, cut so that what tells it from `texts` is seen, which may begin alike.

    >>> short_where_apart('{"rows": [1, 2, 3]}', ['{"rows": [1, 2, 4]}'], 12)
    '… [1, 2, 3]}'
    """
    if len(text) <= length:
        return short(text)
    shared = (len(os.path.commonprefix([text, other])) for other in texts if other != text)  # noqa: RUF071
    start = max(shared, default=0)
    start = max(0, min(start - length // 4, len(text) - length))
    return f"…{short(text[start + 1 :], length)}" if start else short(text, length)


def in_a_line(text: str) -> str:
    """The text with what moves a terminal spelt out, and the middle of endless words left out.

    >>> in_a_line("a\\nb\\x1b[31m"), len(in_a_line("x" * 5000))
    ('a\\\\nb\\\\x1b[31m', 221)
    """
    if not text.isprintable():
        text = "".join(
            ascii(character)[1:-1] if unicodedata.category(character) in MOVING else character
            for character in text
        )
    return re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda word: f"{word[0][:140]}…{word[0][-80:]}", text)


def time_in_words(seconds: float) -> str:
    """A length of time in the unit that suits it.

    >>> time_in_words(41.2), time_in_words(400), time_in_words(9000)
    ('41 s', '7 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


LARGEST = 2**32 - 1
"""That numpy and scikit-learn take for a seed; no number of rows or tokens is beyond it."""


def number_or_nan(text: str) -> float:
    """The number that a text spells, NaN where it spells none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def is_position(text: str) -> bool:
    """Whether `text` is a place counted from 0, in ASCII digits: isdigit() alone is also true of ² and ３."""
    return text.isascii() and text.isdigit()


def with_few_digits(text: str, others: Iterable[str]) -> str:
    """A long fraction by four digits, where these tell it from the others; any other text as it is.

    >>> with_few_digits("0.054000000000000006", ["0.054000000000000006", "0.05", "linear"])
    '0.054'
    """
    numbers = {other: other for other in (text, *others)}
    for other in numbers:
        if "." in other and len(other) > 7 and math.isfinite(number := number_or_nan(other)):
            numbers[other] = f"{number:.4g}"
    return numbers[text] if len({*numbers.values()}) == len(numbers) else text


def percent(part: float, total: float) -> str:
    """A part of a whole as people read it: with two digits below 1 %, and 100 of all alone.

    >>> percent(967, 1086), percent(10, 321800), percent(32, 32), percent(9999, 10000), percent(0, 7)
    ('89.0 %', '0.0031 %', '100.0 %', '99.9 %', '0.0 %')
    """
    share = 100 * part / total
    if part in (0, total):
        return f"{share:.1f} %"
    return f"{min(share, 99.9):.1f} %" if share >= 1 else f"{share:.2g} %"


TABLE = BUILTIN / "scripts" / "zh.tsv"
"""Traditional characters with their simplified ones; its README names the source and the rule of choice."""


def fold(text: str, *, script: bool = True) -> str:
    """Return a text in NFKC, in lower case, and in simplified characters.

    BM25, TF-IDF, the leak audit, near duplicates, `juzhen dataset` and mining filters compare texts in this form.

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


def in_markdown(text: str) -> str:
    """One line of a Markdown table that is shown as it is: no HTML, no link, no picture, no further column.

    What Markdown makes of stars and backticks stays, since tables mark their best with them.

    >>> in_markdown("<b>a</b> | [x](y)")
    '&lt;b>a&lt;/b> \\\\| [x]\\\\(y)'
    """
    text = " ".join(text.splitlines())
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)  # what follows a bare < in "p < 0.05" is no tag
    text = text.replace("](", r"]\(").replace("][", r"]\[")
    return re.sub(r"(?<!\\)\|", r"\|", text)


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Container[int] = ()
) -> str:
    """A table of Markdown; `numbers` are the places of the columns that stand at the right."""
    rules = ["--:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(map(in_markdown, line))} |" for line in (head, rules, *rows))
