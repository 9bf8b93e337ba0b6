"""Numbers as people write them in files and on the command line: ASCII digits, and nothing that Python adds to them."""


def as_number(text: str) -> float:
    """The number that `text` spells. Raises ValueError for anything else.

    float() also takes the digits of other scripts and 1_0, which is a slip or a damaged file wherever it is found.

    >>> as_number(" 2.5 ")
    2.5
    >>> as_number("٣")
    Traceback (most recent call last):
    ValueError: '٣' is not a number in ASCII digits
    """
    if not text.isascii() or "_" in text:
        raise ValueError(f"{text!r} is not a number in ASCII digits")
    return float(text)


def is_position(text: str) -> bool:
    """Whether `text` is a place counted from 0, in ASCII digits: isdigit() alone is also true of ² and ３."""
    return text.isascii() and text.isdigit()
