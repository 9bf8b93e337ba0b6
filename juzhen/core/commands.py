"""Commands that are printed for people to type: words quoted for the shell, values as Hydra reads them."""

import re
import shlex
from collections.abc import Iterable

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


def command(*arguments: object, unquoted: Iterable[str] = ()) -> str:
    """A line for a shell that holds these words, each as it is; `unquoted`, such as …, stands behind them.

    >>> command("juzhen", "table", "my runs")
    "juzhen table 'my runs'"
    """
    return " ".join([shlex.join(map(str, arguments)), *unquoted])
