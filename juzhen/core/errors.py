"""UserError, the exception for mistakes of users, and the hints and commands that its messages print."""

import difflib
import math
import re
import shlex
import sys
from collections.abc import Collection, Iterable
from importlib.util import find_spec
from itertools import accumulate
from numbers import Real
from pathlib import Path
from typing import Any

from juzhen.core.paths import DISTRIBUTION, IS_CLONE, ROOT
from juzhen.core.text import in_a_line, short

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


PLAIN = re.compile(r"[A-Za-z_/.][\w/.:-]*", flags=re.ASCII)
"""What Hydra reads as the text that it is, beside the words of another meaning."""
WORDS_OF_YAML = ("null", "true", "false", "nan", "inf")


def setting(key: str, value: object) -> str:
    """`key=value`, for a value that is one text: with a comma, a blank, = or {} in it, it stands in quotes.

    >>> setting("data_dir", "/data/a,b")
    'data_dir="/data/a,b"'
    """
    text = str(value)
    if PLAIN.fullmatch(text) and text.lower() not in WORDS_OF_YAML:
        return f"{key}={text}"
    escaped = re.sub(r'(\\*)("|$)', lambda quote: quote[1] * 2 + quote[2].replace('"', '\\"'), text)
    escaped = escaped.replace("${", "\\${")  # no interpolation
    return f'{key}="{escaped}"'


def install_line(extra: str) -> str:
    """What to type for an extra: from the clone, the one of its folder with its pinned versions; else by its name.

    >>> install_line("onnx").startswith("pip install ")
    True
    """
    if not IS_CLONE:
        return command("pip", "install", f"{DISTRIBUTION}[{extra}]")
    folder, pinned = (".", "constraints.txt") if Path.cwd() == ROOT else (ROOT, ROOT / "constraints.txt")
    return command("pip", "install", "-e", f"{folder}[{extra}]", "-c", pinned)


def require_packages(user: str, *packages: str, extra: str, otherwise: str = "") -> None:
    """Raises UserError, with what to type, where a package that `user` needs is not installed.

    extra      the one that brings it
    otherwise  end of the message: what can be done instead
    """
    if missing := [package for package in packages if find_spec(package) is None]:
        raise UserError(f"{user} needs {', '.join(missing)}; type: {install_line(extra)}{otherwise}")


def command(*arguments: object, unquoted: Iterable[str] = ()) -> str:
    """A line for a shell that holds these words, each as it is; `unquoted`, such as …, stands behind them.

    >>> command("juzhen", "table", "my runs")
    "juzhen table 'my runs'"
    """
    return " ".join([shlex.join(map(str, arguments)), *unquoted])
