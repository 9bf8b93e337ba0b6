"""UserError, the exception for mistakes of users, and the hints and commands that its messages print."""

import difflib
import math
import re
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping
from importlib.util import find_spec
from itertools import accumulate
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from juzhen.core.paths import DISTRIBUTION, IS_CLONE, ROOT
from juzhen.core.text import in_a_line, short

MOST_LETTERS = 700
"""Letters of known words that a message lists: a set may have thousands of classes."""

MISTAKE_STATUS = 2
"""Exit status after a mistake of the user: running the same command again would not help."""
INTERRUPTED = "stopped by Ctrl-C"
TERMINATED = "stopped by SIGTERM"
INTERRUPTED_STATUS, TERMINATED_STATUS = 130, 143
"""128 + SIGINT and 128 + SIGTERM, as shells expect."""


class UserError(Exception):
    """A mistake that the user can fix. Programs print it without a traceback and exit with status 2.

    The message has two sentences: `<key>=<value>: <problem>. <what to do>.` It is printed as one line, whatever a file
    or a command line has put into it.

    Args:
        message: The two sentences.

    Example:
        >>> raise UserError("seed=x: not a whole number. Type seed=0.")
        Traceback (most recent call last):
        juzhen.core.errors.UserError: seed=x: not a whole number. Type seed=0.
    """

    def __init__(self, message: str) -> None:
        super().__init__(in_a_line(message))


class CallError(UserError, TypeError):
    """A call that lacks an argument, or has one that nobody takes.

    Args:
        message: Function, argument and the way out.
    """


LOADING = re.compile(r"(?P<start>, or l|\. L)oad it with (?P<reader>\w+)\.load\(…\)")
"""Advice of the library to those who call it from Python."""


def without_loading(message: str, instead: str, of_readers: Mapping[str, str] | None = None) -> str:
    """Replace the advice to load a folder with a class of Python, for programs.

    >>> without_loading("x: holds a cross-encoder. Load it with CrossEncoder.load(…)", "Name another")
    'x: holds a cross-encoder. Name another'
    >>> without_loading("x: no head. Name another, or load it with SentenceEncoder.load(…)", "Serve it")
    'x: no head. Name another'

    Args:
        message: A message.
        instead: The sentence that replaces the advice.
        of_readers: Class → its own sentence.

    Returns:
        The message.
    """

    def advice(found: re.Match[str]) -> str:
        is_end = found["start"].startswith(",")
        return "" if is_end else f". {(of_readers or {}).get(found['reader'], instead)}"

    return LOADING.sub(advice, message)


def foreign_reason(error: BaseException) -> str:
    """Return the message of another library in one line, without its advice to run code of a model or a data set.

    Args:
        error: The exception.

    Returns:
        One line.
    """
    said = getattr(error, "strerror", None) or error  # without the path, which the caller names
    text = re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(said).split())) or type(error).__name__
    if re.search("trust_remote_code|(custom|remote) code", text):
        return "it comes with code, and juzhen never runs the code of a model or of a data set"
    return text[:300]


def print_error(error: UserError) -> None:
    """Print a mistake on stderr, with secrets redacted.

    Args:
        error: The mistake.
    """
    from juzhen.core.secrets import redacted

    print(f"error: {redacted(str(error))}", file=sys.stderr)


def require_choice(key: str, value: object, choices: Collection[str]) -> None:
    """Require one of the choices. The message names the nearest one.

    Args:
        key: Name of the option, for the message.
        value: The given value.
        choices: Allowed values.

    Raises:
        UserError: The value is not a choice.
    """
    if value not in choices:
        raise UserError(f"{key}={value}: unknown choice. {nearest(str(value), choices)}")


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
    """Check that a value is a finite number in a range.

    Args:
        key: Key of the value in the configuration.
        value: The value.
        low: Smallest number.
        high: Largest number.
        open_low: Refuse `low` itself.
        open_high: Refuse `high` itself.
        optional: Accept None.

    Raises:
        UserError: Not a number, or outside the range.
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


def check_count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> None:
    """Raise UserError if the value is not an integer within the bounds.

    Args:
        name: Name of the option, for the message.
        value: Value of the caller. True and False are no integers.
        least: Smallest valid number.
        most: Largest valid number. None: no limit.

    Raises:
        UserError: Another type, or a number out of bounds.
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise UserError(f"{name}={short(repr(value), 40)}: expected a whole number, {bounds}")


def nearest(word: str, names: Iterable[str], *, prefix: str = "") -> str:
    """Return a sentence with the known words closest to a word, or with all known words if none is close.

    Args:
        word: The unknown word.
        names: The known words.
        prefix: Text before each close word.

    Returns:
        One sentence.

    >>> nearest("cosnet", ["cosent", "cosine", "triplet"])
    'Did you mean cosent?'
    >>> nearest("zzz", ["a", "b"])
    'Known: a, b'
    """
    names = sorted(set(names))
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if same := [name for name in names if name.lower() == word.lower()]:
        return f"Did you mean {prefix}{short(same[0])}?"
    # The same letters in another order are the likeliest slip.
    close.sort(key=lambda name: sorted(name) != sorted(word))
    if close:
        listed = close[:1] if close[0].startswith(word[:2]) else close
        return f"Did you mean {' or '.join(prefix + short(name) for name in listed)}?"
    ends = accumulate(len(short(name)) + 2 for name in names)
    shown = max(1, sum(end <= MOST_LETTERS for end in ends))
    ending = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return f"Known: {', '.join(map(short, names[:shown]))}{ending}" if names else "There are none"


PLAIN = re.compile(r"[A-Za-z_/.][\w/.:-]*", flags=re.ASCII)
"""Texts that Hydra reads as they are, apart from words with a meaning of their own."""
WORDS_OF_YAML = ("null", "true", "false", "nan", "inf")


def setting(key: str, value: object) -> str:
    """Return `key=value` for one text, or for a list of them. A text that Hydra would read otherwise is quoted.

    Args:
        key: Dotted name of the setting.
        value: Its value.

    Returns:
        Text for a command line.

    >>> setting("data_dir", "/data/a,b"), setting("dataset", ["csts", "客服"])
    ('data_dir="/data/a,b"', 'dataset=[csts,"客服"]')
    """
    if isinstance(value, list):
        return f"{key}=[{','.join(setting('', each)[1:] for each in value)}]"
    text = str(value)
    if PLAIN.fullmatch(text) and text.lower() not in WORDS_OF_YAML:
        return f"{key}={text}"
    escaped = re.sub(r'(\\*)("|$)', lambda quote: quote[1] * 2 + quote[2].replace('"', '\\"'), text)
    escaped = escaped.replace("${", "\\${")  # no interpolation
    return f'{key}="{escaped}"'


def install_line(extra: str) -> str:
    """Return the command that installs an extra: in a clone with its pinned versions, otherwise by its name.

    Args:
        extra: Name of the extra, such as "onnx".

    Returns:
        A line for a shell.

    >>> install_line("onnx").startswith("pip install ")
    True
    """
    if not IS_CLONE:
        return command("pip", "install", f"{DISTRIBUTION}[{extra}]")
    folder, pinned = (".", "constraints.txt") if Path.cwd() == ROOT else (ROOT, ROOT / "constraints.txt")
    return command("pip", "install", "-e", f"{folder}[{extra}]", "-c", pinned)


def require_packages(user: str, *packages: str, extra: str, otherwise: str = "") -> None:
    """Require installed packages. The message has the command to type.

    Args:
        user: Who needs the packages.
        *packages: Names of the packages.
        extra: The extra that installs them.
        otherwise: End of the message: an alternative.

    Raises:
        UserError: A package is missing.
    """
    if missing := [package for package in packages if find_spec(package) is None]:
        raise UserError(f"{user} needs {', '.join(missing)}. Type: {install_line(extra)}{otherwise}")


def command(*arguments: object, unquoted: Iterable[str] = ()) -> str:
    """Return a line for a shell, with each word quoted where it needs quotes.

    Args:
        *arguments: The words.
        unquoted: Words that follow without quotes, such as ….

    Returns:
        The line.

    >>> print(command("juzhen", "table", "my runs"), command("train.py", "training.duration='3 epochs'"))
    juzhen table 'my runs' train.py "training.duration='3 epochs'"
    """
    return " ".join([*map(_quoted, map(str, arguments)), *unquoted])


def typed(option: str, value: object) -> str:
    """Write an option in the form of the command line.

    Args:
        option: Its name in Python.
        value: Its value.

    Returns:
        The words to type.

    >>> typed("columns", {"anchor": "标准问", "positive": "相似问"}), typed("on_bad_row", "drop")
    ('--columns anchor=标准问,positive=相似问', '--on-bad-row drop')
    """
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    words = (
        ",".join(f"{key}={name}" for key, name in value.items()) if isinstance(value, Mapping) else str(value)
    )
    return (
        f"--{option.replace('_', '-')} {command(words) if not words.isprintable() or ' ' in words else words}"
    )


def in_python(option: str, value: object) -> str:
    """Write an option as an argument of a function.

    Args:
        option: Its name.
        value: Its value.

    Returns:
        The words to type.

    >>> in_python("columns", {"anchor": "标准问"})
    "columns={'anchor': '标准问'}"
    """
    return f"{option}={value!r}"


def _quoted(word: str) -> str:
    is_plain_in_double_quotes = "'" in word and not set(word) & {*'"$`\\!'}
    return f'"{word}"' if is_plain_in_double_quotes else shlex.quote(word)
