"""The one exception for mistakes of the person at the keyboard, and the hint that goes with it."""

import difflib
import math
import re
import sys
from collections.abc import Collection, Iterable
from itertools import accumulate
from numbers import Real
from typing import Any

from juzhen.core.texts import in_a_line, short

MOST_LETTERS = 700
"""Of the known words that a message lists; of classes of texts there may be thousands."""

MISTAKE_STATUS = 2
"""Exit status of a program after a mistake of the user: to start it again would not help."""
INTERRUPTED = "stopped by Ctrl-C"
INTERRUPTED_STATUS = 130
"""128 and the number of SIGINT, as shells expect it."""


class UserError(Exception):
    """Something the user can mend: shown as plain text without a traceback, exit status 2.

    The message says what was given, what was expected, and what to type instead. It is one line on any terminal,
    whatever a file or a command line has put into it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(in_a_line(message))


def foreign_reason(error: BaseException) -> str:
    """What another library says, in one line, and never its advice to run code that comes with a model or with data."""
    text = " ".join(str(error).split()) or type(error).__name__
    if re.search("trust_remote_code|(custom|remote) code", text):
        return "it brings code of its own, and juzhen runs no code that comes with a model or with data"
    return text[:300]


def print_error(error: UserError) -> None:
    """Shows a mistake on stderr, without what looks like a secret."""
    from juzhen.core.secrets import redacted

    print(f"error: {redacted(str(error))}", file=sys.stderr)


def require_choice(key: str, value: object, choices: Collection[str]) -> None:
    """Raises UserError, with the nearest choice, for a value that is none of them."""
    if value not in choices:
        raise UserError(f"{key}={value}: {nearest(str(value), choices)}")


def require_number(
    key: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
    optional: bool = False,
) -> None:
    """Raises UserError for what is no finite number from `low` to `high`.

    open_low, open_high  the end itself is refused, too
    optional             None passes
    """
    if value is None and optional:
        return
    is_number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    is_out = not is_number or not low <= value <= high
    if is_out or (open_low and value == low) or (open_high and value == high):
        lower = f"above {low:g}" if open_low else f"from {low:g}" if math.isfinite(low) else ""
        link = "and below" if open_low and open_high else "to below" if open_high else "to"
        upper = f"{link} {high:g}" if math.isfinite(high) else ""
        raise UserError(" ".join(filter(None, (f"{key}={value}: expected a number", lower, upper))))


def nearest(word: str, names: Iterable[str]) -> str:
    """The known words closest to `word`, as the end of a sentence; all of them when none is close.

    >>> nearest("cosnet", ["cosent", "cosine", "triplet"])
    'did you mean cosent?'
    >>> nearest("zzz", ["a", "b"])
    'known: a, b'
    """
    names = sorted(set(names))
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if same := [name for name in names if name.lower() == word.lower()]:
        return f"did you mean {short(same[0])}?"
    # Letters that are all there and only in another order are the likeliest slip.
    close.sort(key=lambda name: sorted(name) != sorted(word))
    if close:
        listed = close[:1] if close[0].startswith(word[:2]) else close
        return f"did you mean {' or '.join(map(short, listed))}?"
    ends = accumulate(len(short(name)) + 2 for name in names)
    shown = max(1, sum(end <= MOST_LETTERS for end in ends))
    ending = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return f"known: {', '.join(map(short, names[:shown]))}{ending}" if names else "there are none"
