"""Which texts cannot be compared with others, or be names, whoever brings them."""

import os
import re
import unicodedata
from collections.abc import Iterable

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
