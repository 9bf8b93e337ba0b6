"""Commands that are printed for people to type: words quoted for the shell, values as Hydra reads them."""

import re
import shlex
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.places import DISTRIBUTION, IS_CLONE, ROOT

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
