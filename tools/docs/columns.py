"""Docstrings for the site: a block of names and meanings in two columns becomes a Google section, or a list."""

import re
from collections.abc import Collection, Iterator
from textwrap import dedent

from juzhen.cli.options import described_args

NAMES = r"[\w`*/.<>]+(?:, [\w`*/.<>]+)*"
COLUMNS = re.compile(rf"({NAMES})\s\s+(\S.*)")
BLANK = re.compile(r"\n\s*\n")


def as_markdown(text: str, parameters: Collection[str] = (), *, section: str = "Args") -> str:
    """Rewrite blocks of `name  meaning`, and indented blocks without a heading as code.

    Args:
        text: A docstring.
        parameters: Names of the section. A block with other names becomes a list.
        section: Heading of the section.

    Returns:
        The docstring with sections in Google style.
    """
    return "\n\n".join(_paragraph(block, parameters, section) for block in BLANK.split(text.strip("\n")))


def named_lines(text: str) -> Iterator[tuple[str, str]]:
    """Name and meaning of each line of a block in columns, and of Google sections."""
    yield from described_args(text).items()
    for block in BLANK.split(text):
        for names, about in _columns(block):
            yield from ((name, about) for name in names.split(", "))


def _paragraph(block: str, parameters: Collection[str], section: str) -> str:
    if pairs := _columns(block):
        named = [(name, about) for names, about in pairs for name in names.replace("*", "").split(", ")]
        if all(name in parameters for name, _ in named):
            return "\n".join([f"{section}:", *(f"    {name}: {_escaped(about)}" for name, about in named)])
        return "\n".join(f"- {_code(names)}: {_escaped(about)}" for names, about in pairs)
    if block.startswith(("    ", ">>>")):
        return f"```python\n{dedent(block)}\n```"
    return _escaped(block)


def _columns(block: str) -> list[tuple[str, str]]:
    """The names of a block and their meanings, or [] if it has no columns."""
    pairs: list[tuple[str, str]] = []
    for line in dedent(block).splitlines():
        if match := COLUMNS.fullmatch(line):
            pairs.append((match[1], match[2]))
        elif pairs and line.startswith(" "):
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {line.strip()}")
        else:
            return []
    return pairs


def _code(names: str) -> str:
    return ", ".join(f"`{name.strip('`')}`" for name in names.split(", "))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("$", "&#36;")
