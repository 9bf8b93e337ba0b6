"""Text as leaks compare it: without the differences that change no word."""

import re

from juzhen.core.folding import fold

# Ideographs with their extensions, kana, hangul, and the punctuation of these scripts.
_CJK = (
    "\u3001-\u303f\u3040-\u30ff\u3100-\u312f\u3130-\u318f\u31a0-\u31bf\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_SPACE_AT_CJK = re.compile(f" (?=[{_CJK}])|(?<=[{_CJK}]) ")
_NO_WIDTH = re.compile("[\u00ad\u200b\u200c\u200d\u2060\ufeff]+")
_ALL_MARKS = re.compile(r"[\W_]+")
_WORD = re.compile(f"[^\\W_{_CJK}]+")


def normalize(text: str) -> str:
    """Fold a text and make runs of white space one space, with none next to a Chinese character.

    >>> normalize(" ＡＢＣ 是　什麼 ? ")
    'abc是什么?'
    """
    text = " ".join(fold(_NO_WIDTH.sub("", text)).split())
    return text if text.isascii() or " " not in text else _SPACE_AT_CJK.sub("", text)


def without_end_marks(normalized: str) -> str:
    """A normalized text without the punctuation around it; as it is when there is nothing else.

    >>> without_end_marks("“花呗怎么还款？”")
    '花呗怎么还款'
    """
    start, end = 0, len(normalized)
    while start < end and not normalized[start].isalnum():
        start += 1
    while start < end and not normalized[end - 1].isalnum():
        end -= 1
    return normalized[start:end] or normalized


def weight(text: str) -> int:
    """Length in Chinese characters, a word of Latin letters or a number being worth two.

    >>> weight("python字符串"), weight("a man is playing")
    (5, 8)
    """
    tokens = _WORD.findall(text)
    return 2 * len(tokens) + sum(map(str.isalnum, text)) - sum(map(len, tokens))


def letters_only(normalized: str) -> str:
    """The letters and digits of a normalized text; the text itself when it has none.

    >>> letters_only("a man, playing.")
    'amanplaying'
    """
    return _ALL_MARKS.sub("", normalized) or normalized
