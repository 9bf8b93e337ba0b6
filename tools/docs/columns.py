"""Docstrings as Markdown: a block of names with their meaning, set in columns, becomes a list."""

import re
from collections.abc import Iterator
from textwrap import dedent

NAMES = r"[\w`*/.<>]+(?:, [\w`*/.<>]+)*"
COLUMNS = re.compile(rf"({NAMES})\s\s+(\S.*)")
BLANK = re.compile(r"\n\s*\n")


def as_markdown(text: str) -> str:
    """Paragraphs of `name  meaning` become lists, what is indented and examples become code; all else stays."""
    return "\n\n".join(map(_paragraph, BLANK.split(text.strip("\n"))))


def named_lines(text: str) -> Iterator[tuple[str, str]]:
    """Name and meaning of each line of the blocks that are set in columns."""
    for block in BLANK.split(text):
        for names, about in _columns(block):
            yield from ((name, about) for name in names.split(", "))


def _paragraph(block: str) -> str:
    if pairs := _columns(block):
        return "\n".join(f"- {_code(names)}: {_escaped(about)}" for names, about in pairs)
    if block.startswith(("    ", ">>>")):
        return f"```python\n{dedent(block)}\n```"
    return _escaped(block)


def _columns(block: str) -> list[tuple[str, str]]:
    """The names of a block and their meanings; [] where it is no such block."""
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
