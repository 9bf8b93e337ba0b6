"""Functions of text: what messages repeat of it, its folded form, numerals, and Markdown."""

import math
import os
import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from functools import cache

from juzhen.core.paths import BUILTIN

BLANK = re.compile("[\u034f\u115f\u1160\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Signs of other categories that show nothing: fillers, the blank of braille, and variation selectors."""

UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
"""Unicode categories of invisible characters: control and format characters, separators."""

MOVING = (UNSEEN - {"Zs"}) | {"Cs"}
"""Categories that a terminal may obey or cannot show: line ends, escapes, direction marks, lone surrogates."""

LONGEST_WORD = 240
"""Longest run without a space that a message repeats in full: most paths are shorter."""

LONGEST_NAME = 200
"""Bytes of a file name. File systems take 255, and a key or a suffix is added."""

SINGULAR = {"ies": "y", "sses": "ss", "ches": "ch", "xes": "x"}
"""End of a noun for several → for one."""

ONE_OF_SEVERAL = re.compile("(ies|sses|ches|xes|s)$")

BEYOND = re.compile("[\U00010000-\U0010ffff]")
"""Signs beyond U+FFFF."""

NUL_FAULT = "holds a NUL byte, which is no character: it is damaged, or no text"


def split_lines(text: str) -> list[str]:
    """Split a text at line feeds, with a carriage return before them or not.

    `str.splitlines` also splits at eight other characters, which occur inside texts (U+2028, U+0085, form feeds).

    Args:
        text: Text of a file.

    Returns:
        Lines without their ends. A last empty line is left out.

    >>> split_lines("一\\u2028二\\r\\n三\\n")
    ['一\\u2028二', '三']
    """
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def text_fault(value: object) -> str | None:
    """Return the fault of a text, as the end of a sentence, or None.

    Args:
        value: Value of a cell.

    Returns:
        Words behind the name of the text. None for a text that can be encoded.

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
    """True if every character is invisible. Quick if the first one is visible.

    Args:
        text: Any text.

    Returns:
        True also for "".
    """
    may_be = not text[:1].isprintable() or BLANK.match(text)
    return bool(may_be) and all(
        unicodedata.category(character) in UNSEEN or BLANK.match(character) for character in text
    )


def name_fault(name: str) -> str | None:
    """Return the reason why a text cannot be the name of a file or folder, or None.

    Args:
        name: Name without its folder.

    Returns:
        A clause that begins with "it".
    """
    if not name.strip() or name.startswith("."):
        return "it is empty, or begins with a dot"
    if any(sign in "/\\" or not sign.isprintable() for sign in name):
        return "it holds / or \\ or a sign that cannot be seen"
    if len(os.fsencode(name)) > LONGEST_NAME:
        return f"it is longer than {LONGEST_NAME} bytes"
    return None


def counted(number: int, several: str, one: str | None = None) -> str:
    """Write a number with its noun.

    Args:
        number: At least 0.
        several: Words behind other numbers than 1. They end with their noun, or `one` is given.
        one: Words behind 1.

    Returns:
        The number with commas, and the words.

    >>> counted(1, "faulty rows"), counted(1200, "queries"), counted(1, "rows are left", "row is left")
    ('1 faulty row', '1,200 queries', '1 row is left')
    """
    if number != 1:
        return f"{number:,} {several}"
    return f"1 {one or ONE_OF_SEVERAL.sub(lambda ending: SINGULAR.get(ending[0], ''), several)}"


def short(text: str, length: int = 60) -> str:
    """Shorten a text to one line for a message.

    Args:
        text: Any text.
        length: Most characters. The rest is counted.

    Returns:
        One line, with characters that cannot be printed as escapes.

    >>> short("今天" * 50, 5), short("a\\nb")
    ('今天今天今… (100 characters)', 'a\\\\nb')
    """
    printable = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text[:length]
    )
    return printable if len(text) <= length else f"{printable}… ({len(text):,} characters)"


def short_where_apart(text: str, texts: Iterable[str], length: int = 60) -> str:
    """Shorten a text so that its difference from similar texts stays visible.

    Args:
        text: Text to shorten.
        texts: Similar texts. The text may be among them.
        length: Most characters.

    Returns:
        One line. It begins shortly before the first difference if that is further on than the length.

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
    """Escape the characters that move a terminal's cursor, and shorten endless words.

    Args:
        text: Any text.

    Returns:
        One line. Words longer than LONGEST_WORD have "…" in their middle.

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
    """Format a duration in a suitable unit.

    Args:
        seconds: Duration, at least 0.

    Returns:
        Seconds below 100 s, minutes below 100 min, else hours.

    >>> time_in_words(41.2), time_in_words(400), time_in_words(9000)
    ('41 s', '7 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


LARGEST = 2**32 - 1
"""Largest seed of numpy and scikit-learn. No number of rows or tokens is larger."""


def number_or_nan(text: str) -> float:
    """Parse a number. NaN if the text is not a number.

    Args:
        text: As `float` reads it.

    Returns:
        The number. It may be infinite.
    """
    try:
        return float(text)
    except ValueError:
        return math.nan


def is_position(text: str) -> bool:
    """True for ASCII digits. `isdigit()` alone also accepts ² and ３.

    Args:
        text: Any text.

    Returns:
        False for "", signs and spaces.
    """
    return text.isascii() and text.isdigit()


def with_few_digits(text: str, others: Iterable[str]) -> str:
    """Shorten a long fraction to four digits if these still differ from the other values. Other texts stay.

    Args:
        text: Value as typed.
        others: Values that are shown next to it. The text may be among them.

    Returns:
        The text, or the number with four significant digits.

    >>> with_few_digits("0.054000000000000006", ["0.054000000000000006", "0.05", "linear"])
    '0.054'
    """
    numbers = {other: other for other in (text, *others)}
    for other in numbers:
        if "." in other and len(other) > 7 and math.isfinite(number := number_or_nan(other)):
            numbers[other] = f"{number:.4g}"
    return numbers[text] if len({*numbers.values()}) == len(numbers) else text


def percent(part: float, total: float) -> str:
    """Format a share in percent: two digits below 1 %, and 100 only for the whole.

    Args:
        part: Number of the part, from 0 to the total.
        total: Number of the whole, above 0.

    Returns:
        Such as "89.0 %".

    >>> percent(967, 1086), percent(10, 321800), percent(32, 32), percent(9999, 10000), percent(0, 7)
    ('89.0 %', '0.0031 %', '100.0 %', '99.9 %', '0.0 %')
    """
    share = 100 * part / total
    if part in (0, total):
        return f"{share:.1f} %"
    return f"{min(share, 99.9):.1f} %" if share >= 1 else f"{share:.2g} %"


TABLE = BUILTIN / "scripts" / "zh.tsv"
"""Traditional characters with their simplified ones. Its README has the source and the rule of choice."""


def fold(text: str, *, script: bool = True) -> str:
    """Return a text in NFKC, in lower case, and in simplified characters.

    BM25, TF-IDF, the leak audit, near duplicates, `juzhen dataset` and mining filters compare texts in this form.

    Args:
        text: Any text. Its words and its white space stay.
        script: Fold traditional characters, each by itself, as `script_table` lists them.

    Returns:
        The folded text.

    Example:
        >>> fold("ＩＰＨＯＮＥ１５ 訂單"), fold("訂單", script=False)
        ('iphone15 订单', '訂單')
    """
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).lower()
    return _simplified(folded) if script else folded


def fold_lines(text: str) -> str:
    """Return `fold` of each line, at once. A line break ends every rule of Unicode that looks at neighbours.

    Args:
        text: Lines divided by line feeds.

    Returns:
        The same number of lines.
    """
    # Short lines are normalized in half the time of their sum.
    return _simplified("\n".join([unicodedata.normalize("NFKC", line) for line in text.split("\n")]).lower())


def _rows_of_table() -> list[list[str]]:
    return [line.split("\t") for line in TABLE.read_text(encoding="utf-8").split("\n")[1:] if line]


@cache
def script_table() -> dict[str, str]:
    """Read the table: traditional character → simplified character.

    Returns:
        1 character → 1 character. The table is read once.
    """
    return {character: simple for character, simple, *_ in _rows_of_table()}


@cache
def inverse_table() -> dict[str, str]:
    """Read the table backwards: simplified character → its most frequent traditional character.

    Several traditional characters fold to one (髮 and 發 to 发). If their counts are equal, the first one is taken.

    Returns:
        1 character → 1 character. The table is read once.
    """
    counts: dict[str, tuple[int, str]] = {}
    for character, simple, agree, *_ in _rows_of_table():
        if simple not in counts or int(agree) > counts[simple][0]:
            counts[simple] = int(agree), character
    return {simple: character for simple, (_, character) in counts.items()}


def _simplified(text: str) -> str:
    for signs in _traditional():
        text = signs.sub(lambda found: script_table().get(found[0], found[0]), text)
    return text


@cache
def _traditional() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of what may be traditional. A class with signs beyond U+FFFF is 30 times slower."""
    return re.compile(f"[{BEYOND.sub('', ''.join(script_table()))}]"), BEYOND


def in_markdown(text: str) -> str:
    """Escape a cell of a Markdown table: no HTML, link, picture or further column.

    Stars and backticks keep their meaning, because tables mark their best values with them.

    Args:
        text: Content of the cell. Its line breaks become spaces.

    Returns:
        One line.

    >>> in_markdown("<b>a</b> | [x](y)")
    '&lt;b>a&lt;/b> \\\\| [x]\\\\(y)'
    """
    text = " ".join(text.splitlines())
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)  # a bare < as in "p < 0.05" does not start a tag
    text = text.replace("](", r"]\(").replace("][", r"]\[")
    return re.sub(r"(?<!\\)\|", r"\|", text)


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Container[int] = ()
) -> str:
    """Return a Markdown table. Columns whose index is in `numbers` are aligned to the right.

    Args:
        head: Names of the columns.
        rows: Cells, as many in each row as there are columns. They are escaped.
        numbers: Indices, from 0, of columns that are aligned to the right.

    Returns:
        Lines without a line feed at the end.
    """
    rules = ["--:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(map(in_markdown, line))} |" for line in (head, rules, *rows))


def keys_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make a JSON object, as `object_pairs_hook` of `json.loads`. The parser alone would take the last of equal keys.

    Args:
        pairs: Keys and values in the order of the text.

    Returns:
        The object.

    Raises:
        ValueError: A repeated key.
    """
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {short(twice)!r} appears twice in the object")
    return record
