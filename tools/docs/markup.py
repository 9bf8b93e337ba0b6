"""Pieces of Markdown: tables, names, and docstrings of two columns, which become a Google section or a list."""

import re
from collections.abc import Collection, Iterable, Sequence
from textwrap import dedent


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; a bar in a cell does not end it."""
    parts = [headings, ["---"] * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in parts) + "\n"


def code(text: object) -> str:
    """As it is written in a file or on a command line; nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def plain(text: str) -> str:
    """Text that is no Markdown, as it reads; what stands in backquotes stays code."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        for sign in "&<*$":
            parts[number] = parts[number].replace(sign, f"&#{ord(sign)};")
    return "`".join(parts)


def as_yaml(value: object) -> str:
    """A value as a configuration spells it, on one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {as_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


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
